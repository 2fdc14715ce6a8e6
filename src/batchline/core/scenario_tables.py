"""A scenario out of tables, as a file of TOML has them; whatever is wrong is named with its table."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Final

from batchline.core.adaptive import Adaptive
from batchline.core.dispatch_rules import DispatchRules
from batchline.core.ramp import Ramp
from batchline.core.retry import RetryRules
from batchline.core.scenario import CapacityPlan, Job, Life, Receiver, Scenario
from batchline.core.share import ShareRules
from batchline.core.tables import Table, built, check_keys, table_of, value_of
from batchline.errors import InvalidRules, shown

__all__ = ["scenario_of"]

#: What a simulated dispatcher has no use for, since nobody listens and arrivals wait; and what is a table of its own.
NOT_HERE: Final = {"emit_batch", "error_on_full_buffer", "backoff"}
SHARE_KEYS: Final = tuple(field.name for field in fields(ShareRules))
TOP_KEYS: Final = ("longest", "seed", "receiver", "capacity", "dispatcher", "instances", "jobs")


def scenario_of(tables: Table) -> Scenario:
    """The scenario that tables describe; else InvalidRules, which says where and what was expected."""
    check_keys("the file", tables, TOP_KEYS)
    for name in ("receiver", "capacity", "jobs"):
        if name not in tables:
            raise InvalidRules(f"[{name}] is missing")
    count, lives = _instances(table_of("instances", tables.get("instances", {})))
    dispatcher, max_batch_size = _dispatcher(table_of("dispatcher", tables.get("dispatcher", {})))
    top = {
        field.name: value_of(field.name, field, tables[field.name])
        for field in fields(Scenario)
        if field.name in ("longest", "seed") and field.name in tables
    }
    return Scenario(
        receiver=built(Receiver, "receiver", tables["receiver"]),
        capacity=_capacity(table_of("capacity", tables["capacity"])),
        jobs=tuple(_jobs(tables["jobs"])),
        instances=count,
        lives=lives,
        dispatcher=dispatcher,
        max_batch_size=max_batch_size,
        **top,
    )


def _capacity(table: Table) -> CapacityPlan:
    check_keys("[capacity]", table, (*SHARE_KEYS, "provisioned", "ramp", "adaptive"))
    parts: dict[str, Any] = {}
    share = {name: table[name] for name in SHARE_KEYS if name in table}
    if share:
        if "shared" not in share:
            raise InvalidRules(f"[capacity] {', '.join(share)} belong to shared, which is missing")
        parts["shared"] = built(ShareRules, "capacity", share)
    if "provisioned" in table:
        parts["provisioned"] = table["provisioned"]
    for name, kind in (("ramp", Ramp), ("adaptive", Adaptive)):
        if name in table:
            parts[name] = built(kind, f"capacity.{name}", table[name])
    return built(CapacityPlan, "capacity", parts)  # type: ignore[no-any-return] # as it says


def _dispatcher(table: Table) -> tuple[DispatchRules, int | None]:
    known = [field.name for field in fields(DispatchRules) if field.name not in NOT_HERE]
    check_keys("[dispatcher]", table, (*known, "max_batch_size", "backoff"))
    rules = {name: table[name] for name in known if name in table}
    if "backoff" in table:
        rules["backoff"] = built(RetryRules, "dispatcher.backoff", table["backoff"])
    return built(DispatchRules, "dispatcher", rules), table.get("max_batch_size")


def _instances(table: Table) -> tuple[int, dict[int, Life]]:
    lives = {}
    for key, life in table.items():
        if key != "count":
            if not (key.isascii() and key.isdecimal()):
                raise InvalidRules(f"[instances] has a count, and tables by number such as [instances.1], got {key!r}")
            lives[int(key)] = built(Life, f"instances.{key}", life)
    return table.get("count", 1), lives


def _jobs(tables: object) -> Iterator[Job]:
    if not isinstance(tables, list):
        raise InvalidRules(f"jobs are written as [[jobs]], each one, got {shown(tables)}")
    for number, entry in enumerate(tables, 1):
        table = dict(table_of("jobs", entry))
        table.setdefault("name", f"job {number}")
        if not isinstance(table["name"], str):
            raise InvalidRules(f"[[jobs]] name must be a text, got {shown(table['name'])}")
        if "on" in table:
            table["on"] = _numbers(table["name"], table["on"])
        yield built(Job, f"jobs {table['name']!r}", table, renamed={"for": "lasts"})


def _numbers(job: str, on: object) -> tuple[int, ...] | None:
    if on == "all":
        return None
    several = [on] if isinstance(on, int) else on
    if not isinstance(several, list) or not several:
        raise InvalidRules(f"job {job!r}: on must be numbers of instances such as [1, 2], or 'all', got {shown(on)}")
    return tuple(several)
