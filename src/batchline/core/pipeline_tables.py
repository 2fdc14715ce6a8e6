"""A pipeline out of tables, as a file of TOML has them; whatever is wrong is named with its table."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from batchline.core.batch_rules import BatchRules
from batchline.core.pack_rules import PackRules
from batchline.core.pipeline import Capacity, Pipeline, Publication, SinkAddress, Source, Work
from batchline.core.retry import RetryRules
from batchline.core.tables import Table, built, check_keys, table_of
from batchline.errors import InvalidName, InvalidPipeline, InvalidRules

__all__ = ["pipeline_of"]

PARTS: Final = {
    "source": Source,
    "batch": BatchRules,
    "pack": PackRules,
    "publish": Publication,
    "capacity": Capacity,
    "sink": SinkAddress,
    "work": Work,
}
NEEDED: Final = ("name", "out", "source", "publish")
TOP: Final = tuple(field.name for field in fields(Pipeline))
#: Parts whose other keys are options of what their address names.
OPEN: Final = ("sink",)


def pipeline_of(tables: Table) -> Pipeline:
    """The pipeline that tables describe; else InvalidPipeline, which says where and what was expected."""
    try:
        check_keys("the file", tables, TOP)
        _check_there(tables)
        parts = {name: _part(name, kind, tables[name]) for name, kind in PARTS.items() if name in tables}
        rest = {name: tables[name] for name in ("name", "out", "master", "spark") if name in tables}
        return Pipeline(**rest, **parts)
    except (InvalidRules, InvalidName) as error:
        raise InvalidPipeline(str(error)) from error


def _check_there(tables: Table) -> None:
    missing = [name if name in ("name", "out") else f"[{name}]" for name in NEEDED if name not in tables]
    if missing:
        raise InvalidRules(f"the file needs {', '.join(missing)}")


def _part(name: str, kind: Any, table: object) -> Any:
    entries = dict(table_of(name, table))
    if name == "work" and isinstance(entries.get("retry"), Mapping):
        entries["retry"] = built(RetryRules, "work.retry", entries["retry"])
    if name in OPEN:
        own = {field.name for field in fields(kind)} - {"options"}
        options = {key: value for key, value in entries.items() if key not in own}
        entries = {key: value for key, value in entries.items() if key in own}
        entries["options"] = options
    return built(kind, name, entries)
