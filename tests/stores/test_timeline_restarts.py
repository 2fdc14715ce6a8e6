"""Servers, connections and consumers that go away in the midst of the timeline's work: nothing is lost or doubled."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing import get_context
from typing import TypeVar
from urllib.parse import urlsplit

import pytest

from batchline.core.message import Lease, LeasedMessage, NewMessage, Outcome
from batchline.errors import StoreUnavailable
from batchline.runtime.prune import Prune
from batchline.runtime.timeline import Timeline
from batchline.stores.opening import open_store
from batchline.stores.store import Store
from tests.conftest import own_server_of
from tests.doubles import HandClock
from tests.servers.database import fresh_url
from tests.servers.own import OwnServer
from tests.stores.cutting_proxy import CuttingProxy
from tests.stores.history import check_counts, check_left, what_is_left
from tests.stores.killable import hold_leases
from tests.stores.observing import beside
from tests.stores.racing import MORE, PATIENCE_S
from tests.waiting import wait_until

T = TypeVar("T")
TOPIC, OURS = "parcels", "ours"
HOUR = timedelta(hours=1)
MINUTE_US = 60_000_000


def words(outcomes: list[Outcome]) -> list[str]:
    return [one.outcome for one in outcomes]


def leases(found: list[LeasedMessage]) -> list[Lease]:
    return [one.lease for one in found]


def check(store: Store, url: str, clock: Callable[[], int]) -> None:
    """Counts are exact, and no row is left behind when the topic keeps none of them any longer."""
    while Prune(store, clock=lambda: clock() + MINUTE_US).run_once():
        pass
    left, now_us = what_is_left(store, url), clock()
    check_left(left)
    check_counts(left, Timeline(store, clock=lambda: now_us))


# --- a connection that breaks at the worst moment ---------------------------------------------------------------------


@dataclass
class Far:
    """A timeline on a database behind a proxy; its clock stands still."""

    url: str
    proxy: CuttingProxy
    store: Store
    clock: HandClock = field(default_factory=HandClock)

    @property
    def timeline(self) -> Timeline:
        return Timeline(self.store, clock=self.clock)

    def create(self, *ids: str | None) -> list[Outcome]:
        messages = [NewMessage(f"{index}".encode(), 0, id) for index, id in enumerate(ids)]
        return self.timeline.create(TOPIC, messages, producer_group=OURS)

    def lease(self, limit: int = 1_000, consumer: str = "worker") -> list[LeasedMessage]:
        return self.timeline.lease(TOPIC, consumer, limit=limit, duration=HOUR)

    def cut(self, answered: bool, call: Callable[[], T]) -> T:
        """Make a call whose commit is cut off."""
        self.proxy.cut_at(b"COMMIT", answered=answered)
        answer = call()
        assert self.proxy.has_cut
        return answer

    def left(self) -> int:
        check(self.store, self.url, self.clock)
        return self.timeline.count(TOPIC).total


@pytest.fixture
def far(server_database: str) -> Iterator[Far]:
    address = urlsplit(server_database)
    assert address.hostname
    assert address.port
    with CuttingProxy(address.hostname, address.port) as proxy:
        through = address._replace(netloc=f"{address.username}@127.0.0.1:{proxy.port}").geturl()
        with open_store(through) as store:
            far = Far(server_database, proxy, store)
            far.timeline.create_topic(TOPIC, buckets=64)
            yield far


answered = pytest.mark.parametrize("answered", [True, False], ids=["after the commit", "before the commit"])


@answered
def test_a_create_with_made_ids_recognises_its_own_bundles(far: Far, answered: bool) -> None:
    outcomes = far.cut(answered, lambda: far.create(*[None] * 150))
    assert words(outcomes) == ["created"] * 150
    assert far.left() == 150
    assert sorted(one.id for one in far.lease()) == sorted(one.id for one in outcomes)


@answered
def test_a_create_with_chosen_ids_is_not_doubled(far: Far, answered: bool) -> None:
    ids = [f"chosen-{number}" for number in range(150)]
    assert words(far.create(*ids[:20])) == ["created"] * 20
    outcomes = far.cut(answered, lambda: far.create(*ids))
    assert words(outcomes) == ["exists"] * 20 + ["created"] * 130
    assert far.left() == 150
    assert sorted(one.id for one in far.lease()) == sorted(ids)


@answered
def test_a_create_with_made_ids_beside_one_that_exists_is_not_doubled(far: Far, answered: bool) -> None:
    """The bundle of the one that exists is of no use, and is not kept."""
    assert words(far.create("known")) == ["created"]
    assert words(far.cut(answered, lambda: far.create("known", None, None))) == ["exists", "created", "created"]
    assert far.left() == 3


@answered
def test_a_lease_that_is_cut_off_loses_nothing(far: Far, answered: bool) -> None:
    ids = {one.id for one in far.create(*[None] * 5)}
    found = {one.id for one in far.cut(answered, lambda: far.lease(3))}
    mine = far.timeline.my_leases("worker")
    # What the first attempt has leased is the consumer's, who asks for it, or gets it again after the lease.
    assert len(found) == (2 if answered else 3)
    assert found <= {one.id for one in mine} <= ids
    assert len(mine) == (5 if answered else 3)
    assert {one.attempts for one in mine} == {1}
    assert far.left() == 5
    far.clock.us += HOUR // timedelta(microseconds=1)
    again = far.lease(consumer="another")
    assert {one.id for one in again} == ids
    assert words(far.timeline.done(leases(again))) == ["done"] * 5
    assert far.left() == 0


@answered
@pytest.mark.parametrize("part", [2, 5], ids=["a part of the spot", "the whole spot"])
def test_an_extension_that_is_cut_off_is_told_with_its_lease(far: Far, part: int, answered: bool) -> None:
    far.create(*[None] * 5)
    held = leases(far.lease())[:part]
    far.clock.us += 1_000
    outcomes = far.cut(answered, lambda: far.timeline.extend(held, 2 * HOUR))
    assert words(outcomes) == ["extended"] * part
    assert words(far.timeline.extend(held, 2 * HOUR)) == ["lost"] * part
    assert {one.lease.version for one in outcomes if one.lease} == {3}
    assert words(far.timeline.done([one.lease for one in outcomes if one.lease])) == ["done"] * part
    assert far.left() == 5 - part


@answered
@pytest.mark.parametrize("part", [2, 5], ids=["a part of the spot", "the whole spot"])
def test_a_release_that_is_cut_off_is_told(far: Far, part: int, answered: bool) -> None:
    far.create(*[None] * 5)
    held = leases(far.lease())[:part]
    assert words(far.cut(answered, lambda: far.timeline.release(held, reason="tired"))) == ["released"] * part
    assert words(far.timeline.release(held)) == ["released"] * part  # a repeat, which changes nothing
    again = far.lease(consumer="another")
    assert [one.attempts for one in again] == [2] * part
    message = far.timeline.read(TOPIC, again[0].id, lease=again[0].lease)
    assert [(one.ending, one.reason) for one in message.history] == [("released", "tired")]
    assert far.left() == 5


@answered
@pytest.mark.parametrize("part", [2, 5], ids=["a part of the spot", "the whole spot"])
def test_a_done_that_is_cut_off_is_told(far: Far, part: int, answered: bool) -> None:
    far.create(*[None] * 5)
    held = leases(far.lease())[:part]
    assert words(far.cut(answered, lambda: far.timeline.done(held))) == ["done"] * part
    assert far.left() == 5 - part


@answered
def test_a_move_that_is_cut_off_has_moved(far: Far, answered: bool) -> None:
    first, *_ = far.create(None, None)
    moments = {first.id: far.clock() // 1_000 + 60_000}
    assert words(far.cut(answered, lambda: far.timeline.move(TOPIC, moments, producer_group=OURS))) == ["moved"]
    assert len(far.lease()) == 1
    assert far.left() == 2


@answered
def test_a_cancel_that_is_cut_off_has_cancelled(far: Far, answered: bool) -> None:
    first, *_ = far.create(None, None)
    outcomes = far.cut(answered, lambda: far.timeline.cancel(TOPIC, [first.id], producer_group=OURS))
    assert words(outcomes) == ["cancelled"]
    assert far.left() == 1


@answered
def test_a_prune_that_is_cut_off_leaves_nothing_behind(far: Far, answered: bool) -> None:
    far.create("one", "two", None)
    far.timeline.done(leases(far.lease()))
    far.clock.us += MINUTE_US
    far.cut(answered, Prune(far.store, clock=far.clock).run_once)
    assert far.left() == 0
    assert what_is_left(far.store, far.url).bundles == {}


# --- a server that goes away ------------------------------------------------------------------------------------------

THREADS = 3
RESTARTS = 3 * MORE
CALLS_BETWEEN = 60


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest) -> Iterator[OwnServer]:
    """A server of this module's own."""
    with own_server_of(request.param) as server:
        yield server


