"""Races of fanouts: rounds that a seed makes, workers who start each together, and a ledger that counts for itself.

    rounds ──▶ prepare ──▶ workers at a gate, a round at a time ──▶ answers ──▶ check, against the tracker and its rows

In a module that a new process can load.
"""

import os
import random
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from multiprocessing import get_context
from threading import BrokenBarrierError
from typing import Any, Final, Protocol

from batchline.core.expiry_rules import ExpiryRules
from batchline.core.fanout import FanoutStatus
from batchline.core.moment import span_us
from batchline.errors import FanoutRefused
from batchline.runtime.clock import now_us
from batchline.runtime.tracker import Tracker
from batchline.stores.memory import MemoryStore
from batchline.stores.opening import open_store
from batchline.stores.store import Store
from tests.servers.database import connect_mariadb

__all__ = [
    "MORE",
    "PATIENCE_S",
    "Answer",
    "Call",
    "Gate",
    "Round",
    "check",
    "make_rounds",
    "perform",
    "prepare",
    "race_in_processes",
    "race_in_threads",
    "recount",
    "select",
    "write",
]

#: How many times as many rounds, restarts and kills the full profile has.
MORE: Final = 10 if os.environ.get("BATCHLINE_TEST_PROFILE") == "full" else 1
PATIENCE_S: Final = 120.0
HOUR: Final = timedelta(hours=1)
LONG: Final = ExpiryRules(*[timedelta(days=36_500)] * 3)


# --- what a round is --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a worker; `items` are (fanout, number of the prepared item)."""

    verb: str
    fanout: str = ""
    items: tuple[Any, ...] = ()
    id: str = ""
    count: int = 0
    #: Whether items are given as groups with masks.
    as_masks: bool = False


@dataclass(frozen=True, slots=True)
class Opened:
    """A fanout that is there before the round begins, with adds of these sizes."""

    id: str
    adds: tuple[int, ...] = ()
    parent: str | None = None
    tolerate: int | None = 0
    sealed: bool = False
    #: After how many hours without activity it expires; None for never.
    hours: int | None = None


