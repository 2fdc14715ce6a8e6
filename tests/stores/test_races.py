"""However calls meet: exactly one is told of each end, nothing is added after a seal, and the counters are exact."""

import pytest

from batchline.stores.opening import open_store
from tests.stores.racing import MORE, check, make_rounds, race_in_processes, race_in_threads

WORKERS = 4
ROUNDS_OF_THREADS = 1200 * MORE
ROUNDS_OF_PROCESSES = 900 * MORE
#: Memory looks for nothing by an index: it gets many small stores rather than a large one.
MEMORY_STORES, MEMORY_ROUNDS = 10, 300


#: What a fanout of these races can come to; a run in which one of them never came would have raced nothing.
STATES = {"complete", "failed", "expired", "sealed"}


def check_threads(url: str, seed: str, number: int) -> None:
    rounds = make_rounds(seed, number, WORKERS)
    with open_store(url) as store:
        items, answers = race_in_threads(store, rounds, WORKERS)
        assert check(store, url, rounds, items, answers).keys() >= STATES


@pytest.mark.parametrize("seed", range(MEMORY_STORES * MORE))
def test_in_memory_threads_that_race_are_told_exactly_once(seed: int) -> None:
    check_threads("memory://", f"memory {seed}", MEMORY_ROUNDS)


def test_threads_that_race_are_told_exactly_once(sql_database: str) -> None:
    check_threads(sql_database, "threads", ROUNDS_OF_THREADS)


def test_processes_that_race_are_told_exactly_once(sql_database: str) -> None:
    rounds = make_rounds("processes", ROUNDS_OF_PROCESSES, WORKERS)
    items, answers = race_in_processes(sql_database, rounds, WORKERS)
    with open_store(sql_database) as store:
        assert check(store, sql_database, rounds, items, answers).keys() >= STATES
