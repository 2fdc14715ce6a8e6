"""Values out of tables, as a file of TOML has them; whatever is wrong is named with its table."""

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from datetime import timedelta
from typing import Any, get_args, get_origin

from batchline.core.moment import span_of
from batchline.errors import InvalidRules, did_you_mean, shown

__all__ = ["Table", "built", "check_keys", "table_of", "value_of"]

Table = Mapping[str, Any]


def built(kind: Any, where: str, table: object, renamed: Mapping[str, str] | None = None) -> Any:
    """A dataclass out of its table, with texts as spans where spans belong, and lists as tuples."""
    theirs = {name: key for key, name in (renamed or {}).items()}
    ours = {theirs.get(field.name, field.name): field for field in fields(kind)}
    entries = table_of(where, table)
    check_keys(f"[{where}]", entries, tuple(ours))
    missing = [key for key, field in ours.items() if key not in entries and _is_needed(field)]
    if missing:
        raise InvalidRules(f"[{where}] needs {', '.join(missing)}")
    try:
        return kind(**{ours[key].name: value_of(key, ours[key], value) for key, value in entries.items()})
    except InvalidRules as error:
        raise InvalidRules(f"[{where}] {error}") from error


def _is_needed(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def value_of(key: str, field: Field[Any], value: object) -> Any:
    """A text as a span, where one belongs, and a list as a tuple; what is neither as it is."""
    if isinstance(value, list):
        return tuple(value)
    if get_origin(field.type) is tuple and not isinstance(value, tuple):
        raise InvalidRules(f"{key} must be a list, got {shown(value)}")
    if timedelta not in (field.type, *get_args(field.type)) or isinstance(value, timedelta):
        return value
    if not isinstance(value, str):
        raise InvalidRules(f"{key} must be a span such as '500ms' or '2m', got {shown(value)}")
    try:
        return span_of(value)
    except (ValueError, OverflowError) as error:
        raise InvalidRules(f"{key}: {error}") from error


def table_of(where: str, table: object) -> Table:
    """A table, if it is one."""
    if not isinstance(table, Mapping):
        raise InvalidRules(f"[{where}] must be a table, got {shown(table)}")
    return table


def check_keys(where: str, table: Table, known: tuple[str, ...]) -> None:
    """A table has no other keys than the known ones."""
    for key in table:
        if key not in known:
            raise InvalidRules(f"{where} has no key {key!r}{did_you_mean(str(key), known)}")