@dataclass(slots=True)
class Round:
    """Fanouts, and what each worker does to them at the same time."""

    name: str
    fanouts: list[Opened]
    calls: list[list[Call]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call was answered."""

    call: Call
    #: The class of the error that refused all of it.
    refused: str = ""
    completed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    expired: tuple[str, ...] = ()
    changed: int = 0
    #: Items that this call added; or, of a repeated add, was told again.
    added: tuple[str, ...] = ()
    #: Items that did not count, with the class of the reason.
    errors: tuple[tuple[str, str], ...] = ()

    def done(self) -> set[str]:
        """Items that are done after this call, by whoever's."""
        named = self.call.items if self.call.verb in ("ack", "fail") else ()
        return set(named) - {item for item, _ in self.errors}


Items = dict[str, list[str]]


class Gate(Protocol):
    """Where all wait for each other: the barrier of threads, or that of processes."""

    def wait(self, timeout: float | None = None) -> int:
        """Go on when everybody is here."""

    def abort(self) -> None:
        """Let nobody wait any more."""


# --- rounds from a seed -----------------------------------------------------------------------------------------------


def make_rounds(seed: str, rounds: int, workers: int) -> list[Round]:
    """Rounds of every scenario in turn, with details from the seed."""
    makers = [SCENARIOS[number % len(SCENARIOS)] for number in range(rounds)]
    return [make(random.Random(f"{seed} {number}"), number, workers) for number, make in enumerate(makers)]


def _share(dice: random.Random, calls: Iterable[Call], workers: int) -> list[list[Call]]:
    """Calls dealt out to workers: who begins with which is by chance."""
    shuffled = list(calls)
    dice.shuffle(shuffled)
    return [shuffled[worker::workers] for worker in range(workers)]


def seal_and_last_acks(dice: random.Random, number: int, workers: int) -> Round:
    """The original's race: the last items are acknowledged while the fanout is sealed."""
    name = f"seal-{number}"
    items = dice.randint(1, workers - 1)
    acks = [
        Call("ack", items=((name, item),), id=f"{name} {item}", as_masks=dice.random() < 0.5) for item in range(items)
    ]
    seals = [Call("seal", name, id=f"{name} seal {one}") for one in range(dice.randint(1, workers - items))]
    return Round("seal_and_last_acks", [Opened(name, (items,))], _share(dice, [*acks, *seals], workers))


def shards_emptied(dice: random.Random, number: int, workers: int) -> Round:
    """Sealed, with a group in each of several shards: each worker empties one, some empty the same."""
    name = f"shards-{number}"
    sizes = tuple(dice.choice((1, 2, 5)) for _ in range(workers))
    groups = _groups(name, sizes)
    calls = [Call("ack", items=group, id=f"{name} {one}", as_masks=True) for one, group in enumerate(groups)]
    calls += [Call("ack", items=dice.choice(groups), id=f"{name} again") for _ in range(dice.randint(0, 1))]
    return Round("shards_emptied", [Opened(name, sizes, sealed=True)], _share(dice, calls, workers))


def adds_and_seal(dice: random.Random, number: int, workers: int) -> Round:
    """Items are added, and acknowledged at once, while the fanout is sealed."""
    name = f"adds-{number}"
    adds = [Call("add_and_ack", name, id=f"add {dice.randint(0, workers)}", count=3) for _ in range(workers + 1)]
    seals = [Call("seal", name, id=f"{name} seal {one}") for one in range(dice.randint(1, 2))]
    calls = [*adds, *seals, Call("ack", items=((name, 0),), id=f"{name} first")]
    return Round("adds_and_seal", [Opened(name, (1,))], _share(dice, calls, workers))


def failures(dice: random.Random, number: int, workers: int) -> Round:
    """Items fail and are acknowledged, the same ones by several, with more or less tolerance."""
    name = f"fails-{number}"
    calls = [
        Call(dice.choice(("ack", "fail")), items=((name, dice.randrange(3)),), id=f"{name} {one}")
        for one in range(workers)
    ]
    calls += [Call("ack", items=_groups(name, (3,))[0], id=f"{name} all")] * dice.randint(0, 1)
    calls += [Call("seal", name, id=f"{name} seal")]
    opened = Opened(name, (3,), tolerate=dice.choice((0, 1, None)))
    return Round("failures", [opened], _share(dice, calls, workers))


def expiry(dice: random.Random, number: int, workers: int) -> Round:
    """The fanout expires, by name or by age, while it is worked on."""
    name = f"expires-{number}"
    # Each round has its own time to live, so that a step of expiry finds those of rounds that have begun.
    expires = Call("expire", name) if dice.random() < 0.5 else Call("expire_due", count=number + 1)
    calls = [Call("ack", items=((name, item),), id=f"{name} {item}") for item in range(2)]
    calls += [Call("add_and_ack", name, id="late", count=2), Call("seal", name, id=f"{name} seal"), expires, expires]
    return Round("expiry", [Opened(name, (2,), hours=number + 1)], _share(dice, calls, workers))


def opened_by_all(dice: random.Random, number: int, workers: int) -> Round:
    """Everybody opens the same fanout, makes the same add, and seals it."""
    name = f"opened-{number}"
    calls = [
        [
            Call("open", name),
            Call("add_and_ack", name, id="only", count=5),
            Call("seal", name, id=f"{name} seal {worker}"),
        ]
        for worker in range(workers)
    ]
    return Round("opened_by_all", [], calls)


def nested(dice: random.Random, number: int, workers: int) -> Round:
    """Children end, and with them their parent, and with it its own."""
    top, middle = f"top-{number}", f"middle-{number}"
    leaves = [f"leaf-{number}-{one}" for one in range(2)]
    tolerate = dice.choice((0, None))
    opened = [Opened(top, tolerate=tolerate), Opened(middle, (1,), parent=top, tolerate=tolerate)]
    opened += [Opened(leaf, (1,), parent=middle) for leaf in leaves]
    calls = [Call("seal", one, id=f"{one} seal") for one in (top, middle, *leaves)]
    calls += [Call("ack", items=((one, 0),), id=f"{one} ack") for one in (middle, *leaves)]
    calls += [Call("fail", items=((leaves[0], 0),), id=f"{leaves[0]} fail")] * dice.randint(0, 1)
    calls += [Call("ack", items=tuple((one, 0) for one in (middle, *leaves)), id=f"{top} all")] * (dice.random() < 0.3)
    calls += [Call("expire", leaves[1])] * (dice.random() < 0.2)
    calls += [Call("open_child", f"late-{number}", id=middle)] * dice.randint(0, 1)
    return Round("nested", opened, _share(dice, calls, workers))


def bulk_over_several(dice: random.Random, number: int, workers: int) -> Round:
    """Calls that each name items of several fanouts, in orders of their own, a parent and its child among them."""
    names = [f"bulk-{number}-{one}" for one in range(3)]
    opened = [Opened(names[0], (2, 2)), Opened(names[1], (2,), parent=names[0]), Opened(names[2], (2, 65))]
    calls = []
    for worker in range(workers):
        items = [(name, item) for name in names for item in range(2)] + [(names[0], 2), (names[0], 3)]
        items += [(names[2], item) for item in range(2, 67)] if worker % 2 else [(names[2], 66), (names[2], 2)]
        dice.shuffle(items)
        calls.append(Call("ack", items=tuple(items), id=f"{names[0]} {worker}", as_masks=worker == 0))
    calls += [Call("seal", name, id=f"{name} seal") for name in names]
    return Round("bulk_over_several", opened, _share(dice, calls, workers))


def _groups(name: str, sizes: Sequence[int]) -> list[tuple[tuple[str, int], ...]]:
    """The items of each add, by their numbers."""
    first, groups = 0, []
    for size in sizes:
        groups.append(tuple((name, item) for item in range(first, first + size)))
        first += size
    return groups


#: In turn; the original's race, and its like, more often than the longer ones.
SCENARIOS: Final[tuple[Callable[[random.Random, int, int], Round], ...]] = (
    seal_and_last_acks,
    adds_and_seal,
    seal_and_last_acks,
    shards_emptied,
    failures,
    seal_and_last_acks,
    expiry,
    opened_by_all,
    seal_and_last_acks,
    shards_emptied,
    nested,
    bulk_over_several,
)


# --- before and during a round ----------------------------------------------------------------------------------------


def prepare(tracker: Tracker, rounds: Sequence[Round], workers: int) -> Items:
    """Open what is there before the rounds begin; the ids of its items, by fanout."""
    with ThreadPoolExecutor(workers) as threads:
        parts = threads.map(lambda worker: _prepare(tracker, rounds[worker::workers]), range(workers))
        return {fanout: items for part in parts for fanout, items in part.items()}


def _prepare(tracker: Tracker, rounds: Iterable[Round]) -> Items:
    items: Items = {}
    for one in (opened for round_ in rounds for opened in round_.fanouts):
        rules = LONG if one.hours is None else replace(LONG, unsealed=one.hours * HOUR, sealed=one.hours * HOUR)
        tracker.open(one.id, parent=one.parent, tolerate=one.tolerate, expiry=rules)
        items[one.id] = [
            item
            for number, count in enumerate(one.adds)
            for group in tracker.add(one.id, count, add_id=f"prepared {number}")
            for item in group.items()
        ]
        if one.sealed:
            tracker.seal(one.id)
    return items


def perform(tracker: Tracker, call: Call, items: Items) -> list[Answer]:
    """Make a call; of one that adds and acknowledges, both answers."""
    try:
        return VERBS[call.verb](tracker, call, items)
    except FanoutRefused as refused:
        return [Answer(call, refused=type(refused).__name__)]


def _open(tracker: Tracker, call: Call, items: Items) -> list[Answer]:
    tracker.open(call.fanout, expiry=LONG, parent=call.id or None)
    return [Answer(call)]


def _add_and_ack(tracker: Tracker, call: Call, items: Items) -> list[Answer]:
    groups = tracker.add(call.fanout, call.count, add_id=call.id)
    added = tuple(item for group in groups for item in group.items())
    acked = _finish(tracker, Call("ack", call.fanout, id=f"{call.fanout} {call.id}"), added)
    return [Answer(call, added=added), acked]


def _named(tracker: Tracker, call: Call, items: Items) -> list[Answer]:
    return [_finish(tracker, call, tuple(items[fanout][number] for fanout, number in call.items))]


def _finish(tracker: Tracker, call: Call, named: tuple[str, ...]) -> Answer:
    given: list[Any] = _masks(named) if call.as_masks else list(named)
    outcome = tracker.ack(given) if call.verb == "ack" else tracker.fail(given, "raced")
    errors = tuple((str(one.item), type(one.error).__name__) for one in outcome.errors)
    return Answer(
        replace(call, items=named),
        completed=outcome.completed,
        failed=outcome.failed,
        changed=outcome.changed,
        errors=errors,
    )


def _masks(items: Iterable[str]) -> list[tuple[str, int]]:
    masks: dict[str, int] = {}
    for item in items:
        group, _, index = item.rpartition(":")
        masks[group] = masks.get(group, 0) | 1 << int(index)
    return list(masks.items())


def _seal(tracker: Tracker, call: Call, items: Items) -> list[Answer]:
    outcome = tracker.seal(call.fanout, call_id=call.id)
    completed = (call.fanout,) * outcome.completed + outcome.parents_completed
    return [Answer(call, completed=completed, failed=outcome.parents_failed)]


def _expire(tracker: Tracker, call: Call, items: Items) -> list[Answer]:
    if call.verb == "expire":
        outcome = tracker.expire(call.fanout)
    else:
        outcome = Tracker(tracker._store, clock=lambda: now_us() + span_us((call.count + 0.5) * HOUR)).expire_due(20)
    return [
        Answer(call, completed=tuple(outcome.completed), failed=tuple(outcome.failed), expired=tuple(outcome.expired))
    ]


VERBS: Final[dict[str, Callable[[Tracker, Call, Items], list[Answer]]]] = {
    "open": _open,
    "open_child": _open,
    "add_and_ack": _add_and_ack,
    "ack": _named,
    "fail": _named,
    "seal": _seal,
    "expire": _expire,
    "expire_due": _expire,
}


def race(tracker: Tracker, rounds: Sequence[Round], worker: int, items: Items, gate: Gate) -> list[list[Answer]]:
    """What one worker does: its calls of each round, begun together with everybody's. Its answers, by round."""
    answers = []
    try:
        for one in rounds:
            gate.wait(PATIENCE_S)
            answers.append([answer for call in one.calls[worker] for answer in perform(tracker, call, items)])
    except BaseException:
        gate.abort()
        raise
    return answers


def race_in_threads(store: Store, rounds: Sequence[Round], workers: int) -> tuple[Items, list[list[Answer]]]:
    """All rounds, by threads on one store; the answers of everybody, by round."""
    tracker = Tracker(store)
    items = prepare(tracker, rounds, workers)
    gate = threading.Barrier(workers)
    with ThreadPoolExecutor(workers) as threads:
        running = [threads.submit(race, tracker, rounds, worker, items, gate) for worker in range(workers)]
        # Whoever fails breaks the gate for the others, which is not what is to be seen.
        failed = [error for one in running if (error := one.exception()) and not isinstance(error, BrokenBarrierError)]
        if failed:
            raise failed[0]
        return items, _by_round([one.result() for one in running])


def race_in_processes(url: str, rounds: Sequence[Round], workers: int) -> tuple[Items, list[list[Answer]]]:
    """All rounds, by processes."""
    with open_store(url) as store:
        items = prepare(Tracker(store), rounds, workers)
    context = get_context("spawn")
    gate = context.Barrier(workers)
    ends = []
    processes = []
    for worker in range(workers):
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=_race_alone, args=(url, rounds, worker, items, gate, there))
        process.start()
        there.close()
        ends.append(here)
        processes.append(process)
    try:
        return items, _by_round([end.recv() for end in ends])
    finally:
        for end, process in zip(ends, processes, strict=True):
            end.close()
            process.join(PATIENCE_S)
            process.kill()
            process.join()