@dataclass
class Work:
    """What threads do while the server comes and goes; a call that is not answered is made again."""

    timeline: Timeline
    up: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    called: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    refused: int = 0
    created: set[str] = field(default_factory=set)
    finished: Counter[str] = field(default_factory=Counter)

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

    def run(self, thread: int) -> None:
        """Create, lease and finish."""
        number, consumer = 0, f"consumer-{thread}"
        while not self.over.is_set():
            ids = [f"{thread}-{number}-{one}" for one in range(8)]
            messages = [NewMessage(id.encode(), 0, id) for id in ids]
            outcomes = self.insist(lambda: self.timeline.create(TOPIC, messages, producer_group=OURS))  # noqa: B023
            assert set(words(outcomes)) <= {"created", "exists"}
            self.created.update(ids)
            self.insist(lambda: self.timeline.lease(TOPIC, consumer, limit=6, duration=HOUR))
            self.finish(consumer)
            number += 1

    def finish(self, consumer: str) -> None:
        """Finish what is leased, also by a call that was never answered."""
        held = self.insist(lambda: self.timeline.my_leases(consumer))
        assert {one.attempts for one in held} <= {1}
        outcomes = self.insist(lambda: self.timeline.done(leases(held)))
        assert set(words(outcomes)) <= {"done"}
        self.finished.update(one.id for one in outcomes)


