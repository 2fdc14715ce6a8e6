"""Who works on a timeline in tests: producers, consumers and the background, each with dice and a record of its own.

All share a clock that goes on whenever it is looked at: leases run out as calls are made, however fast the machine is.
In a module that a new process can load.
"""

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from multiprocessing import get_context
from typing import Any, Final, TypeVar

from batchline.core.future_load import SLICE_MS
from batchline.core.message import Lease, LeasedMessage, NewMessage, Outcome
from batchline.runtime.clock import elapsed_seconds
from batchline.runtime.prune import Prune
from batchline.runtime.rescue import Rescue
from batchline.runtime.timeline import Timeline
from batchline.stores.opening import open_store
from batchline.stores.store import Store
from tests.doubles import BEGIN_US
from tests.stores.history import DEAD, LINE, MAX_ATTEMPTS, Event, in_buckets
from tests.stores.racing import PATIENCE_S

__all__ = ["CAST", "SharedClock", "act_in_processes", "act_in_threads", "new_clock", "prepare", "tidy_up"]

T = TypeVar("T")
BUCKETS: Final = 64
#: Chosen ids that all producers use again and again.
IDS: Final = 120


class SharedClock:
    """Goes on by up to 2 ms whenever somebody looks."""

    def __init__(self, cell: Any):
        self._cell = cell

    def __call__(self) -> int:
        """The moment it shows."""
        with self._cell.get_lock():
            self._cell.value += 700
            return int(self._cell.value)

    def shown_ms(self) -> int:
        """What it shows, without going on."""
        return int(self._cell.value) // 1_000


def new_clock() -> SharedClock:
    """A clock for threads and for processes."""
    return SharedClock(get_context("forkserver").Value("q", BEGIN_US))


def _ms(count: int) -> timedelta:
    return timedelta(milliseconds=count)


