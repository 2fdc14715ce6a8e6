"""However calls meet: exactly one is told of each end, nothing is added after a seal, and the counters are exact."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from batchline.stores.opening import open_store
from tests.stores.racing import MORE, check, make_rounds, race_in_processes, race_in_threads

#: Rounds of threads and of processes.
ROUNDS = {"memory": (300, 0), "sqlite": (1500, 900), "postgresql": (1200, 900), "mariadb": (1200, 900)}
#: Memory looks for nothing by an index: it gets many small stores rather than a large one.
MEMORY_STORES = 10
WORKERS = 4


@pytest.fixture(params=list(ROUNDS))
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A store's name, and the address of an empty one."""
    if request.param == "memory":
        yield "memory", "memory://"
    elif request.param == "sqlite":
        yield "sqlite", f"sqlite:///{tmp_path / 'batchline.db'}"
    else:
        yield request.param, request.getfixturevalue(f"{request.param}_database")


#: What a fanout of these races can come to; a run in which one of them never came would have raced nothing.
STATES = {"complete", "failed", "expired", "sealed"}


def test_threads_that_race_are_told_exactly_once(database: tuple[str, str]) -> None:
    name, url = database
    times, more = (MEMORY_STORES * MORE, 1) if name == "memory" else (1, MORE)
    for time in range(times):
        rounds = make_rounds(f"threads {time}", ROUNDS[name][0] * more, WORKERS)
        with open_store(url) as store:
            items, answers = race_in_threads(store, rounds, WORKERS)
            assert check(store, url, rounds, items, answers).keys() >= STATES


def test_processes_that_race_are_told_exactly_once(database: tuple[str, str]) -> None:
    name, url = database
    if name == "memory":
        pytest.skip("memory:// is of one process")
    rounds = make_rounds("processes", ROUNDS[name][1] * MORE, WORKERS)
    items, answers = race_in_processes(url, rounds, WORKERS)
    with open_store(url) as store:
        assert check(store, url, rounds, items, answers).keys() >= STATES
