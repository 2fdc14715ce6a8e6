"""What a store can do, measured on the spot: messages and acks a second, in bulk and one by one.

One after the other, by one thread: it is what one producer or consumer sees. Several together do more.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeVar

from batchline.core.expiry_rules import ExpiryRules
from batchline.core.message import LeasedMessage
from batchline.runtime.clock import elapsed_seconds, now_us
from batchline.runtime.prune import Prune
from batchline.runtime.timeline import Timeline
from batchline.runtime.tracker import Tracker
from batchline.stores.expiring import clear_fanout, look_at
from batchline.stores.settling import Call
from batchline.stores.store import Store
from batchline.stores.tracking import one_fanout

__all__ = ["AT_ONCE", "Figure", "bench"]

T = TypeVar("T")
#: Messages, or items, of a call in bulk.
AT_ONCE: Final = 1_000
BODY: Final = b"x" * 100
LEASE: Final = timedelta(minutes=5)
OWNER: Final = "bench"


@dataclass(frozen=True, slots=True)
class Figure:
    """How fast something was."""

    #: `create`, `lease`, `done` or `ack`; and how many in a call at most.
    verb: str
    at_once: int
    count: int
    seconds: float
    #: How long each call took, in milliseconds, from the shortest on.
    calls_ms: tuple[float, ...]

    @property
    def per_second(self) -> float:
        """How many a second."""
        return self.count / self.seconds if self.seconds else 0.0

    def percentile(self, part: float) -> float:
        """So large a part of the calls took no longer than this, in milliseconds."""
        return self.calls_ms[min(int(part * len(self.calls_ms)), len(self.calls_ms) - 1)] if self.calls_ms else 0.0


def bench(store: Store, count: int, most_s: float, watch: Callable[[str, int, int], None]) -> list[Figure]:
    """Measure a store with so many messages and items, each figure for so long at most.

    What it makes for that has a topic and a fanout of its own, which are removed at the end.
    """
    stop = partial(_until, most_s, watch)
    figures: list[Figure] = []
    for at_once in (AT_ONCE, 1):
        with _own_topic(store) as (timeline, topic):
            figures += _messages(timeline, topic, count, at_once, stop)
        with _own_fanout(store) as (tracker, fanout):
            figures += _acks(tracker, fanout, count, at_once, stop)
    return figures


Stop = Callable[..., Iterator[Any]]


def _messages(timeline: Timeline, topic: str, count: int, at_once: int, stop: Stop) -> list[Figure]:
    leased: list[LeasedMessage] = []

    def create(size: int) -> int:
        return len(timeline.create(topic, [BODY] * size, producer_group=OWNER))

    def lease(size: int) -> int:
        found = timeline.lease(topic, OWNER, limit=size, duration=LEASE)
        leased.extend(found)
        return len(found)

    def done(some: list[LeasedMessage]) -> int:
        return sum(one.ok for one in timeline.done(some))

    created = _measure("create", at_once, create, stop("create", _sizes(count, at_once), count))
    took = _measure("lease", at_once, lease, stop("lease", _sizes(created.count, at_once), created.count))
    ended = _measure("done", at_once, done, stop("done", _parts(leased, at_once), len(leased)))
    return [created, took, ended]


def _acks(tracker: Tracker, fanout: str, count: int, at_once: int, stop: Stop) -> list[Figure]:
    items = [item for group in tracker.add(fanout, count) for item in group.items()]

    def ack(some: list[str]) -> int:
        return tracker.ack(some).changed

    return [_measure("ack", at_once, ack, stop("ack", _parts(items, at_once), count))]


# --- measuring --------------------------------------------------------------------------------------------------------


def _measure(verb: str, at_once: int, act: Callable[[T], int], calls: Iterable[T]) -> Figure:
    done, took = 0, []
    for call in calls:
        began = elapsed_seconds()
        done += act(call)
        took.append(elapsed_seconds() - began)
    return Figure(verb, at_once, done, sum(took), tuple(sorted(1_000 * one for one in took)))


def _until(
    most_s: float, watch: Callable[[str, int, int], None], step: str, calls: Iterable[T], total: int
) -> Iterator[T]:
    """The calls, until the time is up; who watches is told now and then."""
    end, told, done = elapsed_seconds() + most_s, 0.0, 0
    for call in calls:
        now = elapsed_seconds()
        if now >= end:
            break
        if now - told > 0.1:
            watch(step, done, total)
            told = now
        yield call
        done += call if isinstance(call, int) else len(call)  # type: ignore[arg-type]
    watch(step, total, total)


def _sizes(count: int, at_once: int) -> Iterator[int]:
    return (min(at_once, count - begin) for begin in range(0, count, at_once))


def _parts(things: list[T], at_once: int) -> Iterator[list[T]]:
    return (things[begin : begin + at_once] for begin in range(0, len(things), at_once))


# --- what it makes, and removes ---------------------------------------------------------------------------------------


@contextmanager
def _own_topic(store: Store) -> Iterator[tuple[Timeline, str]]:
    timeline, name = Timeline(store), f"bench-{secrets.token_hex(4)}"
    timeline.create_topic(name)
    try:
        yield timeline, name
    finally:
        timeline.done(timeline.my_leases(OWNER, topic=name))
        timeline.delete_topic(name)
        prune = Prune(store, only=name)
        while prune.run_once():
            pass


@contextmanager
def _own_fanout(store: Store) -> Iterator[tuple[Tracker, str]]:
    tracker, name = Tracker(store), f"bench-{secrets.token_hex(4)}"
    tracker.open(name, expiry=ExpiryRules(tombstone=timedelta(microseconds=1)))
    number = store.read(lambda rows: one_fanout(rows, name).number)
    try:
        yield tracker, name
    finally:
        tracker.expire(name)
        while not store.transact(partial(clear_fanout, number=number)):
            pass
        store.transact(lambda rows: look_at(rows, number, Call(secrets.token_hex(8), now_us())))
