"""Workers on fanouts, killed at any moment: what they did is exact, and others go on with the same ids."""

import random
from collections import defaultdict
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from batchline.runtime.clock import now_us
from batchline.runtime.tracker import Tracker
from batchline.stores.opening import open_store
from batchline.stores.settling import HEAD_START_US, LEVELS_AT_ONCE
from tests.contract.tracking import chain, expire_all
from tests.stores.killable import ITEMS, finish_fanouts, seal_in_part
from tests.stores.racing import MORE, PATIENCE_S, recount

KILLS = 20 * MORE


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store of each kind that outlives a process."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'batchline.db'}"
    return str(request.getfixturevalue(f"{request.param}_database"))


def heard(end: Connection, most: int | None = None) -> list[tuple[int, str]]:
    """What a worker says, up to so many lines or until it is gone."""
    said: list[tuple[int, str]] = []
    with suppress(EOFError, ConnectionResetError):
        while most is None or len(said) < most:
            assert end.poll(PATIENCE_S)
            said.append(end.recv())
    return said


def test_workers_that_are_killed_leave_an_exact_state_to_the_next(url: str) -> None:
    open_store(url).close()
    context = get_context("forkserver")
    context.set_forkserver_preload(["tests.stores.killable", "psycopg", "pymysql"])
    dice = random.Random("kill -9")
    told: dict[int, int] = defaultdict(int)
    begun = 0
    for run in range(KILLS + 1):
        here, there = context.Pipe(duplex=False)
        is_last = run == KILLS
        # A few are done again, by calls with ids of their own: nobody is told a second time.
        first = 0 if is_last else max(0, begun - 2)
        worker = context.Process(target=finish_fanouts, args=(url, run, first, begun if is_last else None, there))
        worker.start()
        there.close()
        said = heard(here, None if is_last else dice.randint(1, 30))
        if not is_last:
            worker.join(dice.random() * 0.01)  # it goes on meanwhile
            worker.kill()
            said += heard(here)
        worker.join(PATIENCE_S)
        here.close()
        assert worker.exitcode == (0 if is_last else -9)
        begun = max(begun, *(number for number, _ in said))
        for number, word in said:
            told[number] += int(word.removeprefix("told ")) if word.startswith("told") else 0
    with open_store(url) as store:
        tracker = Tracker(store)
        rows = recount(store, url)
        for number in range(begun + 1):
            status = tracker.status(f"fanout-{number}")
            assert (status.state, status.total, status.pending) == ("complete", ITEMS, 0)
            assert told[number] <= 1
            assert (rows[status.id].bits, rows[status.id].open_shards) == (0, 0)
    # Who was told and died before it could say so: it is known all the same, from completed_at.
    assert sum(told[number] == 0 for number in range(begun + 1)) <= KILLS
    assert len(rows) <= begun + 2


@pytest.mark.parametrize("transactions", [0, 1, 2])
def test_a_deep_chain_completes_after_a_kill_between_its_transactions(url: str, transactions: int) -> None:
    with open_store(url) as store:
        ids = chain(store, 3 * LEVELS_AT_ONCE, now_us())
    context = get_context("forkserver")
    here, there = context.Pipe()
    worker = context.Process(target=seal_in_part, args=(url, ids[-1], transactions, there))
    worker.start()
    there.close()
    assert here.poll(PATIENCE_S)
    assert here.recv() == "written"
    worker.kill()
    worker.join(PATIENCE_S)
    here.close()
    assert worker.exitcode == -9
    with open_store(url) as store:
        later = Tracker(store, clock=lambda: now_us() + HEAD_START_US)
        complete = [id for id in ids if later.status(id).state == "complete"]
        assert len(complete) == transactions * LEVELS_AT_ONCE + (transactions > 0)
        if not transactions:
            assert later.seal(ids[-1]).completed
        told = expire_all(later).completed
        assert {later.status(id).state for id in ids} == {"complete"}
        assert sorted(told) == (sorted(set(ids) - set(complete)) if transactions else [])
        assert expire_all(later).completed == []