def _race_alone(url: str, rounds: Sequence[Round], worker: int, items: Items, gate: Gate, end: Any) -> None:
    with open_store(url) as store:
        end.send(race(Tracker(store), rounds, worker, items, gate))


def _by_round(of_workers: list[list[list[Answer]]]) -> list[list[Answer]]:
    return [[answer for answers in round_ for answer in answers] for round_ in zip(*of_workers, strict=True)]


# --- what is there afterwards -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Recount:
    """A fanout's rows, counted by hand."""

    id: str
    open_shards: int
    parent: int | None
    cleared: bool = True
    #: What its shards say is pending, and the bits that are set.
    counted: list[int] = field(default_factory=list)
    bits: int = 0


def select(url: str, sql: str) -> list[tuple[Any, ...]]:
    """Rows of a SQL store, through a connection of our own."""
    with _connected(url) as connection:
        cursor = connection.cursor()
        cursor.execute(sql)
        return list(cursor.fetchall())


def write(url: str, sql: str) -> None:
    """Change a SQL store behind its back."""
    with _connected(url) as connection:
        connection.cursor().execute(sql)
        connection.commit()


@contextmanager
def _connected(url: str) -> Iterator[Any]:
    if url.startswith("sqlite"):
        import sqlite3

        connection: Any = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=PATIENCE_S)
    elif url.startswith("postgresql"):
        import psycopg

        connection = psycopg.connect(url)
    else:
        connection = connect_mariadb(url)
    with closing(connection):
        yield connection