@pytest.mark.parametrize("patience", ["0s", "30s"])
def test_a_restart_in_the_midst_of_calls_loses_and_doubles_nothing(server: OwnServer, patience: str) -> None:
    url, name = fresh_url(server.url)
    with beside(server.url) as connection:
        connection.run(f"CREATE DATABASE {name}")
    with open_store(f"{url}?patience={patience}&connections={THREADS}") as store:
        work = Work(Timeline(store))
        work.timeline.create_topic(TOPIC, buckets=64)
        with ThreadPoolExecutor(THREADS) as threads:
            running = [threads.submit(work.run, thread) for thread in range(THREADS)]
            try:
                for number in range(RESTARTS):
                    for _ in range(CALLS_BETWEEN):
                        assert work.called.acquire(timeout=PATIENCE_S)
                    work.up.clear()
                    server.end(kindly=number % 3 == 1)
                    server.start()
                    work.up.set()
                    while work.called.acquire(blocking=False):
                        pass
            finally:
                work.up.set()
                work.over.set()
            for one in running:
                one.result(PATIENCE_S)
        assert (work.refused > 0) == (patience == "0s")
        while work.timeline.lease(TOPIC, "consumer-0", limit=1_000, duration=HOUR):
            work.finish("consumer-0")
        assert work.finished.keys() == work.created
        assert set(work.finished.values()) == {1}
        check(store, url, work.timeline.clock)
        assert work.timeline.count(TOPIC).total == 0


# --- a consumer that is killed ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("restarted", [True, False], ids=["restarted", "replaced after its leases"])
def test_what_a_killed_consumer_held_is_not_lost(sql_database: str, restarted: bool) -> None:
    clock = HandClock()
    with open_store(sql_database) as store:
        timeline = Timeline(store, clock=clock)
        timeline.create_topic(TOPIC, lease=HOUR)
        ids = [f"parcel-{number}" for number in range(70)]
        timeline.create(TOPIC, [NewMessage(id.encode(), 0, id) for id in ids], producer_group=OURS)
        context = get_context("forkserver")
        context.set_forkserver_preload(["tests.stores.killable", "psycopg", "pymysql"])
        here, there = context.Pipe()
        victim = context.Process(target=hold_leases, args=(sql_database, TOPIC, clock.us, there))
        victim.start()
        first, *others = here.recv()
        assert here.recv() == "written"
        victim.kill()
        victim.join(PATIENCE_S)
        here.close()
        there.close()
        assert victim.exitcode == -9
        if restarted:
            assert timeline.lease(TOPIC, "another", limit=100) == []
            found = timeline.my_leases("worker")
        else:
            assert timeline.lease(TOPIC, "another", limit=100) == []
            clock.us += HOUR // timedelta(microseconds=1)
            assert timeline.my_leases("worker") == []
            found = []

            def all_are_back() -> bool:
                # The server lets go of what the victim had begun when it sees that it is gone.
                found.extend(timeline.lease(TOPIC, "another", limit=100))
                return len(found) >= len(others)

            wait_until(all_are_back)
        assert sorted(one.id for one in found) == sorted(others)
        assert sorted([first, *others]) == sorted(ids)
        assert {one.attempts for one in found} == {1 if restarted else 2}
        assert words(timeline.done(leases(found))) == ["done"] * len(others)
        check(store, sql_database, clock)
        assert timeline.count(TOPIC).total == 0
