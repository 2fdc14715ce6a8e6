"""The pool: as many connections as allowed, renewed, repeated, translated, and never those of a parent process."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pymysql
import pytest

from batchline.errors import StoreError, StoreUnavailable, UnknownFanout
from batchline.runtime.tracker import Tracker
from batchline.stores.opening import open_store
from batchline.stores.store import Store
from tests.stores.observing import Beside, beside
from tests.stores.racing import PATIENCE_S
from tests.waiting import wait_until


@pytest.fixture
def watch(server_database: str) -> Iterator[Beside]:
    with beside(server_database) as watch:
        yield watch


def number_of(tracker: Tracker) -> int:
    """The number of a new fanout."""
    fanout = tracker.open().id
    return tracker._store.read(lambda rows: rows.fanouts_by_id([fanout])[fanout].number)


# --- how many ---------------------------------------------------------------------------------------------------------


def test_never_more_connections_are_open_than_allowed(server_database: str, watch: Beside) -> None:
    with open_store(f"{server_database}?connections=3") as store, ThreadPoolExecutor(12) as threads:
        tracker = Tracker(store)
        fanouts = [tracker.open().id for _ in range(12)]
        with beside(server_database) as keep:
            others = len(watch.connected()) - 1  # MariaDB does not know whose they are
            with keep.holding("batchline_fanouts"):
                sealing = [threads.submit(tracker.seal, fanout) for fanout in fanouts]
                watch.wait_for_waiting(3)
                assert len(watch.connected()) - others == 3
                assert watch.waiting() == 3
            assert all(one.result(PATIENCE_S).completed for one in sealing)
            assert len(watch.connected()) - others <= 3


def test_calls_one_after_the_other_share_a_connection(server_database: str, watch: Beside) -> None:
    with open_store(server_database) as store:
        tracker = Tracker(store)
        before = watch.connected()
        for _ in range(20):
            tracker.seal(tracker.open().id)
        assert watch.connected() == before
        assert len(before) == 1


def test_closing_ends_every_connection(server_database: str, watch: Beside) -> None:
    with open_store(server_database) as store:
        together = threading.Barrier(4)
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda _: store.read(lambda _: together.wait(PATIENCE_S)), range(4)))
        assert len(watch.connected()) == 4
    wait_until(lambda: not watch.connected())


def test_a_call_under_way_when_the_store_is_closed_leaves_no_connection(server_database: str, watch: Beside) -> None:
    store = open_store(server_database)
    inside, go_on = threading.Event(), threading.Event()

    def work(_: object) -> str:
        inside.set()
        assert go_on.wait(PATIENCE_S)
        return "done"

    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(store.transact, work)
        assert inside.wait(PATIENCE_S)
        store.close()
        go_on.set()
        assert working.result(PATIENCE_S) == "done"
    wait_until(lambda: not watch.connected())


def test_a_store_that_was_closed_does_not_open_again(server_database: str, watch: Beside) -> None:
    store = open_store(server_database)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        Tracker(store).open()
    wait_until(lambda: not watch.connected())


def test_closing_wakes_who_waits_for_a_connection_or_for_the_next_attempt(server_database: str) -> None:
    store = open_store(f"{server_database}?connections=1")
    inside, go_on = threading.Event(), threading.Event()

    def work(_: object) -> None:
        inside.set()
        assert go_on.wait(PATIENCE_S)

    with ThreadPoolExecutor(2) as threads:
        working = threads.submit(store.transact, work)
        assert inside.wait(PATIENCE_S)
        waiting = threads.submit(Tracker(store).open)
        store.close()
        go_on.set()
        working.result(PATIENCE_S)
        with pytest.raises(StoreError):
            waiting.result(PATIENCE_S)


# --- renewed ----------------------------------------------------------------------------------------------------------


def test_connections_that_an_administrator_ended_are_renewed_unnoticed(server_database: str, watch: Beside) -> None:
    with open_store(server_database) as store:
        tracker = Tracker(store)
        for _ in range(5):
            ours = watch.connected()
            for number in ours:
                watch.kill(number)
            wait_until(lambda ours=ours: not set(watch.connected()) & set(ours))  # type: ignore[misc]
            tracker.open()
        assert len(tracker.list().fanouts) == 5


def test_connections_that_the_server_ended_because_they_were_idle_are_renewed_unnoticed(
    server_database: str, watch: Beside
) -> None:
    with open_store(server_database) as store:
        tracker = Tracker(store)
        fanout = tracker.open().id
        sql = {"p": "SET idle_session_timeout = '1ms'", "m": "SET SESSION wait_timeout = 1"}[server_database[0]]
        _on_connection(store, sql)
        wait_until(lambda: not watch.connected())
        assert tracker.status(fanout).state == "open"


def _on_connection(store: Store, sql: str) -> None:
    """Run a statement on the store's own connection, without a transaction."""
    connections: Any = store.connections  # type: ignore[attr-defined]
    connections.transact(lambda connection: connection.cursor().execute(sql))


def test_a_connection_that_ends_within_a_transaction_is_renewed_and_the_work_repeated(
    server_database: str, watch: Beside
) -> None:
    with open_store(server_database) as store:
        tracker = Tracker(store)
        number = number_of(tracker)
        attempts = []

        def work(rows: Any) -> str:
            attempts.append(rows)
            held = rows.hold_fanout(number)
            if len(attempts) == 1:
                for one in watch.connected():
                    watch.kill(one)
                wait_until(lambda: not watch.connected())
            held.total += 1
            rows.write_fanout(held)
            return str(held.id)

        fanout = store.transact(work)
        assert len(attempts) == 2
        assert tracker.status(fanout).total == 1


