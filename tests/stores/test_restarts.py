"""The server goes away and comes back: nothing is lost, nothing doubled, and every end is told."""

import socket
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import urlsplit

import pytest

from batchline.errors import StoreUnavailable
from batchline.runtime.tracker import Tracker
from batchline.stores.opening import open_store
from batchline.stores.store import Store
from tests.conftest import own_server_of
from tests.servers.database import fresh_url
from tests.servers.own import OwnServer
from tests.stores.cutting_proxy import CuttingProxy
from tests.stores.observing import beside
from tests.stores.racing import MORE, PATIENCE_S, recount

T = TypeVar("T")
THREADS = 4
RESTARTS = 6 * MORE
#: Calls that are made between a start and the next end.
CALLS_BETWEEN = 150


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest) -> Iterator[OwnServer]:
    """A server of this module's own."""
    with own_server_of(request.param) as server:
        yield server


@pytest.fixture
def url(server: OwnServer) -> str:
    """A fresh database in it."""
    url, name = fresh_url(server.url)
    with beside(server.url) as connection:
        connection.run(f"CREATE DATABASE {name}")
    return url


@dataclass
class Work:
    """What threads do while the server comes and goes: each call is repeated, with its id, until it is answered."""

    tracker: Tracker
    #: Whether the server is there, as far as who ends it knows.
    up: threading.Event
    over: threading.Event
    called: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    refused: int = 0
    #: Who was told of the end of each fanout.
    told: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    #: The groups that each add was answered.
    groups: dict[str, set[tuple[str, ...]]] = field(default_factory=lambda: defaultdict(set))

    def insist(self, call: Callable[[], T]) -> T:
        """Repeat a call until it is answered."""
        for _ in range(10_000):
            self.called.release()
            try:
                return call()
            except StoreUnavailable:
                self.refused += 1
                self.up.wait(PATIENCE_S)
        raise AssertionError("never answered")

    def run(self, thread: int) -> int:
        """Fanouts of its own, and those that all threads work on; how many."""
        number = 0
        while not self.over.is_set():
            self.one(f"own-{thread}-{number}", thread, [0, 1, 2])
            self.one(f"all-{number}", thread, [thread])
            number += 1
        return number

    def one(self, fanout: str, thread: int, mine: list[int]) -> None:
        """Open, add, acknowledge and seal, one of them in bulk."""
        tracker, insist = self.tracker, self.insist
        insist(lambda: tracker.open(fanout))
        groups = insist(lambda: tracker.add(fanout, THREADS, add_id="only"))
        self.groups[fanout].add(tuple(group.id for group in groups))
        items = [item for group in groups for item in group.items()]
        for item in mine:
            call = f"{fanout} ack {thread} {item}"
            self.take(call, insist(lambda item=item, call=call: tracker.ack([items[item]], call_id=call)).completed)  # type: ignore[misc]
        seal = f"{fanout} seal {thread}"
        if insist(lambda: tracker.seal(fanout, call_id=seal)).completed:
            self.take(seal, (fanout,))
        if len(mine) > 1:
            call = f"{fanout} rest"
            self.take(call, insist(lambda: tracker.ack([*items, *items], call_id=call)).completed)

    def take(self, call: str, completed: tuple[str, ...]) -> None:
        """Note who was told."""
        for fanout in completed:
            self.told[fanout].add(call)


@pytest.mark.parametrize("patience", ["0 s", "30 s"])
def test_a_restart_in_the_midst_of_calls_loses_and_doubles_nothing(server: OwnServer, url: str, patience: str) -> None:
    with open_store(f"{url}?patience={patience.replace(' ', '')}&connections={THREADS}") as store:
        work = Work(Tracker(store), threading.Event(), threading.Event())
        with ThreadPoolExecutor(THREADS) as threads:
            running = [threads.submit(work.run, thread) for thread in range(THREADS)]
            try:
                for number in range(RESTARTS):
                    for _ in range(CALLS_BETWEEN):
                        assert work.called.acquire(timeout=PATIENCE_S)
                    work.up.clear()
                    # Kindly now and then: the server has its say in every connection.
                    server.end(kindly=number % 3 == 1)
                    server.start()
                    work.up.set()
                    while work.called.acquire(blocking=False):
                        pass
            finally:
                work.up.set()
                work.over.set()
            least = min(one.result(PATIENCE_S) for one in running)
        assert (work.refused > 0) == (patience == "0 s")
        check(store, url, work, least)


def check(store: Store, url: str, work: Work, least: int) -> None:
    """Every fanout that all threads have been at is complete, told of once, and its counters are exact."""
    rows = recount(store, url)
    for fanout, groups in work.groups.items():
        status = work.tracker.status(fanout)
        left = 0 if fanout.startswith("own") or int(fanout.removeprefix("all-")) < least else None
        assert len(groups) == 1
        assert status.total == THREADS
        assert rows[fanout].bits == sum(rows[fanout].counted) == status.pending
        assert len(work.told[fanout]) == status.completed
        assert left is None or (status.pending == left and status.completed)


def test_connections_that_died_while_idle_are_renewed_unnoticed(server: OwnServer, url: str) -> None:
    with open_store(url) as store:
        tracker = Tracker(store)
        fanout = tracker.open().id
        together = threading.Barrier(THREADS)
        with ThreadPoolExecutor(THREADS) as threads:
            # So that as many connections are open.
            list(threads.map(lambda _: store.read(lambda _: together.wait(PATIENCE_S)), range(THREADS)))
            server.end()
            server.start()
            list(threads.map(lambda _: tracker.add(fanout, 1), range(THREADS)))
        assert tracker.status(fanout).total == THREADS


