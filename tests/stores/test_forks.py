"""Forks: a child uses the store of its parent, whatever other threads do; or is refused, and never hangs."""

import subprocess
import sys
from pathlib import Path

import pytest

PATIENCE_S = 120.0

BEGIN = """
import os, select, sqlite3, sys, threading
from contextlib import closing
from batchline import Tracker, open_store
from batchline.errors import ForkedStore
from batchline.stores import forks

path = sys.argv[1]
store = open_store(sys.argv[2])
tracker = Tracker(store)
fanout = tracker.open("of-both").id

def ended(child, within_s=30):
    # How it ended; None, if it hung and had to be killed.
    if not select.select([pidfd := os.pidfd_open(child)], [], [], within_s)[0]:
        os.kill(child, 9)
        os.waitpid(child, 0)
        return None
    os.close(pidfd)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def is_refused(call):
    try:
        call()
    except ForkedStore as error:
        return "expected a fork between calls: end them first, or start the process anew" in str(error)
    return False

def writes(timeout=0):
    # Whether another connection, of the system's own view, may write now.
    with closing(sqlite3.connect(path, timeout=timeout, isolation_level=None)) as other:
        try:
            other.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        return True
"""

HAMMERED = """
stop = threading.Event()
def hammer():
    while not stop.is_set():
        tracker.add(fanout, 1)
        tracker.status(fanout)
threads = [threading.Thread(target=hammer) for _ in range(6)]
for thread in threads:
    thread.start()
ends = []
for _ in range(20):
    if (child := os.fork()) == 0:
        tracker.add(fanout, 1)
        tracker.status(fanout)
        store.close()
        os._exit(0)
    ends.append(ended(child, 10))
stop.set()
for thread in threads:
    thread.join()
print(ends == [0] * 20 or ends)
"""

CLOSED_BY_PARENT = """
(from_child, to_parent), (from_parent, to_child) = os.pipe(), os.pipe()
if (child := os.fork()) == 0:
    tracker.add(fanout, 10)
    os.write(to_parent, b".")
    os.read(from_parent, 1)
    tracker.add(fanout, 100)
    store.close()
    os._exit(0)
os.read(from_child, 1)
store.close()
with open_store(sys.argv[2]) as again:
    Tracker(again).add(fanout, 1000)
    os.write(to_child, b".")
    print(ended(child), Tracker(again).status(fanout).total)
with closing(sqlite3.connect(path)) as other:
    print(*other.execute("PRAGMA integrity_check").fetchone())
"""

ONE_WRITER = """
tracker.add(fanout, 1)
(from_child, to_parent), (from_parent, to_child) = os.pipe(), os.pipe()
def hold(rows):
    os.write(to_parent, b".")
    os.read(from_parent, 1)
if (child := os.fork()) == 0:
    store.transact(hold)
    os.write(to_parent, b".")
    os.read(from_parent, 1)
    os._exit(0 if not writes() else 1)
os.read(from_child, 1)
in_child = writes()
os.write(to_child, b".")
os.read(from_child, 1)
def let_child_look(rows):
    os.write(to_child, b".")
    return ended(child)
print(in_child, store.transact(let_child_look), writes())
"""

WITHIN_A_CALL = """
def fork(rows):
    if (child := os.fork()) == 0:
        sys.exit(not is_refused(lambda: tracker.add(fanout, 1)))
    return ended(child)
print(store.transact(fork), tracker.add(fanout, 1) != [], tracker.status(fanout).total)
"""

WITHIN_A_TRANSACTION = """
number = store.read(lambda rows: rows.fanouts_by_id([fanout])[fanout].number)
parent = os.getpid()

def end_child():
    if sys.argv[3] == "error":
        raise ValueError("of the child")

def add_one(rows):
    held = rows.hold_fanout(number)
    held.total += 1
    rows.write_fanout(held)
    if (child := os.fork()) == 0:
        return end_child()
    exits.append(ended(child))
    rows.hold_fanout(number)

exits = []
try:
    store.transact(add_one)
except (ForkedStore, ValueError) as error:
    os._exit(0 if os.getpid() != parent else 1)
print(exits, tracker.status(fanout).total, store.lost_connections())
"""