def recount(store: Store, url: str) -> dict[str, Recount]:
    """Count everything from the rows themselves, by fanout."""
    tables = _memory_tables(store) if isinstance(store, MemoryStore) else _sql_tables(url)
    fanouts, shards, adds, groups = tables
    counts = {number: Recount(_text(id), open_shards, parent) for number, id, open_shards, parent in fanouts}
    for number, pending in shards:
        counts[number].counted.append(pending)
    of_add = dict(adds)
    for fanout in of_add.values():
        counts[fanout].cleared = False
    for slot, bits in groups:
        counts[of_add[slot >> 18]].bits += (bits & (1 << 64) - 1).bit_count()
    return {one.id: one for one in counts.values()}


def _sql_tables(url: str) -> list[list[tuple[Any, ...]]]:
    return [
        select(url, "SELECT number, id, open_shards, parent FROM batchline_fanouts"),
        select(url, "SELECT fanout, pending FROM batchline_shards"),
        select(url, "SELECT number, fanout FROM batchline_adds"),
        select(url, "SELECT slot, bits FROM batchline_item_groups"),
    ]


def _memory_tables(store: MemoryStore) -> list[list[tuple[Any, ...]]]:
    tables = store._tables
    return [
        [(one.number, one.id, one.open_shards, one.parent) for one in tables.fanouts.values()],
        [(one.fanout, one.pending) for one in tables.shards.values()],
        [(number, add[0]) for number, add in tables.adds.items()],
        list(tables.groups.items()),
    ]


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


