"""Files of TOML, with changes from the command line."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from batchline.errors import InvalidFile, InvalidRules

__all__ = ["read_toml"]


def read_toml(path: Path, changes: Sequence[str] = ()) -> dict[str, Any]:
    """The tables in a file, with changes such as `capacity.factor=500`."""
    tables = _tables(path)
    for change in changes:
        _change(tables, change)
    return tables


def _tables(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidFile(f"{path} cannot be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidFile(f"{path} is no TOML: {error}") from error


def _change(tables: dict[str, Any], change: str) -> None:
    """Set one value; a job is named by its number: `jobs.1.cost=5`."""
    key, equals, text = change.partition("=")
    names = [name.strip() for name in key.split(".")]
    if not equals or not all(names):
        raise InvalidRules(f"--set expects a key and a value such as capacity.factor=500, got {change!r}")
    table: Any = tables
    for name in names[:-1]:
        table = _inner(table, name, change)
    if not isinstance(table, dict):
        raise InvalidRules(f"--set {change}: there is no table to set {names[-1]!r} in")
    if text.strip():
        table[names[-1]] = _value(text.strip())
    else:
        table.pop(names[-1], None)


def _inner(table: Any, name: str, change: str) -> Any:
    if isinstance(table, list):
        if name.isascii() and name.isdecimal() and 1 <= int(name) <= len(table):
            return table[int(name) - 1]
        raise InvalidRules(f"--set {change}: expected a number from 1 to {len(table)}, got {name!r}")
    return table.setdefault(name, {}) if isinstance(table, dict) else None


def _value(text: str) -> Any:
    """A value as TOML has it; what is none is a text, so that spans need no quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
