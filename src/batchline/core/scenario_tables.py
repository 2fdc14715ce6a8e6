"""A scenario out of tables, as a file of TOML has them; whatever is wrong is named with its table."""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields
from datetime import timedelta
from typing import Any, Final, get_args

from batchline.core.adaptive import Adaptive
from batchline.core.dispatch_rules import DispatchRules
from batchline.core.moment import span_of
from batchline.core.ramp import Ramp
from batchline.core.retry import RetryRules
from batchline.core.scenario import CapacityPlan, Job, Life, Receiver, Scenario
from batchline.core.share import ShareRules
from batchline.errors import InvalidRules, did_you_mean, shown

__all__ = ["scenario_of"]

Table = Mapping[str, Any]
#: What a simulated dispatcher has no use for, since nobody listens and arrivals wait; and what is a table of its own.
NOT_HERE: Final = {"emit_batch", "error_on_full_buffer", "backoff"}
SHARE_KEYS: Final = tuple(field.name for field in fields(ShareRules))
TOP_KEYS: Final = ("longest", "seed", "receiver", "capacity", "dispatcher", "instances", "jobs")


def scenario_of(tables: Table) -> Scenario:
    """The scenario that tables describe; else InvalidRules, which says where and what was expected."""
    _check_keys("the file", tables, TOP_KEYS)
    for name in ("receiver", "capacity", "jobs"):
        if name not in tables:
            raise InvalidRules(f"[{name}] is missing")
    count, lives = _instances(_table("instances", tables.get("instances", {})))
    dispatcher, max_batch_size = _dispatcher(_table("dispatcher", tables.get("dispatcher", {})))
    top = {
        field.name: _value(field.name, field, tables[field.name])
        for field in fields(Scenario)
        if field.name in ("longest", "seed") and field.name in tables
    }
    return Scenario(
        receiver=_built(Receiver, "receiver", tables["receiver"]),
        capacity=_capacity(_table("capacity", tables["capacity"])),
        jobs=tuple(_jobs(tables["jobs"])),
        instances=count,
        lives=lives,
        dispatcher=dispatcher,
        max_batch_size=max_batch_size,
        **top,
    )


def _capacity(table: Table) -> CapacityPlan:
    _check_keys("[capacity]", table, (*SHARE_KEYS, "provisioned", "ramp", "adaptive"))
    parts: dict[str, Any] = {}
    share = {name: table[name] for name in SHARE_KEYS if name in table}
    if share:
        if "shared" not in share:
            raise InvalidRules(f"[capacity] {', '.join(share)} belong to shared, which is missing")
        parts["shared"] = _built(ShareRules, "capacity", share)
    if "provisioned" in table:
        parts["provisioned"] = table["provisioned"]
    for name, kind in (("ramp", Ramp), ("adaptive", Adaptive)):
        if name in table:
            parts[name] = _built(kind, f"capacity.{name}", table[name])
    return _built(CapacityPlan, "capacity", parts)  # type: ignore[no-any-return] # as it says


def _dispatcher(table: Table) -> tuple[DispatchRules, int | None]:
    known = [field.name for field in fields(DispatchRules) if field.name not in NOT_HERE]
    _check_keys("[dispatcher]", table, (*known, "max_batch_size", "backoff"))
    rules = {name: table[name] for name in known if name in table}
    if "backoff" in table:
        rules["backoff"] = _built(RetryRules, "dispatcher.backoff", table["backoff"])
    return _built(DispatchRules, "dispatcher", rules), table.get("max_batch_size")


def _instances(table: Table) -> tuple[int, dict[int, Life]]:
    lives = {}
    for key, life in table.items():
        if key != "count":
            if not (key.isascii() and key.isdecimal()):
                raise InvalidRules(f"[instances] has a count, and tables by number such as [instances.1], got {key!r}")
            lives[int(key)] = _built(Life, f"instances.{key}", life)
    return table.get("count", 1), lives


def _jobs(tables: object) -> Iterator[Job]:
    if not isinstance(tables, list):
        raise InvalidRules(f"jobs are written as [[jobs]], each one, got {shown(tables)}")
    for number, entry in enumerate(tables, 1):
        table = dict(_table("jobs", entry))
        table.setdefault("name", f"job {number}")
        if not isinstance(table["name"], str):
            raise InvalidRules(f"[[jobs]] name must be a text, got {shown(table['name'])}")
        if "on" in table:
            table["on"] = _numbers(table["name"], table["on"])
        yield _built(Job, f"jobs {table['name']!r}", table, renamed={"for": "lasts"})


def _numbers(job: str, on: object) -> tuple[int, ...] | None:
    if on == "all":
        return None
    several = [on] if isinstance(on, int) else on
    if not isinstance(several, list) or not several:
        raise InvalidRules(f"job {job!r}: on must be numbers of instances such as [1, 2], or 'all', got {shown(on)}")
    return tuple(several)


def _built(kind: Any, where: str, table: object, renamed: Mapping[str, str] | None = None) -> Any:
    """One part of a scenario, with texts as spans where spans belong."""
    theirs = {name: key for key, name in (renamed or {}).items()}
    ours = {theirs.get(field.name, field.name): field for field in fields(kind)}
    entries = _table(where, table)
    _check_keys(f"[{where}]", entries, tuple(ours))
    missing = [key for key, field in ours.items() if key not in entries and _is_needed(field)]
    if missing:
        raise InvalidRules(f"[{where}] needs {', '.join(missing)}")
    try:
        return kind(**{ours[key].name: _value(key, ours[key], value) for key, value in entries.items()})
    except InvalidRules as error:
        raise InvalidRules(f"[{where}] {error}") from error


def _is_needed(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _value(key: str, field: Field[Any], value: object) -> Any:
    """A text as a span, where one belongs; what is one already, or no span, as it is."""
    if timedelta not in (field.type, *get_args(field.type)) or isinstance(value, timedelta):
        return value
    if not isinstance(value, str):
        raise InvalidRules(f"{key} must be a span such as '500ms' or '2m', got {shown(value)}")
    try:
        return span_of(value)
    except (ValueError, OverflowError) as error:
        raise InvalidRules(f"{key}: {error}") from error


def _table(where: str, table: object) -> Table:
    if not isinstance(table, Mapping):
        raise InvalidRules(f"[{where}] must be a table, got {shown(table)}")
    return table


def _check_keys(where: str, table: Table, known: tuple[str, ...]) -> None:
    for key in table:
        if key not in known:
            raise InvalidRules(f"{where} has no key {key!r}{did_you_mean(str(key), known)}")
