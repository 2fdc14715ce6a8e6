"""SQLite under load: one file, several processes and threads, and nobody ever finds it locked."""

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import pytest

from batchline.runtime.tracker import Tracker
from batchline.stores.opening import open_store
from batchline.stores.sqlite import store as sqlite_store
from batchline.stores.sqlite.store import SqliteDriver, SqliteStore
from tests.stores.killable import add_for_ever_uncommitted, finish_with_threads
from tests.stores.racing import MORE, PATIENCE_S, recount, select
from tests.waiting import wait_until

T = TypeVar("T")
PROCESSES, THREADS, ADDS = 3, 3, 100 * MORE


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'batchline.db'}"


@pytest.mark.parametrize("synchronous", ["normal", "full"])
def test_processes_with_threads_never_find_it_locked(url: str, synchronous: str) -> None:
    with open_store(url) as store:
        fanout = Tracker(store).open().id
    context = get_context("spawn")
    gate = context.Barrier(PROCESSES)
    here, there = context.Pipe(duplex=False)
    arguments = (f"{url}?synchronous={synchronous}", fanout, THREADS, ADDS, gate, there)
    processes = [context.Process(target=finish_with_threads, args=arguments) for _ in range(PROCESSES)]
    try:
        for process in processes:
            process.start()
        there.close()
        done = [here.recv() for _ in processes]
    finally:
        for process in processes:
            process.join(PATIENCE_S)
            process.kill()
        here.close()
    assert done == [THREADS * ADDS * 3] * PROCESSES
    with open_store(url) as store:
        status = Tracker(store).status(fanout)
        assert (status.total, status.pending) == (sum(done), 0)
        assert Tracker(store).seal(fanout).completed
        assert recount(store, url)[fanout].open_shards == 0


def test_a_long_reader_keeps_nobody_from_writing_and_sees_one_moment(url: str) -> None:
    with open_store(url) as store, ThreadPoolExecutor(1) as threads:
        tracker = Tracker(store)
        fanout = tracker.open().id
        reading, written = threading.Event(), threading.Event()

        def read(rows: Any) -> list[int]:
            before = rows.status(fanout).total
            reading.set()
            assert written.wait(PATIENCE_S)
            return [before, rows.status(fanout).total]

        reader = threads.submit(store.read, read)
        assert reading.wait(PATIENCE_S)
        for _ in range(200):
            tracker.add(fanout, 100)
        assert tracker.status(fanout).total == 20_000
        written.set()
        assert reader.result(PATIENCE_S) == [0, 0]
        assert tracker.status(fanout).total == 20_000


def test_who_holds_the_file_for_longer_than_sqlite_waits_is_waited_for(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "BUSY_S", 0.0)
    with open_store(url) as store, ThreadPoolExecutor(1) as threads:
        assert isinstance(store, SqliteStore)
        attempts: list[int] = []

        class Counting(SqliteDriver):
            """The driver, and how often it was asked."""

            def run(self, connection: sqlite3.Connection, work: Callable[[Any], T]) -> T:
                attempts.append(1)
                return super().run(connection, work)

        store._writer._driver = Counting(Path(url.removeprefix("sqlite:///")), "normal", "BEGIN IMMEDIATE")
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            opening = threads.submit(Tracker(store).open)
            wait_until(lambda: len(attempts) > 4)
            other.execute("COMMIT")
        assert opening.result(PATIENCE_S).state == "open"


@pytest.mark.parametrize("count", [10, 1_000_000], ids=["a few rows", "more than a cache"])
def test_a_writer_killed_in_the_midst_of_a_transaction_leaves_the_file_whole(url: str, count: int) -> None:
    with open_store(url) as store, ThreadPoolExecutor(1) as threads:
        tracker = Tracker(store)
        fanout = tracker.open().id
        context = get_context("spawn")
        here, there = context.Pipe()
        victim = context.Process(target=add_for_ever_uncommitted, args=(url, fanout, count, there))
        victim.start()
        assert here.recv() == "written"
        # This one waits for the file until the other is dead.
        adding = threads.submit(tracker.add, fanout, 5)
        victim.kill()
        victim.join(PATIENCE_S)
        assert sum(group.upto for group in adding.result(PATIENCE_S)) == 5
    assert select(url, "PRAGMA integrity_check") == [("ok",)]
    with open_store(url) as store:
        assert Tracker(store).status(fanout).total == 5
        assert recount(store, url)[fanout].bits == 5