# --- the ledger -------------------------------------------------------------------------------------------------------


def check(store: Store, url: str, rounds: Sequence[Round], items: Items, answers: list[list[Answer]]) -> Counter[str]:
    """Compare every round's answers with what is there afterwards; how often each state came out."""
    tracker = Tracker(store)
    statuses = {one.id: one for one in _all_fanouts(tracker)}
    children: dict[str, list[FanoutStatus]] = defaultdict(list)
    for one in statuses.values():
        if one.parent is not None:
            children[one.parent].append(one)
    ledger = Ledger(tracker, statuses, children, recount(store, url), items)
    states: Counter[str] = Counter()
    for number, (round_, given) in enumerate(zip(rounds, answers, strict=True)):
        try:
            states.update(ledger.check_round(round_, given))
        except AssertionError as error:
            there = [statuses.get(name) for name in _names(round_, given)]
            error.add_note(f"round {number}: {round_}\nanswers: {given}\nthere is: {there}")
            raise
    return states


def _names(round_: Round, given: Sequence[Answer]) -> list[str]:
    return sorted({one.id for one in round_.fanouts} | {one.call.fanout for one in given if one.call.fanout})


def _all_fanouts(tracker: Tracker) -> Iterator[FanoutStatus]:
    page = tracker.list(limit=1000)
    yield from page.fanouts
    while page.next is not None:
        page = tracker.list(limit=1000, after=page.next)
        yield from page.fanouts


