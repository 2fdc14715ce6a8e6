"""However calls meet: one lease at a time, nothing early, nothing lost or doubled, and the counts are exact."""

import sys
from collections.abc import Iterator

import pytest

from batchline.runtime.timeline import Timeline
from batchline.stores.opening import open_store
from batchline.stores.store import Store
from tests.stores.acting import SharedClock, new_clock
from tests.stores.casting import CAST, act_in_processes, act_in_threads, drain, prepare, tidy_up
from tests.stores.events import Record
from tests.stores.history import check_counts, check_history, check_left, what_is_left
from tests.stores.racing import MORE

STEPS = 60
#: Calls of one history with the full profile.
MANY = 10_000
ALL = [name for names in CAST for name in names]
#: A run in which several of these never happened would have raced nothing; a long one has all of them.
HAPPENED = {
    "create created",
    "create exists",
    "create conflict",
    "create created after cancel cancelled",
    "create exists again",
    "move moved",
    "move leased",
    "move unknown",
    "move foreign",
    "cancel cancelled",
    "cancel leased",
    "cancel cancelled again",
    "read read",
    "read unknown",
    "lease leased",
    "lease_one leased",
    "take_over leased",
    "extend extended",
    "extend lost",
    "release released",
    "release released again",
    "release lost",
    "done done",
    "done done again",
    "done lost",
    "bury buried",
}


def check(seed: str, store: Store, url: str, clock: SharedClock, record: Record) -> None:
    tidy_up(store, clock)
    left, now_us = what_is_left(store, url), clock()
    check_left(left)
    check_counts(left, Timeline(store, clock=lambda: now_us))
    record.add(drain(store, clock))
    happened = check_history(seed, record)
    empty = what_is_left(store, url)
    assert (empty.spots, empty.bundles, empty.places) == ([], {}, {})
    missing = HAPPENED - happened.keys()
    assert len(missing) <= (0 if MORE > 1 else 2), missing
    assert record.calls >= (MANY if MORE > 1 else 0)


@pytest.fixture
def quick_switch() -> Iterator[None]:
    """Let threads take turns within a call, which in memory takes no longer than their usual turn."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(0.000_5)
    yield
    sys.setswitchinterval(usual)


def test_in_memory_threads_lose_double_and_hasten_nothing(quick_switch: None) -> None:
    seed, clock = "memory", new_clock()
    with open_store("memory://") as store:
        prepare(store)
        check(seed, store, "memory://", clock, act_in_threads(store, ALL, seed, clock, 2 * STEPS * MORE))


def test_threads_lose_double_and_hasten_nothing(sql_database: str) -> None:
    seed, clock = "threads", new_clock()
    with open_store(sql_database) as store:
        prepare(store)
        check(seed, store, sql_database, clock, act_in_threads(store, ALL, seed, clock, STEPS * MORE))


def test_processes_lose_double_and_hasten_nothing(sql_database: str) -> None:
    seed, clock = "processes", new_clock()
    with open_store(sql_database) as store:
        prepare(store)
        check(seed, store, sql_database, clock, act_in_processes(sql_database, seed, clock, STEPS * MORE))