class Actor:
    """Makes calls, and notes each with what it was answered."""

    def __init__(self, name: str, seed: str, store: Store, clock: SharedClock):
        self.name = name
        self.dice = random.Random(f"{seed} {name}")
        self.events: list[Event] = []
        self._clock = clock
        self._now_us = 0
        self.timeline = Timeline(store, clock=self._look)
        self.prune = Prune(store, clock=clock)
        self.rescue = Rescue(store, clock=clock)

    def _look(self) -> int:
        self._now_us = self._clock()
        return self._now_us

    def soon(self, least: int, most: int) -> int:
        """A moment, in milliseconds."""
        return self._clock() // 1_000 + self.dice.randint(least, most)

    def call(self, work: Callable[[], T], events: Callable[[T, float, float, int], list[Event]]) -> T:
        """Make a call and note it."""
        begun = elapsed_seconds()
        answer = work()
        noted = events(answer, begun, elapsed_seconds(), self._now_us // 1_000)
        over_ms = self._clock.shown_ms()
        self.events += [event._replace(over_ms=over_ms) for event in noted]
        return answer

    # --- producers ---

    def create(self, messages: Sequence[NewMessage], group: str) -> list[Outcome]:
        """Create messages, each at a given moment."""

        def events(answer: list[Outcome], begun: float, ended: float, now_ms: int) -> list[Event]:
            assert len(answer) == len(messages)
            return [
                Event(self.name, "create", begun, ended, now_ms, LINE, one.id, one.outcome, at_of(message), body=body)
                for one, message in zip(answer, messages, strict=True)
                # A message whose id another has is not this one.
                for body in ([message.body] if one.outcome != "conflict" else [])
            ]

        return self.call(lambda: self.timeline.create(LINE, messages, producer_group=group), events)

    def move(self, moments: dict[str, int], group: str) -> list[Outcome]:
        """Move messages."""

        def events(answer: list[Outcome], begun: float, ended: float, now_ms: int) -> list[Event]:
            return [
                Event(self.name, "move", begun, ended, now_ms, LINE, one.id, one.outcome, moments[one.id])
                for one in answer
            ]

        return self.call(lambda: self.timeline.move(LINE, moments, producer_group=group), events)

    def cancel(self, ids: Sequence[str], group: str) -> list[Outcome]:
        """Cancel messages."""

        def events(answer: list[Outcome], begun: float, ended: float, now_ms: int) -> list[Event]:
            return [Event(self.name, "cancel", begun, ended, now_ms, LINE, one.id, one.outcome) for one in answer]

        return self.call(lambda: self.timeline.cancel(LINE, ids, producer_group=group), events)

    # --- consumers ---

    def lease(self, topic: str, limit: int, duration: int, buckets: range | None) -> list[LeasedMessage]:
        """Lease messages."""
        found = self.call(
            lambda: self.timeline.lease(topic, self.name, limit=limit, duration=_ms(duration), buckets=buckets),
            lambda found, *when: [self._leased("lease", topic, one, duration, *when) for one in found],
        )
        assert len(found) <= limit
        assert len({one.id for one in found}) == len(found) or topic == DEAD, [
            one for one in found if [two.id for two in found].count(one.id) > 1
        ]
        assert buckets is None or all(in_buckets(one.id, buckets, BUCKETS) for one in found)
        return found

    def lease_one(self, id: str, version: int, duration: int) -> list[LeasedMessage]:
        """Lease one message that was upcoming."""
        found = self.call(
            lambda: self.timeline.lease_one(LINE, id, version, self.name, duration=_ms(duration)),
            lambda one, *when: [self._leased("lease_one", LINE, one, duration, *when)] if one else [],
        )
        assert found is None or found.lease.version == version + 1
        return [found] if found else []

    def _leased(
        self, verb: str, topic: str, one: LeasedMessage, duration: int, begun: float, ended: float, now_ms: int
    ) -> Event:
        assert one.lease.until_ms == now_ms + duration
        assert (one.lease.topic, one.lease.id, one.lease.consumer) == (topic, one.id, self.name)
        return Event(
            self.name,
            verb,
            begun,
            ended,
            now_ms,
            topic,
            one.id,
            "leased",
            one.at_ms,
            lease=one.lease,
            attempts=one.attempts,
            body=one.body,
        )

    def use(
        self, verb: str, leases: Sequence[Lease], work: Callable[[], list[Outcome]], at_ms: int = 0
    ) -> list[Outcome]:
        """Do something with leases."""

        def events(answer: list[Outcome], begun: float, ended: float, now_ms: int) -> list[Event]:
            return [
                Event(self.name, verb, begun, ended, now_ms, token.topic, one.id, one.outcome, at_ms, token, one.lease)
                for token, one in zip(leases, answer, strict=True)
            ]

        return self.call(work, events)

    def extend(self, leases: Sequence[Lease], duration: int) -> list[Lease]:
        """Extend leases; those that hold now."""
        outcomes = self.use("extend", leases, lambda: self.timeline.extend(leases, _ms(duration)))
        return [one.lease for one in outcomes if one.lease is not None]

    def release(self, leases: Sequence[Lease], at_ms: int | None) -> None:
        """Give messages back."""
        self.use("release", leases, lambda: self.timeline.release(leases, at_ms, reason="raced"), at_ms or 0)

    def done(self, leases: Sequence[Lease]) -> None:
        """Finish messages."""
        self.use("done", leases, lambda: self.timeline.done(leases))


def at_of(message: NewMessage) -> int:
    """The moment of a message that was given one."""
    assert isinstance(message.at, int)
    return message.at


# --- roles ------------------------------------------------------------------------------------------------------------


def produce(actor: Actor, steps: int) -> None:
    """Create messages with made and with chosen ids, the same again and again; move and cancel some."""
    dice, group = actor.dice, "ours"
    mine: list[str] = []
    for step in range(steps):
        what = dice.random()
        chosen = [f"chosen-{number}" for number in dice.sample(range(IDS), dice.randint(1, 12))]
        known = dice.sample(mine, min(len(mine), 3)) + chosen[:4]
        if what < 0.5:
            together = actor.soon(-5, 60)
            messages = [NewMessage(id.encode(), dice.choice((together, actor.soon(-5, 60))), id) for id in chosen]
            messages += [
                NewMessage(f"{actor.name} {step} {one}".encode(), together) for one in range(dice.randint(0, 6))
            ]
            outcomes = actor.create(messages, group)
            mine += [one.id for one, message in zip(outcomes, messages, strict=True) if message.id is None]
        elif what < 0.55:
            actor.create([NewMessage(chosen[0].encode(), actor.soon(0, 9), chosen[0])], "theirs")
        elif what < 0.85:
            # Some to another slice of the line, and perhaps back again.
            actor.move({id: actor.soon(0, 80) + (dice.random() < 0.1) * 2 * SLICE_MS for id in known}, group)
        else:
            actor.cancel(known, group)


def consume(actor: Actor, steps: int) -> None:
    """Lease, in bulk and one by one; extend, release and finish; let some run out, and use what ran out."""
    dice = actor.dice
    held: list[Lease] = []
    if dice.random() < 0.5:
        actor.timeline.subscribe(LINE, actor.name)
    for _ in range(steps):
        held += [one.lease for one in _get(actor)]
        dice.shuffle(held)
        used, held = held[: dice.randint(0, 12)], held[12:] if dice.random() < 0.1 else held
        what = dice.random()
        if not used:
            continue
        if what < 0.25:
            extended = actor.extend(used, dice.randint(10, 120))
            # The old ones are kept as well: they are void.
            held += extended
        elif what < 0.45:
            actor.release(used, dice.choice((None, actor.soon(-5, 40))))
        elif what < 0.9:
            actor.done(used)
        held = [lease for lease in held if lease not in used or dice.random() < 0.3]


def _get(actor: Actor) -> list[LeasedMessage]:
    dice = actor.dice
    duration = dice.choice((8, 30, 150))
    if dice.random() < 0.2:
        upcoming = actor.timeline.upcoming(LINE, actor.name, within=_ms(3), limit=3)
        return [one for due in upcoming for one in actor.lease_one(due.id, due.version, duration)]
    first = dice.randrange(BUCKETS)
    buckets = range(first, dice.randint(first, BUCKETS)) if dice.random() < 0.4 else None
    return actor.lease(LINE, dice.choice((1, 3, 20)), duration, buckets)


def bury(actor: Actor, steps: int) -> None:
    """Consume the dead letters."""
    for _ in range(steps):
        found = actor.lease(DEAD, 5, actor.dice.choice((5, 50)), None)
        if found and actor.dice.random() < 0.5:
            actor.done([one.lease for one in found])


def tidy(actor: Actor, steps: int) -> None:
    """Prune and rescue."""
    for _ in range(steps):
        actor.prune.run_once()
        actor.rescue.run_once()


ROLES: Final[dict[str, Callable[[Actor, int], None]]] = {
    "produce": produce,
    "consume": consume,
    "bury": bury,
    "tidy": tidy,
}
#: Who acts, by process if there are several.
CAST: Final = (
    ("produce-1", "consume-1", "tidy-1"),
    ("produce-2", "consume-2", "consume-3"),
    ("produce-3", "consume-4", "bury-1", "tidy-2"),
)


def prepare(store: Store) -> None:
    """Make the topics."""
    Timeline(store).create_topic(LINE, buckets=BUCKETS, max_attempts=MAX_ATTEMPTS, dead_letter=DEAD)


def _act(name: str, seed: str, store: Store, clock: SharedClock, steps: int) -> list[Event]:
    actor = Actor(name, seed, store, clock)
    ROLES[name.partition("-")[0]](actor, steps)
    return actor.events


def act_in_threads(store: Store, names: Sequence[str], seed: str, clock: SharedClock, steps: int) -> list[Event]:
    """All of them, as threads on one store."""
    with ThreadPoolExecutor(len(names)) as threads:
        running = [threads.submit(_act, name, seed, store, clock, steps) for name in names]
        return [event for one in running for event in one.result(PATIENCE_S * 10)]


def act_in_processes(url: str, seed: str, clock: SharedClock, steps: int) -> list[Event]:
    """All of them, in processes with a few threads each."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["tests.stores.acting", "psycopg", "pymysql"])
    gate = context.Barrier(len(CAST))
    started = []
    try:
        for names in CAST:
            here, there = context.Pipe(duplex=False)
            process = context.Process(target=_act_alone, args=(url, names, seed, clock, steps, gate, there))
            process.start()
            there.close()
            started.append((process, here))
        return [event for _, here in started for event in here.recv()]
    finally:
        for process, here in started:
            here.close()
            process.join(PATIENCE_S)
            process.kill()
            process.join()


def _act_alone(url: str, names: Sequence[str], seed: str, clock: SharedClock, steps: int, gate: Any, end: Any) -> None:
    with open_store(url) as store:
        gate.wait(PATIENCE_S)
        end.send(act_in_threads(store, names, seed, clock, steps))


def tidy_up(store: Store, clock: Callable[[], int]) -> None:
    """Prune until nothing is left to prune."""
    prune = Prune(store, clock=clock)
    while prune.run_once():
        pass