OTHER_CALL_TOO_LONG = """
forks.FORKS._wait_s = 0.05
inside, go_on = threading.Event(), threading.Event()
def stay(rows):
    inside.set()
    go_on.wait()
thread = threading.Thread(target=store.transact, args=[stay])
thread.start()
inside.wait()
if (child := os.fork()) == 0:
    refused = is_refused(lambda: tracker.add(fanout, 1))
    store.close()
    sys.exit(not refused)
print(ended(child))
go_on.set()
thread.join()
if (child := os.fork()) == 0:
    tracker.add(fanout, 1)
    sys.exit(0)
print(ended(child), tracker.status(fanout).total)
"""

PAST_PYTHON = """
import ctypes
if (child := ctypes.PyDLL(None).fork()) == 0:
    refused = is_refused(lambda: tracker.add(fanout, 1))
    os._exit(not refused)
print(ended(child))
store.close()
if (child := ctypes.PyDLL(None).fork()) == 0:
    Tracker(open_store(sys.argv[2])).add(fanout, 1)
    os._exit(0)
print(ended(child))
"""

LOCKED = """
from batchline.runtime.tokens import Tokens
lock = Tokens(store)._lock
held, go_on = threading.Event(), threading.Event()
def hold():
    with lock:
        held.set()
        go_on.wait()
thread = threading.Thread(target=hold)
thread.start()
held.wait()
if (child := os.fork()) == 0:
    os._exit(not lock.acquire(timeout=5))
print(ended(child), lock.locked())
go_on.set()
thread.join()
"""


def run(program: str, path: Path, address: str = "", *words: str) -> list[str]:
    """Run a program on a store in a process of its own, for this one must not fork. Return the lines it prints."""
    command = [sys.executable, "-u", "-c", BEGIN + program, str(path), address or f"sqlite:///{path}", *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (ended.stderr, ended.returncode) == ("", 0)
    return ended.stdout.splitlines()


@pytest.mark.parametrize("address", ["", "memory://"])
def test_children_forked_while_threads_are_in_the_store_do_not_hang(tmp_path: Path, address: str) -> None:
    assert run(HAMMERED, tmp_path / "b.db", address) == ["True"]


def test_a_child_keeps_its_commits_when_its_parent_closes_the_file(tmp_path: Path) -> None:
    assert run(CLOSED_BY_PARENT, tmp_path / "b.db") == ["0 1110", "ok"]


def test_a_child_and_its_parent_lock_each_other_out(tmp_path: Path) -> None:
    assert run(ONE_WRITER, tmp_path / "b.db") == ["False 0 True"]


@pytest.mark.parametrize("address", ["", "memory://"])
def test_a_child_forked_within_a_call_is_refused_and_its_parent_goes_on(tmp_path: Path, address: str) -> None:
    assert run(WITHIN_A_CALL, tmp_path / "b.db", address) == ["0 True 1"]


@pytest.mark.parametrize("child", ["returns", "error"])
def test_a_child_forked_within_a_transaction_leaves_it_to_its_parent(
    sql_database: str, tmp_path: Path, child: str
) -> None:
    path = Path(sql_database.removeprefix("sqlite:///")) if sql_database.startswith("sqlite") else tmp_path / "b.db"
    assert run(WITHIN_A_TRANSACTION, path, sql_database, child) == ["[0] 1 0"]


def test_a_child_forked_during_a_call_that_does_not_end_is_refused_and_the_next_is_not(tmp_path: Path) -> None:
    assert run(OTHER_CALL_TOO_LONG, tmp_path / "b.db") == ["0", "0 1"]


def test_a_fork_past_python_is_refused_unless_nothing_was_open(tmp_path: Path) -> None:
    assert run(PAST_PYTHON, tmp_path / "b.db") == ["0", "0"]


def test_a_lock_held_by_another_thread_of_the_parent_is_free_in_a_child(tmp_path: Path) -> None:
    assert run(LOCKED, tmp_path / "b.db") == ["0 True"]
