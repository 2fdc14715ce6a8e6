"""The roles that actors play on a timeline, and the threads and processes in which they do.

    produce   creates, moves, cancels and creates again under the same ids, and repeats calls
    consume   leases under a name of its own; lets leases run out, and uses them all the same
    work      leases under a name that several share, each in a session; is replaced, falls silent, or is killed
    bury      consumes the dead letters
    tidy      prunes and rescues

In a module that a new process can load.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from multiprocessing import get_context
from typing import Any, Final

from batchline.core.future_load import SLICE_MS
from batchline.core.message import Lease, LeasedMessage, NewMessage
from batchline.errors import ConsumerReplaced
from batchline.runtime.clock import elapsed_seconds
from batchline.runtime.consumer_session import ConsumerSession
from batchline.runtime.prune import Prune
from batchline.runtime.timeline import Timeline
from batchline.stores.opening import open_store
from batchline.stores.store import Store
from tests.stores.acting import BUCKETS, Actor, SharedClock, span
from tests.stores.events import DEAD, KEEP_MS, LINE, MAX_ATTEMPTS, Record
from tests.stores.racing import PATIENCE_S

__all__ = ["CAST", "act_in_processes", "act_in_threads", "drain", "prepare", "tidy_up"]

#: Chosen ids that all producers use again and again.
IDS: Final = 60
#: The name that all who work share.
WORKER: Final = "worker"


# --- producers --------------------------------------------------------------------------------------------------------


def produce(actor: Actor, steps: int) -> None:
    """Create messages with made and with chosen ids, the same again and again; move, cancel and read some."""
    dice = actor.dice
    mine: dict[str, NewMessage] = {}
    for step in range(steps):
        group = dice.choice(("ours", "ours", "ours", "theirs"))
        what = dice.random()
        chosen = [f"chosen-{number}" for number in dice.sample(range(IDS), dice.randint(1, 12))]
        known = dice.sample(sorted(mine), min(len(mine), 3)) + chosen[:4]
        times = 2 if dice.random() < 0.2 else 1  # as after an answer that was lost
        if what < 0.4:
            _create(actor, step, chosen, mine, times)
        elif what < 0.45 and mine:
            id = dice.choice(sorted(mine))
            actor.create([NewMessage(mine[id].body, actor.soon(0, 9), id)], group)
        elif what < 0.6:
            # Some to another slice of the line, and perhaps back again.
            actor.move({id: actor.soon(0, 80) + (dice.random() < 0.1) * 2 * SLICE_MS for id in known}, group)
        elif what < 0.75:
            for id in known[-3:]:
                actor.read(id, group)
        else:
            for _ in range(times):
                actor.cancel(known, group)
            if dice.random() < 0.5:
                actor.create([_message(actor, id, actor.soon(-5, 60)) for id in chosen[:4]], group)


def _create(actor: Actor, step: int, chosen: Sequence[str], mine: dict[str, NewMessage], times: int) -> None:
    dice, together = actor.dice, actor.soon(-5, 60)
    messages = [_message(actor, id, dice.choice((together, actor.soon(-5, 60)))) for id in chosen]
    made = [NewMessage(f"{actor.name} {step} {one}".encode(), together) for one in range(dice.randint(0, 6))]
    outcomes = actor.create([*messages, *made], "ours")
    mine |= {one.id: message for one, message in zip(outcomes[len(messages) :], made, strict=True)}
    if times > 1:
        actor.create(messages, "ours")


def _message(actor: Actor, id: str, at_ms: int) -> NewMessage:
    """A message whose body is mostly the same for its id."""
    return NewMessage(id.encode() + (b" changed" if actor.dice.random() < 0.15 else b""), at_ms, id)


# --- consumers --------------------------------------------------------------------------------------------------------


def consume(actor: Actor, steps: int) -> None:
    """Lease, in bulk and one by one; extend, release and finish; let some run out, and use what ran out."""
    dice = actor.dice
    held: list[Lease] = []
    if dice.random() < 0.5:
        actor.timeline.subscribe(LINE, actor.name)
    for _ in range(steps):
        held += [one.lease for one in _get(actor)]
        held = _use(actor, held)


def _get(actor: Actor) -> list[LeasedMessage]:
    dice = actor.dice
    duration = dice.choice((8, 30, 150))
    if dice.random() < 0.2:
        upcoming = actor.timeline.upcoming(LINE, actor.name, within=span(3), limit=3)
        return [one for due in upcoming for one in actor.lease_one(due.id, due.version, duration)]
    first = dice.randrange(BUCKETS)
    buckets = range(first, dice.randint(first, BUCKETS)) if dice.random() < 0.4 else None
    return actor.lease(LINE, dice.choice((1, 3, 20)), duration, buckets)


def _use(actor: Actor, held: list[Lease]) -> list[Lease]:
    """Use some of the leases held, some of them twice; those that are held then, void ones among them."""
    dice = actor.dice
    dice.shuffle(held)
    used, held = held[: dice.randint(0, 12)], held[12:] if dice.random() < 0.1 else held
    what, times = dice.random(), 2 if dice.random() < 0.2 else 1
    if not used:
        return held
    if what < 0.25:
        held = held + actor.extend(used, dice.randint(10, 120))
    elif what < 0.45:
        at_ms = dice.choice((None, actor.soon(-5, 40)))
        for _ in range(times):
            actor.release(used, at_ms)
    elif what < 0.9:
        for _ in range(times):
            actor.done(used)
    return [lease for lease in held if lease not in used or dice.random() < 0.3]


def work(actor: Actor, steps: int) -> None:
    """Lease in sessions of a name that others have as well: drain and end, fall silent, or be replaced."""
    dice = actor.dice
    session, held = _begin(actor)
    for _ in range(steps):
        what = dice.random()
        if what < 0.06:  # an update: what it has is finished, and a new one begins
            actor.done(held)
            session.end()
            session, held = _begin(actor)
        elif what < 0.1:  # it falls silent, and uses later what it had
            session, taken = _begin(actor)
            held = held + taken
        elif what < 0.4:
            try:
                held = held + [one.lease for one in session.beat()]
            except ConsumerReplaced:
                actor.done(held[: len(held) // 2])
                session.end()
                session, held = _begin(actor)
        if dice.random() < 0.6:
            duration = dice.choice((30, 400))
            with suppress(ConsumerReplaced):
                found = actor.lease(LINE, 5, duration, consumer=WORKER, session=session.number, buckets=range(BUCKETS))
                held = held + [one.lease for one in found]
        held = _use(actor, held)


#: Duration of leases that are taken over.
TAKEN_FOR_MS: Final = 200


def _begin(actor: Actor) -> tuple[ConsumerSession, list[Lease]]:
    session = ConsumerSession(actor.timeline, LINE, WORKER, lease=span(TAKEN_FOR_MS))
    try:
        return session, [one.lease for one in session.begin()]
    except ConsumerReplaced:  # another began at the same time
        return session, []


def bury(actor: Actor, steps: int) -> None:
    """Consume the dead letters."""
    for _ in range(steps):
        found = actor.lease(DEAD, 5, actor.dice.choice((5, 50)))
        if found and actor.dice.random() < 0.5:
            actor.done([one.lease for one in found])


def tidy(actor: Actor, steps: int) -> None:
    """Prune and rescue."""
    for _ in range(steps):
        actor.prune()
        actor.rescue.run_once()


ROLES: Final[dict[str, Callable[[Actor, int], None]]] = {
    "produce": produce,
    "consume": consume,
    "work": work,
    "bury": bury,
    "tidy": tidy,
}
#: The actors, by process if there are several.
CAST: Final = (
    ("produce-1", "consume-1", "work-1", "tidy-1"),
    ("produce-2", "consume-2", "consume-3", "work-2"),
    ("produce-3", "consume-4", "work-3", "bury-1", "tidy-2"),
)
#: Steps of an actor that is killed behind them.
STEPS_TO_LIVE: Final = 25


# --- threads and processes --------------------------------------------------------------------------------------------


def prepare(store: Store) -> None:
    """Make the topics."""
    timeline, keep = Timeline(store), span(KEEP_MS)
    timeline.create_topic(DEAD, buckets=BUCKETS, keep=keep)
    timeline.create_topic(LINE, buckets=BUCKETS, max_attempts=MAX_ATTEMPTS, dead_letter=DEAD, keep=keep)


def _act(name: str, seed: str, store: Store, clock: SharedClock, steps: int) -> Record:
    role = name.partition("-")[0]
    actor = Actor(name, seed, store, clock, skew_ms=4 * (len(name) % 3 - 1) if role == "work" else 0)
    ROLES[role](actor, steps)
    return Record(actor.events, actor.sessions, actor.calls)


def act_in_threads(store: Store, names: Iterable[str], seed: str, clock: SharedClock, steps: int) -> Record:
    """All of them, as threads on one store."""
    record, named = Record(), list(names)
    gate = threading.Barrier(len(named))

    def begin_together(name: str) -> Record:
        gate.wait(PATIENCE_S)
        return _act(name, seed, store, clock, steps)

    with ThreadPoolExecutor(len(named)) as threads:
        for one in [threads.submit(begin_together, name) for name in named]:
            record.add(one.result(PATIENCE_S * 10))
    return record


def act_in_processes(url: str, seed: str, clock: SharedClock, steps: int) -> Record:
    """All of them, in processes with a few threads each; beside them some that are killed, one after another."""
    record = Record()
    with ThreadPoolExecutor(len(CAST)) as threads:
        running = [threads.submit(_act_beside, url, names, seed, clock, steps) for names in CAST]
        for number in range(max(steps // STEPS_TO_LIVE, 1)):
            with _started(url, [f"work-killed-{number}"], seed, clock, STEPS_TO_LIVE) as (process, end):
                record.add(end.recv())
                record.gone[process.pid] = elapsed_seconds()
                process.kill()
        for one in running:
            record.add(one.result(PATIENCE_S * 10))
    return record


def _act_beside(url: str, names: Sequence[str], seed: str, clock: SharedClock, steps: int) -> Record:
    with _started(url, names, seed, clock, steps) as (process, end):
        found: Record = end.recv()
        found.gone[process.pid] = elapsed_seconds()
        end.send("enough")
        return found


@contextmanager
def _started(url: str, names: Sequence[str], seed: str, clock: SharedClock, steps: int) -> Iterator[tuple[Any, Any]]:
    context = get_context("forkserver")
    context.set_forkserver_preload(["tests.stores.casting", "psycopg", "pymysql"])
    here, there = context.Pipe()
    process = context.Process(target=_act_alone, args=(url, names, seed, clock, steps, there))
    process.start()
    there.close()
    try:
        yield process, here
    finally:
        here.close()
        process.join(PATIENCE_S)
        process.kill()
        process.join()


def _act_alone(url: str, names: Sequence[str], seed: str, clock: SharedClock, steps: int, end: Any) -> None:
    """Act, tell what was noted, and stay until told or killed."""
    with open_store(url) as store:
        end.send(act_in_threads(store, names, seed, clock, steps))
        end.recv()


def tidy_up(store: Store, clock: SharedClock) -> None:
    """Prune until nothing is left to prune."""
    clock.jump(span(KEEP_MS))
    prune = Prune(store, clock=clock)
    while prune.run_once():
        pass


def drain(store: Store, clock: SharedClock) -> Record:
    """Let one consumer lease and finish all that is left, when all of it is due."""
    clock.jump(timedelta(days=1))
    actor = Actor("drain", "", store, clock)
    for topic in (LINE, DEAD):
        while found := actor.lease(topic, 7, 1_000_000):
            actor.done([one.lease for one in found])
    clock.jump(span(KEEP_MS))
    while actor.prune():
        pass
    return Record(actor.events, actor.sessions, actor.calls)
