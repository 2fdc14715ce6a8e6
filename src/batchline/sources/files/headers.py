"""The columns a file says it has, held against those that are needed; what does not fit is refused by name."""

from collections.abc import Sequence
from pathlib import Path

from batchline.columnar.columns import NEEDED
from batchline.errors import InvalidFile
from batchline.sources.files.pieces import Names
from batchline.sources.files.values import NAMEABLE, rest_of

__all__ = ["check_header", "check_taken"]


def check_header(path: Path, columns: Sequence[str], names: Names) -> None:
    """The file has every column that is needed or was named, and none of them twice."""
    twice = [name for name in dict.fromkeys(columns) if columns.count(name) > 1]
    if twice:
        raise InvalidFile(f"{path} has more than one column {', '.join(twice)}")
    named = [name for name in NAMEABLE if name in NEEDED or names[name] != name]
    missing = [name for name in named if names[name] not in columns]
    if missing:
        lacks = ", ".join(names[name] for name in missing)
        there = ", ".join(columns) or "none"
        hint = f"to name another one: --columns {missing[0]}=NAME"
        raise InvalidFile(f"{path} has no column {lacks}; its columns are {there}; {hint}")
    check_taken(path, columns, names)


def check_taken(path: Path, columns: Sequence[str], names: Names) -> None:
    """No other column of the file bears the name that a renamed one gets."""
    for name in rest_of(columns, names):
        if name in NAMEABLE:
            raise InvalidFile(f"{path} has a column {name} beside {names[name]}, which is to be read as {name}")