@dataclass(slots=True)
class Ledger:
    """What the answers of a round add up to, fanout by fanout."""

    tracker: Tracker
    statuses: dict[str, FanoutStatus]
    children: dict[str, list[FanoutStatus]]
    recounts: dict[str, Recount]
    items: Items

    def check_round(self, round_: Round, given: Sequence[Answer]) -> Iterator[str]:
        """Check all fanouts of a round; their states."""
        lost_time = {one.id for one in round_.fanouts if one.hours is not None}
        done = 0
        for name in _names(round_, given):
            status = self.statuses.get(name)
            if status is None:
                # A child that came too late, and left nothing.
                assert {one.refused for one in given if one.call.fanout == name} <= {"FanoutSealed", "FanoutExpired"}
                yield "refused"
                continue
            check_told(status, given)
            check_refusals(status, given)
            self.check_counters(status)
            done += self.check_items(status, given)
            if name not in lost_time:  # such a one may expire in a later round as well
                expired = sum(one.expired.count(name) for one in given)
                assert expired == (status.expired_at is not None), "expired"
            yield status.state
        assert sum(one.changed for one in given) == done, "changed"

    def check_counters(self, status: FanoutStatus) -> None:
        """The counters equal a recount of bits; of an expired one the items may be gone already."""
        rows = self.recounts[status.id]
        assert sum(rows.counted) == status.pending, "shards"
        assert rows.open_shards == sum(count > 0 for count in rows.counted), "open shards"
        assert rows.bits == status.pending or (rows.cleared and status.state == "expired"), "bits"
        assert status.total == status.acked + status.failed + status.pending, "sum"

    def check_items(self, status: FanoutStatus, given: Sequence[Answer]) -> int:
        """What is pending is what was added and never acknowledged; how many were."""
        children = self.children[status.id]
        live = [one for one in children if one.state in ("open", "sealed")]
        added = set(self.items.get(status.id, ()))
        added.update(item for one in given if one.call.fanout == status.id for item in one.added)
        assert status.total == len(added) + len(children), "total"
        left = added - {item for one in given for item in one.done()}
        assert status.pending == len(left) + len(live), "pending"
        if status.state != "expired" and status.pending:
            listed = self._pending(status.id)
            assert len(listed) == len(set(listed)) == status.pending, "listed"
            assert left <= set(listed), "listed"
        return len(added - left)

    def _pending(self, fanout: str) -> list[str]:
        """All pages, which are short."""
        listed: list[str] = []
        while page := self.tracker.pending_items(fanout, limit=10, after=listed[-1] if listed else None):
            listed += page
        return listed


def check_told(status: FanoutStatus, given: Sequence[Answer]) -> None:
    """Exactly one call was told of the end, none if there was none, and no end was missed."""
    completed = sum(one.completed.count(status.id) for one in given)
    failed = sum(one.failed.count(status.id) for one in given)
    assert completed == (status.completed_at is not None), "told"
    assert failed == (status.failed_at is not None), "told"
    assert not (completed and failed), "ended twice"
    if status.state in ("open", "sealed"):
        assert status.pending or not status.sealed, "missed"
        assert status.tolerate is None or status.failed <= status.tolerate, "missed failure"
    if completed:
        assert status.sealed, "completed too early"
        assert status.pending == 0, "completed too early"


def check_refusals(status: FanoutStatus, given: Sequence[Answer]) -> None:
    """Refused is only what came after the seal or the expiry."""
    for one in given:
        if one.call.fanout == status.id and one.refused:
            assert one.refused in ("FanoutSealed", "FanoutExpired"), "refused"
            assert one.refused != "FanoutSealed" or status.sealed, "refused"
            assert one.refused != "FanoutExpired" or status.expired_at is not None, "refused"
        for item, reason in one.errors:
            if item.startswith(f"{status.id}:"):
                assert reason == "FanoutExpired", "item refused"
                assert status.expired_at is not None, "item refused"
