"""Dispatchers in virtual time, receivers that note what they get, and a look at the books at every event."""

import asyncio
import functools
import math
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from typing import Any, Final, NamedTuple, ParamSpec

from batchline import Dispatcher, Operation, ProvisionedResource, Watcher
from batchline.core.cost import part_of
from batchline.core.dispatch import Dispatch
from batchline.runtime.events import Events
from batchline.runtime.virtual_time import run_virtually, virtual_seconds, virtual_wall_us

__all__ = [
    "Receiver",
    "Told",
    "capacity_of",
    "dispatcher_of",
    "largest_spent",
    "leave_by_an_error",
    "listen",
    "look_over",
    "ms",
    "payloads",
    "virtually",
]

P = ParamSpec("P")
#: A story that takes longer than this waits for something that never comes.
LONGEST_S: Final = 1e6
#: What was found wrong in the books, and the dispatchers that were made, since somebody looked last.
wrong: list[str] = []
made: list[Dispatcher] = []


class Told(NamedTuple):
    """An event, and when it was."""

    at_s: float
    name: str
    value: Any
    message: str | None
    metadata: Any


def virtually(story: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Make a test of a story: in virtual time, and what is for a thread is done at once."""

    @functools.wraps(story)
    def test(*args: P.args, **kwargs: P.kwargs) -> None:
        run_virtually(_bounded(story(*args, **kwargs)), inline=True)

    return test


async def _bounded(story: Coroutine[Any, Any, None]) -> None:
    async with asyncio.timeout(LONGEST_S):
        await story


def ms(count: float) -> timedelta:
    """So many milliseconds."""
    return timedelta(milliseconds=count)


def capacity_of(capacity: Any, **options: Any) -> ProvisionedResource:
    """A limiter in virtual time."""
    return ProvisionedResource(capacity, clock=virtual_seconds, **options)


def dispatcher_of(limiter: Any = None, **options: Any) -> Dispatcher:
    """A dispatcher in virtual time, whose books are looked over."""
    by_itself: dict[str, Any] = {"clock": virtual_seconds, "wall": virtual_wall_us, "chance": lambda: 0.0}
    dispatcher = Dispatcher(limiter, **(by_itself | options))
    dispatcher.events.add_listener(functools.partial(_look, dispatcher))
    made.append(dispatcher)
    return dispatcher


def listen(events: Events, *names: str) -> list[Told]:
    """All events from now on, or those of some names."""
    told: list[Told] = []

    def note(name: str, value: Any, message: str | None, metadata: Any) -> None:
        if not names or name in names:
            told.append(Told(virtual_seconds(), name, value, message, metadata))

    events.add_listener(note)
    return told


def payloads(operations: list[Operation]) -> list[Any]:
    """What operations carry."""
    return [operation.payload for operation in operations]


class Receiver:
    """A callback that notes when it got what, and how many of it run at once."""

    def __init__(
        self, takes: timedelta = timedelta(0), then: Callable[[list[Operation]], Awaitable[Any]] | None = None
    ):
        self.batches: list[tuple[float, list[Operation]]] = []
        self.running = self.most_running = 0
        self._takes, self._then = takes, then

    async def __call__(self, operations: list[Operation]) -> None:
        self.batches.append((virtual_seconds(), operations))
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        try:
            if self._takes:
                await asyncio.sleep(self._takes.total_seconds())
            if self._then is not None:
                await self._then(operations)
        finally:
            self.running -= 1

    @property
    def got(self) -> list[Any]:
        """What came, as payloads."""
        return [operation.payload for _, operations in self.batches for operation in operations]

    @property
    def spent(self) -> list[tuple[float, float]]:
        """When how much was handed out."""
        return [(at_s, sum(part_of(one.cost, None) for one in batch)) for at_s, batch in self.batches]

    def watcher(self, **options: Any) -> Watcher:
        """A watcher with this callback."""
        return Watcher(self.__call__, name="receiver", **options)


def largest_spent(spent: list[tuple[float, float]], span_s: float) -> float:
    """The most that was handed out in any span of this length."""
    return max(sum(cost for at_s, cost in spent if begin <= at_s < begin + span_s) for begin, _ in spent)


def look_over() -> list[str]:
    """What was wrong in the books since the last look, and what an audit at the end of time says."""
    for dispatcher in made:
        _look_inside(dispatcher._dispatch, "at the end")
        if dispatcher._dispatch.audit(math.inf) == "fail":
            wrong.append("the audit at the end failed")
    found = list(wrong)
    wrong.clear()
    made.clear()
    return found


def _look(dispatcher: Dispatcher, name: str, value: Any, message: str | None, metadata: Any) -> None:
    if name == "audit-fail":
        wrong.append("an audit failed")
    _look_inside(dispatcher._dispatch, f"at {name}")


def _look_inside(dispatch: Dispatch, when: str) -> None:
    """The books, counted again from nothing."""
    lanes = list(dispatch.buffer.lanes.values())
    waiting = [operation for lane in lanes for operation in lane.operations]
    handed_out = [handout for handout in dispatch.handouts.values() if not handout.late]
    flying = [operation for handout in handed_out for operation in handout.operations]
    _compare(when, "buffered", dispatch.buffer.count, len(waiting))
    _compare(when, "free", [lane.free for lane in lanes], [_free(lane.operations) for lane in lanes])
    _compare(when, "target", dispatch.target, sum((one.cost for one in waiting + flying), start=0))
    most = dispatch.rules.max_concurrent_batches
    if most is not None and len(dispatch.handouts) > most:
        wrong.append(f"{when} {len(dispatch.handouts)} batches were under way, and {most} is the most")


def _free(operations: Any) -> int:
    return sum(not operation.cost for operation in operations)


def _compare(when: str, what: str, booked: Any, counted: Any) -> None:
    near = booked == counted or (isinstance(booked, float) and math.isclose(booked, counted, abs_tol=1e-6))
    if not near:
        wrong.append(f"{when}, {what} was {booked!r} in the books and {counted!r} counted")


async def leave_by_an_error(dispatcher: Dispatcher, operations: list[Operation]) -> None:
    """Enqueue in a context that is left by a LookupError."""
    async with dispatcher:
        await dispatcher.enqueue_many(operations)
        raise LookupError("out")
