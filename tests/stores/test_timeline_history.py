"""However calls meet: one lease at a time, nothing early, nothing lost or doubled, and the counts are exact."""

import pytest

from batchline.runtime.timeline import Timeline
from batchline.stores.opening import open_store
from batchline.stores.store import Store
from tests.stores.acting import CAST, SharedClock, act_in_processes, act_in_threads, new_clock, prepare, tidy_up
from tests.stores.history import Event, check_history, what_is_left
from tests.stores.racing import MORE

STEPS = 80
ALL = [name for names in CAST for name in names]
#: A run in which one of these never happened would have raced nothing.
HAPPENED = {
    "create created",
    "create exists",
    "move moved",
    "move leased",
    "move unknown",
    "cancel cancelled",
    "cancel leased",
    "lease leased",
    "lease_one leased",
    "extend extended",
    "extend lost",
    "release released",
    "release lost",
    "done done",
    "done lost",
}


def check(seed: str, store: Store, url: str, clock: SharedClock, events: list[Event]) -> None:
    tidy_up(store, clock)
    now_us = clock()
    happened = check_history(seed, events, what_is_left(store, url), Timeline(store, clock=lambda: now_us))
    assert happened.keys() >= HAPPENED


@pytest.mark.parametrize("run", range(MORE))
def test_in_memory_threads_lose_double_and_hasten_nothing(run: int) -> None:
    seed, clock = f"memory {run}", new_clock()
    with open_store("memory://") as store:
        prepare(store)
        check(seed, store, "memory://", clock, act_in_threads(store, ALL, seed, clock, STEPS))


@pytest.mark.parametrize("run", range(MORE))
def test_threads_lose_double_and_hasten_nothing(sql_database: str, run: int) -> None:
    seed, clock = f"threads {run}", new_clock()
    with open_store(sql_database) as store:
        prepare(store)
        check(seed, store, sql_database, clock, act_in_threads(store, ALL, seed, clock, STEPS))


@pytest.mark.parametrize("run", range(MORE))
def test_processes_lose_double_and_hasten_nothing(sql_database: str, run: int) -> None:
    seed, clock = f"processes {run}", new_clock()
    with open_store(sql_database) as store:
        prepare(store)
        check(seed, store, sql_database, clock, act_in_processes(sql_database, seed, clock, STEPS))
