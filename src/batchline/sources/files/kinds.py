"""The kinds of JSON values, field by field: a file's fields keep the kind they first had."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import pyarrow as pa

from batchline.sources.files.values import shown_value

__all__ = ["Kinds", "kind_of"]

#: A field, as the names that lead to it.
Place: TypeAlias = tuple[str, ...]
ITEM: Final = "[]"
NESTED: Final = frozenset([dict, list])
#: Nobody measures deeper, and what reads or shows values deeper still may run out of stack.
DEEPEST: Final = 64

BY_CLASS: Final[Mapping[type, str]] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a string",
    dict: "an object",
    list: "an array",
    type(None): "null",
}


def kind_of(value: object) -> str:
    """What a JSON value is, in words."""
    return BY_CLASS[type(value)]


class Kinds:
    """What the fields of a file are, learned as its lines come; some are fixed from the start."""

    def __init__(self, fixed: Mapping[str, str]) -> None:
        self._fixed: dict[Place, str] = {(name,): kind for name, kind in fixed.items()}
        self._known = dict(self._fixed)
        #: The names and classes in rows without nested values that were found to fit: most rows are like another.
        self._fitting: set[tuple[object, ...]] = set()

    def learn(self, row: dict[str, Any]) -> str | None:
        """Takes in the fields of a row, or says which of them is not what it should be, and learns nothing."""
        shape = (*row, *map(type, row.values()))
        if shape in self._fitting:
            return None
        reason = self._learn((place, kind_of(value), value) for place, value in _fields(row))
        if reason is None and not NESTED.intersection(shape):
            self._fitting.add(shape)
        return reason

    def learn_schema(self, schema: pa.Schema) -> str | None:
        """The same for a whole table."""
        return self._learn((place, kind, kind) for field in schema for place, kind in _types((field.name,), field.type))

    def _learn(self, fields: Iterable[tuple[Place, str, Any]]) -> str | None:
        fresh: dict[Place, str] = {}
        for place, kind, value in fields:
            known = self._known.get(place) or fresh.setdefault(place, kind)
            if known != kind:
                rule = known if place in self._fixed else f"{known} as where it first came"
                return f"{'.'.join(place)} must be {rule}, got {shown_value(value)}"
        self._known.update(fresh)
        return None


def _fields(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """The fields in a value, at any depth, that are not null."""
    _check_depth(place)
    if isinstance(value, dict):
        inner: Iterable[tuple[str, Any]] = value.items()
    else:
        inner = ((ITEM, item) for item in value) if isinstance(value, list) else ()
    for name, part in inner:
        if part is not None:
            yield (*place, name), part
            if type(part) in NESTED:
                yield from _fields(part, (*place, name))


def _types(place: Place, kind: pa.DataType) -> Iterator[tuple[Place, str]]:
    """The same for the type of a column."""
    _check_depth(place)
    if not pa.types.is_null(kind):
        yield place, _kind_of_type(kind)
    if pa.types.is_list(kind):
        yield from _types((*place, ITEM), kind.value_type)
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _types((*place, field.name), field.type)


def _kind_of_type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return BY_CLASS[list]
    if pa.types.is_struct(kind):
        return BY_CLASS[dict]
    if pa.types.is_boolean(kind):
        return BY_CLASS[bool]
    # Arrow takes texts that look like times for timestamps.
    return BY_CLASS[str] if pa.types.is_string(kind) or pa.types.is_timestamp(kind) else BY_CLASS[int]


def _check_depth(place: Place) -> None:
    if len(place) > DEEPEST:
        raise RecursionError(f"values are nested more than {DEEPEST} deep")
