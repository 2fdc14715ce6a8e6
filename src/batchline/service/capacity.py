"""`/v1/capacity`: what is shared, who holds what, what each asks for, and what is used of it."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import msgspec

from batchline.core.topic import span_ms
from batchline.service.operation import Call, NoForm, Operation
from batchline.service.reports import visible
from batchline.stores.capacity_rows import AskingRow, PartitionRow
from batchline.stores.report_rows import ReportRow
from batchline.stores.rows import Rows
from batchline.wire.capacity import Capacities, InstanceForm, ResourceForm
from batchline.wire.form import ms_text

__all__ = ["OPERATIONS", "WorkReport", "per_second", "read_work"]

#: A rate is that of the reports of so long; who has said nothing for so long is not there.
RECENT: Final = timedelta(seconds=12)
#: What instances have said is shown for so long: they say it again within a lease.
HEARD: Final = timedelta(minutes=1)


class Limit(msgspec.Struct):
    """What a worker says of its capacity."""

    name: str | None = None
    shared: bool = False
    cost: str | None = None
    limit: Any = None
    granted: Any = None
    wanted: Any = None
    instance: str | None = None


class WorkReport(msgspec.Struct):
    """What a worker says of itself, as far as capacity goes."""

    started_ms: int
    ended: bool = False
    topic: str | None = None
    used: Any = 0
    waiting: int = 0
    paused: bool = False
    pauses: int = 0
    capacity: Limit | None = None


@dataclass(frozen=True, slots=True)
class Working:
    """A worker: its last report, and how much it used a second lately."""

    name: str
    last: WorkReport
    used: float | None


@dataclass(frozen=True, slots=True)
class Kept:
    """A shared resource as this store keeps it."""

    size: str
    partitions: Sequence[PartitionRow]
    askings: Sequence[AskingRow]
    shown_ms: int


@dataclass(slots=True)
class Users:
    """Those who use one capacity."""

    kept: Kept | None = None
    working: list[Working] = field(default_factory=list)


SHARED: Final = re.compile(r"shared=([\d.]+(?:e[+-]?\d+)?)(?: |$)")
DECODER: Final = msgspec.json.Decoder(WorkReport)


def read_capacity(call: Call[NoForm]) -> Capacities:
    """All capacities: who holds what of the shared ones until when, what each asks for, and what is used."""
    now_ms = call.parts.timeline.now_ms()
    since_ms = now_ms - span_ms(RECENT)
    kept, rows = call.parts.store.read(lambda rows: (_kept(rows, now_ms), rows.reports(since_ms, "work")))
    users: dict[tuple[bool, str], Users] = defaultdict(Users)
    for name, one in kept.items():
        users[True, name].kept = one
    for working in read_work(visible(rows, call.caller)):
        limit = working.last.capacity
        if limit is not None:
            users[limit.shared, limit.name or working.name].working.append(working)
    ordered = sorted(users.items(), key=lambda pair: (not pair[0][0], pair[0][1]))
    return Capacities([_resource(name, shared, one) for (shared, name), one in ordered], ms_text(now_ms))


def _kept(rows: Rows, now_ms: int) -> dict[str, Kept]:
    shown_ms = rows.database_ms(now_ms)
    since_ms = shown_ms - span_ms(HEARD)
    return {
        name: Kept(size, rows.partitions(name), rows.askings(name, since_ms), shown_ms)
        for name, size in rows.resources()
    }


def read_work(rows: Iterable[ReportRow]) -> list[Working]:
    """The workers that have reported and not ended, by name."""
    reports: dict[str, list[tuple[int, WorkReport]]] = defaultdict(list)
    for row in rows:
        reports[row.name].append((row.at_ms, DECODER.decode(row.body)))
    lives = {name: [(at, one) for at, one in all_ if one.started_ms == all_[-1][1].started_ms]
             for name, all_ in sorted(reports.items())}  # fmt: skip
    return [Working(name, life[-1][1], per_second(life)) for name, life in lives.items() if not life[-1][1].ended]


def per_second(life: Sequence[tuple[int, WorkReport]]) -> float | None:
    """What was used a second between the first and the last report of one life; None of a single one."""
    (first_ms, first), (last_ms, last) = life[0], life[-1]
    if last_ms <= first_ms:
        return None
    return round(max(_number(last.used) - _number(first.used), 0) * 1_000 / (last_ms - first_ms), 3)


def _number(amount: Any) -> float:
    """An amount; of several capacities, all together."""
    if isinstance(amount, Mapping):
        return sum(map(_number, amount.values()))
    return float(amount) if isinstance(amount, int | float) else 0.0


# --- as it is answered ---


def _resource(name: str, shared: bool, users: Users) -> ResourceForm:
    kept, limits = users.kept, [one.last.capacity for one in users.working if one.last.capacity]
    used = [one.used for one in users.working if one.used is not None]
    return ResourceForm(
        name=name,
        shared=shared,
        limit=_number(limits[-1].limit) if limits else _provisioned(kept.size if kept else ""),
        cost=limits[-1].cost if limits else None,
        size=kept.size if kept else None,
        partitions=len(kept.partitions) if kept else None,
        used=sum(used) if used else None,
        instances=_instances(users),
    )


def _provisioned(size: str) -> float | None:
    """What there is a second, by the text that all instances agreed on; None of several capacities by name."""
    found = SHARED.search(size)
    return float(found[1]) if found else None


def _instances(users: Users) -> list[InstanceForm]:
    """Whoever holds, asks or reports, each once; the names of reports first, for people know them."""
    forms = {_key(one): _reported(one) for one in users.working}
    if users.kept is not None:
        _add_kept(forms, users.kept)
    return sorted(forms.values(), key=lambda one: (one.worker is None, one.worker or one.instance or ""))


def _key(working: Working) -> str:
    limit = working.last.capacity
    return (limit and limit.instance) or working.name


def _reported(working: Working) -> InstanceForm:
    last, limit = working.last, working.last.capacity or Limit()
    return InstanceForm(
        instance=limit.instance,
        worker=working.name,
        topic=last.topic,
        partitions=[],
        granted=_number(limit.granted),
        wanted=_number(limit.wanted),
        used=working.used,
        waiting=last.waiting,
        paused=last.paused,
        pauses=last.pauses,
    )


def _add_kept(forms: dict[str, InstanceForm], kept: Kept) -> None:
    """What the store knows: who holds which partitions until when, and what each has said."""

    def form_of(instance: str) -> InstanceForm:
        return forms.setdefault(instance, InstanceForm(instance=instance, partitions=[]))

    for row in kept.partitions:
        if row.holder is not None and row.is_held(kept.shown_ms):
            form, until = form_of(row.holder), ms_text(row.until_ms)
            form.partitions.append(row.number)
            form.until = until if form.until is None else min(form.until, until)
    for said in kept.askings:
        form = form_of(said.instance)
        form.asks_for, form.heard = said.wanted, ms_text(said.heard_ms)


OPERATIONS: Final = (Operation("GET", "/v1/capacity", "read", read_capacity, answer=Capacities),)