def test_a_server_that_comes_late_is_waited_for(server: OwnServer, url: str) -> None:
    with open_store(url) as store, ThreadPoolExecutor(1) as threads:
        tracker = Tracker(store)
        fanout = tracker.open().id
        server.end()
        adding = threads.submit(tracker.add, fanout, 7)
        server.start()
        assert sum(group.upto for group in adding.result(PATIENCE_S)) == 7
        assert tracker.status(fanout).total == 7


# --- without a server -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_a_server_that_never_was_there_is_not_waited_for(scheme: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nothing listens
        url = f"{scheme}://app:hidden@127.0.0.1:{taken.getsockname()[1]}/batchline"
        with pytest.raises(StoreUnavailable, match=r"tried for 0\.\d s") as refused:
            open_store(url)
        assert refused.value.__cause__ is not None
        assert "hidden" not in str(refused.value)


# --- a connection that breaks at the worst moment ---------------------------------------------------------------------


@pytest.fixture
def far(proxy: CuttingProxy, server_database: str) -> Iterator[Tracker]:
    """A tracker on the database behind the proxy."""
    address = urlsplit(server_database)
    with open_store(address._replace(netloc=f"{address.username}@127.0.0.1:{proxy.port}").geturl()) as store:
        yield Tracker(store)


answered = pytest.mark.parametrize("answered", [True, False], ids=["after the commit", "before the commit"])


@answered
def test_an_open_whose_commit_is_cut_off_has_opened(far: Tracker, proxy: CuttingProxy, answered: bool) -> None:
    proxy.cut_at(b"COMMIT", answered=answered)
    assert far.open("import", labels={"job": "import"}).state == "open"
    assert proxy.has_cut
    assert len(far.list().fanouts) == 1


@answered
def test_an_add_whose_commit_is_cut_off_is_not_doubled(far: Tracker, proxy: CuttingProxy, answered: bool) -> None:
    fanout = far.open().id
    proxy.cut_at(b"COMMIT", answered=answered)
    groups = far.add(fanout, 100)
    assert proxy.has_cut
    assert sum(group.upto for group in groups) == 100
    assert far.status(fanout).total == 100
    assert far.pending_items(fanout) == [item for group in groups for item in group.items()]


@answered
def test_a_seal_whose_commit_is_cut_off_is_told(far: Tracker, proxy: CuttingProxy, answered: bool) -> None:
    parent = far.open().id
    fanout = far.open(parent=parent).id
    far.seal(parent)
    proxy.cut_at(b"COMMIT", answered=answered)
    outcome = far.seal(fanout)
    assert proxy.has_cut
    assert (outcome.completed, outcome.parents_completed) == (True, (parent,))
    assert not far.seal(fanout).completed


@answered
@pytest.mark.parametrize("verb", ["ack", "fail"])
def test_a_bulk_ack_whose_commit_is_cut_off_is_told(
    far: Tracker, proxy: CuttingProxy, verb: str, answered: bool
) -> None:
    fanout = far.open(tolerate=None).id
    items = [item for group in far.add(fanout, 70) for item in group.items()]
    far.seal(fanout)
    proxy.cut_at(b"COMMIT", answered=answered)
    outcome = far.ack(items) if verb == "ack" else far.fail(items, "no use")
    assert proxy.has_cut
    assert outcome.completed == (fanout,)
    status = far.status(fanout)
    assert (status.pending, status.failed) == (0, 70 if verb == "fail" else 0)
    assert far.ack(items).completed == ()


@answered
@pytest.mark.parametrize("left", [0, 1])
def test_a_single_ack_that_is_cut_off_is_told(far: Tracker, proxy: CuttingProxy, left: int, answered: bool) -> None:
    fanout = far.open().id
    items = [item for group in far.add(fanout, 1 + left) for item in group.items()]
    far.seal(fanout)
    proxy.cut_at(b"batchline_", answered=answered)  # the whole ack is one request
    outcome = far.ack(items[:1])
    assert proxy.has_cut
    assert outcome.completed == (() if left else (fanout,))
    assert far.status(fanout).pending == left


def test_a_single_ack_is_one_round_trip_also_the_one_that_completes(far: Tracker, proxy: CuttingProxy) -> None:
    """After the first few, at which the driver prepares its statement."""
    fanout = far.open().id
    (group,) = far.add(fanout, 20)
    far.seal(fanout)
    *before, last_but_one, last = group.items()
    for item in before:
        far.ack([item])
    for item in (last_but_one, last):
        sent = proxy.requests
        assert far.ack([item]).completed == ((fanout,) if item == last else ())
        assert proxy.requests == sent + 1


@answered
@pytest.mark.parametrize("by_name", [True, False])
def test_an_expiry_whose_commit_is_cut_off_tells_what_it_ended(
    far: Tracker, proxy: CuttingProxy, by_name: bool, answered: bool
) -> None:
    parent = far.open(tolerate=0).id
    fanout = far.open(parent=parent).id
    far.seal(parent)
    proxy.cut_at(b"COMMIT", answered=answered)
    much_later = Tracker(far._store, clock=lambda: 2**52)
    outcome = far.expire(fanout) if by_name else much_later.expire_due()
    assert proxy.has_cut
    assert fanout in outcome.expired
    assert outcome.failed == [parent]