# --- repeated ---------------------------------------------------------------------------------------------------------


def test_a_deadlock_is_repeated_until_both_have_succeeded(server_database: str) -> None:
    with open_store(server_database) as store, ThreadPoolExecutor(2) as threads:
        tracker = Tracker(store)
        first, second = number_of(tracker), number_of(tracker)
        both_hold_one = threading.Barrier(2)
        attempts: list[int] = []

        def add_to(numbers: tuple[int, int]) -> None:
            mine: list[int] = []

            def work(rows: Any) -> None:
                attempts.append(numbers[0])
                mine.append(numbers[0])
                for number in numbers:
                    held = rows.hold_fanout(number)
                    if len(mine) == 1 and number == numbers[0]:
                        both_hold_one.wait(PATIENCE_S)
                    held.total += 1
                    rows.write_fanout(held)

            store.transact(work)

        list(threads.map(add_to, [(first, second), (second, first)]))
        assert len(attempts) >= 3  # the one that is broken off may lock its first row again before the other does
        assert [status.total for status in tracker.list().fanouts] == [2, 2]


def test_who_never_gets_a_lock_gives_up_when_patience_ends(server_database: str) -> None:
    with open_store(f"{server_database}?patience=100ms") as store, beside(server_database) as keep:
        tracker = Tracker(store)
        fanout = tracker.open().id
        sql = {"p": "SET lock_timeout = '10ms'", "m": "SET SESSION innodb_lock_wait_timeout = 0"}[server_database[0]]
        _on_connection(store, sql)
        with keep.holding("batchline_fanouts"), pytest.raises(StoreUnavailable, match=r"tried for 0\.\d s") as refused:
            tracker.seal(fanout)
        assert isinstance(refused.value.__cause__, psycopg.errors.LockNotAvailable | pymysql.err.OperationalError)
        assert tracker.seal(fanout).completed


# --- errors -----------------------------------------------------------------------------------------------------------


def test_errors_of_the_driver_come_out_as_ours_and_chained(server_database: str, watch: Beside) -> None:
    with open_store(server_database) as store:
        tracker = Tracker(store)
        watch.run("DROP TABLE batchline_labels")
        with pytest.raises(StoreError, match="batchline_labels") as refused:
            tracker.open(labels={"job": "import"})
        assert isinstance(refused.value.__cause__, psycopg.Error | pymysql.Error)
        assert not isinstance(refused.value, StoreUnavailable)
        assert watch.run("SELECT * FROM batchline_fanouts") == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError, UnknownFanout])
def test_whatever_the_work_raises_rolls_back(sql_database: str, error: type[BaseException]) -> None:
    with open_store(sql_database) as store:
        tracker = Tracker(store)
        number = number_of(tracker)

        def work(rows: Any) -> None:
            held = rows.hold_fanout(number)
            held.total = 99
            rows.write_fanout(held)
            raise error("enough")

        with pytest.raises(error, match="enough"):
            store.transact(work)
        (status,) = tracker.list().fanouts
        assert status.total == 0
        assert tracker.seal(status.id).completed  # nothing is locked


INTERRUPTED = """
import signal, sys
from batchline import Tracker, open_store

# Whoever runs the tests in the background may have it ignored, and Python leaves that so.
signal.signal(signal.SIGINT, signal.default_int_handler)
with open_store(sys.argv[1]) as store:
    tracker = Tracker(store)
    fanout = tracker.open("import").id
    print("opened", flush=True)
    sys.stdin.readline()
    try:
        tracker.seal(fanout)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    sys.stdin.readline()
    print(tracker.seal(fanout).completed, flush=True)
"""


def test_a_call_that_is_interrupted_while_it_waits_has_not_happened(server_database: str, watch: Beside) -> None:
    command = [sys.executable, "-c", INTERRUPTED, server_database]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
        beside(server_database) as keep,
    ):
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "opened\n"
        with keep.holding("batchline_fanouts"):
            print(file=process.stdin, flush=True)
            watch.wait_for_waiting(1)
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "interrupted\n"
        assert watch.run("SELECT sealed_us FROM batchline_fanouts") == [(None,)]
        print(file=process.stdin, flush=True)
        assert process.stdout.readline() == "True\n"


# --- forks ------------------------------------------------------------------------------------------------------------

FORK = """
import os, sys
from batchline import Tracker, open_store

store = open_store(sys.argv[1])
tracker = Tracker(store)
fanout = tracker.open("of-both").id
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    how = sys.argv[2]
    if how != "close":
        tracker.add(fanout, 10)
    if how != "use":
        store.close()
    sys.exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
before = {connections}
tracker.add(fanout, 1)
tracker.seal(fanout)
print(tracker.status(fanout).total, len(before), before == {connections})
store.close()
"""
FREE = {
    "postgresql": "list(store.connections._free)",
    "mysql": "list(store.connections._free)",
    "sqlite": "list(store._writer._free)",
}


@pytest.mark.parametrize(("how", "total"), [("use", 11), ("close", 1), ("both", 11)])
def test_a_forked_child_neither_uses_nor_closes_its_parents_connections(
    sql_database: str, how: str, total: int
) -> None:
    program = FORK.format(connections=FREE[sql_database.partition(":")[0]])
    command = [sys.executable, "-c", program, sql_database, how]
    ended = subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=PATIENCE_S)
    # A SQLite connection must not be open when its process forks.
    kept = "0 False" if sql_database.startswith("sqlite") else "1 True"
    assert (ended.stdout, ended.stderr) == (f"{total} {kept}\n", "")
