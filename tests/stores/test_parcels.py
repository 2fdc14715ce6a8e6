"""Publishing and settling while connections break and others do the same; and a store from before there were lanes."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from batchline import NewMessage, Store, Timeline, Tracker, open_store
from batchline.core.consignment import message_id, read_consignment
from batchline.core.message import bucket_of
from batchline.core.stray import stray_reason
from batchline.runtime.publisher import Publisher
from batchline.stores.address import read_address
from batchline.stores.delivering import Delivery
from batchline.stores.migrations import read_migrations
from batchline.stores.opening import find_store
from tests.contract.parcels.posting import Publication
from tests.doubles import HandClock
from tests.stores.cutting_proxy import CuttingProxy
from tests.stores.halting import in_flight
from tests.stores.older import undo_strays
from tests.stores.racing import write

answered = pytest.mark.parametrize("answered", [True, False], ids=["after the commit", "before the commit"])


@pytest.fixture
def publication(server_database: str) -> Iterator[Publication]:
    with open_store(server_database) as store:
        yield Publication(store, HandClock(), topic="parcels")


@pytest.fixture
def far(proxy: CuttingProxy, server_database: str) -> Iterator[Store]:
    """The same database behind the proxy; a new connection says COMMIT by its name."""
    address = urlsplit(server_database)
    with open_store(address._replace(netloc=f"{address.username}@127.0.0.1:{proxy.port}").geturl()) as store:
        yield store


@answered
def test_parcels_whose_commit_is_cut_off_are_published_once(
    publication: Publication, far: Store, proxy: CuttingProxy, answered: bool
) -> None:
    publication.post(0, 1, 2)
    proxy.cut_at(b"COMMIT", answered=answered)
    publisher = Publisher(far, "parcels", publication.fanout, clock=publication.clock)
    publisher.post(publication.parcels(0, 3, 6))
    assert proxy.has_cut
    assert publication.counts() == (6, 6, 0, 6)
    assert publication.lanes() == {0: (6, 0)}
    assert [one.parcel.number for one in publication.taken()] == [1, 2, 3, 4, 5, 6]


@answered
def test_deliveries_whose_commit_is_cut_off_are_settled_and_told_once(
    publication: Publication, far: Store, proxy: CuttingProxy, answered: bool
) -> None:
    other = Publication(publication.store, publication.clock, topic="parcels", name="another")
    publication.post(0, 1, 2)
    other.post(0, 1, 1)
    publication.tracker.seal(publication.fanout)
    first, second, third = publication.taken()
    second = replace(second, dead=replace(second.parcel, reason="no use"))
    third = replace(third, dead=replace(third.parcel.only([0]), reason="no use"))
    third = replace(third, rest=third.parcel.only([1]), rest_after_ms=0, rest_id="rest")
    courier = publication.courier(far)
    proxy.cut_at(b"COMMIT", answered=answered)
    assert [one.outcome for one in courier.settle([first, second, third])] == ["done"] * 3
    assert proxy.has_cut
    assert publication.counts() == (2, 0, 1, 1)
    assert other.counts() == (1, 1, 0, 1)
    assert [publication.lanes(), other.lanes()] == [{0: (2, 2)}, {0: (1, 0)}]
    assert sorted(one.count for one in publication.dead().values()) == [1, 2]
    assert [(one.fanout, one.state) for one in courier.endings] == [(publication.fanout, "failed")]


def test_who_publishes_what_another_has_not_committed_waits_and_publishes_nothing(sql_database: str) -> None:
    with ExitStack() as stack:
        ours, theirs = (stack.enter_context(open_store(sql_database)) for _ in range(2))
        publication = Publication(ours, HandClock(), topic="parcels")
        parcels = publication.parcels(0, 1, 3)

        def post(store: Store) -> bool:
            return Publisher(store, "parcels", publication.fanout, clock=publication.clock).post(parcels)

        with in_flight(theirs, post) as running:
            threads = stack.enter_context(ThreadPoolExecutor(1))
            second = threads.submit(post, ours)
        assert [running.result(), second.result(60)] == [True, False]
        assert publication.counts() == (3, 3, 0, 3)


def test_a_store_from_before_there_were_lanes_is_brought_up_to_date_with_what_is_in_it(sql_database: str) -> None:
    open_store(sql_database).close()
    clock = HandClock()
    with find_store(read_address(sql_database)) as store:
        tracker, timeline = Tracker(store, clock=clock), Timeline(store, clock=clock)
        timeline.create_topic("jobs")
        timeline.create("jobs", [NewMessage(b"old", id="order-7")], producer_group="p")
        fanout = tracker.open("old").id
        (group,) = tracker.add(fanout, 3)
    undo_strays(sql_database)
    for table in ("lanes", "tokens", "reports", "sessions"):  # all that came with it, and since
        write(sql_database, f"DROP TABLE batchline_{table}")
    for table, column in (("spots", "session"), ("attempts", "version"), ("topics", "keep_us")):
        write(sql_database, f"ALTER TABLE batchline_{table} DROP COLUMN {column}")
    write(sql_database, "DELETE FROM batchline_migrations WHERE number > 3")
    with find_store(read_address(sql_database)) as store:
        assert store.version() == 3
    with open_store(sql_database) as store:
        assert store.version() == len(read_migrations(store.room))
        timeline, tracker = Timeline(store, clock=clock), Tracker(store, clock=clock)
        message = timeline.read("jobs", "order-7", producer_group="p")
        assert (message.body, message.bucket) == (b"old", bucket_of("order-7", 1024))
        assert tracker.ack(list(group.items())[:1]).changed == 1
        publication = Publication(store, clock)
        assert publication.post(0, 1, 3)
        assert publication.settle(*publication.taken()) == ["done"] * 3


def test_lanes_from_before_parcels_were_signed_go_on_and_take_no_strays(
    sql_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = HandClock()
    with open_store(sql_database) as store, monkeypatch.context() as older:
        older.setattr("batchline.stores.lane_rows.new_secret", str)  # nothing is signed with an empty secret
        before = Publication(store, clock, topic="parcels", tolerate=None)
        before.post(0, 1, 3)
        before.post(1, 1, 2)
        (first, *_) = before.taken("old")
        rest = replace(first.parcel.only([1]), id="import-0-1~1")
        before.settle(replace(first, rest=rest, rest_id=f"{first.lease.id}~1"))
        before.timeline.release(before.timeline.my_leases("old"))
    undo_strays(sql_database)
    with open_store(sql_database) as store:
        now = Publication(store, clock, topic="parcels", tolerate=None)
        now.publisher = Publisher(store, "parcels", before.fanout, clock=clock)
        now.post(0, 4, 5)
        forged = [*now.parcels(0, 1, 7, payload=b"[]"), *now.parcels(1, 1, 3, payload=b"[]")]
        strays = [NewMessage(one.as_body()) for one in forged]
        # With ids of parcels that are not published, or were published since.
        strays += [NewMessage(one.as_body(), id=message_id("import", one.lane, one.number)) for one in forged[5:7]]
        now.timeline.create("parcels", strays, producer_group="vandals")
        proofs, true = now.deliveries.proofs(["import"]), list[Delivery]()
        for message in now.lease():
            parcel = read_consignment(message.body)
            reason = stray_reason(message, parcel, proofs[parcel.publication, parcel.lane])
            assert bool(reason) == (message.producer_group == "vandals")
            true += [] if reason else [Delivery(message, parcel)]
        assert now.settle(*true) == ["done"] * 7
        assert now.lanes() == {0: (5, 5), 1: (2, 2)}


def test_topics_with_lanes_become_internal_and_no_others(sql_database: str) -> None:
    with open_store(sql_database) as store:
        Publication(store, HandClock(), topic="parcels").post(0, 1, 1)
        timeline = Timeline(store)
        for name in ("orders", "orders-dead", "none"):
            timeline.create_topic(name)
    undo_strays(sql_database)
    with open_store(sql_database) as store:
        internal = {one.name: one.internal for one in Timeline(store).topics()}
    assert internal == {"parcels": True, "parcels-dead": True, "orders": False, "orders-dead": False, "none": False}
