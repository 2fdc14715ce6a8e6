"""Publishing parcels: once, in order, all or none; with their items and their lane in one go."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from batchline import NewMessage
from batchline.core.consignment import message_id, read_consignment
from batchline.core.message import LARGEST_BODY
from batchline.core.moment import moment_of
from batchline.errors import (
    FanoutSealed,
    InvalidMessage,
    InvalidName,
    InvalidTable,
    RefusedMessage,
    UnknownFanout,
    UnknownTopic,
)
from batchline.runtime.prune import Prune
from batchline.runtime.publisher import Publisher
from batchline.stores.delivering import Delivery
from batchline.stores.store import Store
from tests.contract.parcels.posting import Publication, parcel_of, parcels_of
from tests.doubles import HandClock


def test_parcels_are_on_the_timeline_with_their_items_and_their_lane(publication: Publication) -> None:
    assert publication.post(3, 1, 64)
    assert publication.post(3, 65, 66)
    assert publication.counts() == (66, 66, 0, 66)
    assert publication.lanes() == {3: (66, 0)}
    found = {message.id: read_consignment(message.body) for message in publication.lease()}
    assert list(found) == [message_id("import", 3, number) for number in range(1, 67)]
    assert [replace(one, item=None) for one in found.values()] == publication.parcels(3, 1, 66)
    assert {one.item for one in found.values()} == set(publication.tracker.pending_items(publication.fanout))


def test_publishing_again_changes_nothing_also_when_all_is_done_and_sealed(publication: Publication) -> None:
    assert publication.post(0, 1, 5)
    assert not publication.post(0, 1, 5)
    assert publication.post(0, 6, 7)
    assert not publication.post(0, 1, 5)
    before = publication.counts()
    assert before == (7, 7, 0, 7)
    publication.settle(*publication.taken())
    publication.tracker.seal(publication.fanout)
    assert not publication.post(0, 1, 5)
    assert not publication.post(0, 6, 7)
    assert publication.counts() == (7, 0, 0, 0)
    assert publication.lanes() == {0: (7, 7)}


def test_publishing_again_is_activity_of_the_fanout(publication: Publication) -> None:
    publication.post(0, 1, 5)
    publication.clock.us += 1_000_000
    assert not publication.post(0, 1, 5)
    assert publication.tracker.status(publication.fanout).last_activity_at == moment_of(publication.clock.us)


@pytest.mark.parametrize(
    ("lane", "first", "last", "changes"),
    [
        (0, 7, 8, {}),  # a gap
        (0, 5, 6, {}),  # an overlap at the end
        (0, 1, 6, {}),
        (0, 1, 3, {}),  # not the cut that it was published in
        (0, 2, 5, {}),
        (0, 1, 5, {"id": "other"}),
        (0, 1, 5, {"payload": b"[]"}),
        (1, 2, 3, {}),  # of another lane the first is missing
    ],
)
def test_what_does_not_follow_or_is_other_than_before_is_refused_and_changes_nothing(
    publication: Publication, lane: int, first: int, last: int, changes: dict[str, Any]
) -> None:
    publication.post(0, 1, 5)
    with pytest.raises(InvalidTable, match=f"lane {lane} of publication 'import'"):
        publication.post(lane, first, last, **changes)
    assert publication.counts() == (5, 5, 0, 5)
    assert publication.lanes() == {0: (5, 0)}
    assert publication.post(0, 6, 6)


def test_lanes_publications_and_topics_are_numbered_each_by_itself(publication: Publication) -> None:
    for lane in (0, 1, 2**31 - 1):
        assert publication.post(lane, 1, 2)
    assert publication.publisher.post(parcels_of("another", 0, 1, 2))
    assert publication.publisher.post(parcels_of("Import", 0, 1, 2))
    other = Publication(publication.store, publication.clock)
    assert other.post(0, 1, 2)
    assert publication.lanes() == {0: (2, 0), 1: (2, 0), 2**31 - 1: (2, 0)}
    assert publication.counts() == (10, 10, 0, 10)


def test_they_are_due_at_their_moments(publication: Publication) -> None:
    now_ms = publication.clock.us // 1_000
    publication.publisher.post(publication.parcels(0, 1, 3), [None, now_ms + 5_000, now_ms + 5_001])
    assert [one.parcel.number for one in publication.taken()] == [1]
    publication.clock.us += 5_000_000
    assert [one.parcel.number for one in publication.taken()] == [2]


def test_what_the_topic_does_not_take_is_refused_as_a_whole(publication: Publication) -> None:
    far_ms = publication.clock.us // 1_000 + 366 * 24 * 3_600_000
    with pytest.raises(RefusedMessage, match="too_far"):
        publication.publisher.post(publication.parcels(0, 1, 2), [None, far_ms])
    assert publication.counts() == (0, 0, 0, 0)
    assert publication.lanes() == {}
    assert publication.post(0, 1, 2)


def test_a_stray_under_the_id_of_a_parcel_to_come_stops_no_publishing(publication: Publication) -> None:
    taken = message_id("import", 0, 2)
    publication.timeline.create(publication.topic, [NewMessage(b"stray", id=taken)], producer_group="vandals")
    assert publication.post(0, 1, 3)
    assert not publication.post(0, 1, 3)
    assert publication.lanes() == {0: (3, 0)}
    messages = {one.id: one for one in publication.lease()}
    stray = messages.pop(taken)
    assert (stray.body, stray.producer_group) == (b"stray", "vandals")
    arrived = [Delivery(one, read_consignment(one.body)) for one in messages.values()]
    assert sorted(one.parcel.number for one in arrived) == [1, 2, 3]
    assert publication.settle(*arrived) == ["done"] * 3
    assert publication.lanes() == {0: (3, 3)}


def test_of_a_topic_or_a_fanout_that_is_not_there_or_sealed_nothing_is_published(publication: Publication) -> None:
    with pytest.raises(UnknownTopic):
        Publisher(publication.store, "nowhere", publication.fanout).post(publication.parcels(0, 1, 1))
    with pytest.raises(UnknownFanout):
        Publisher(publication.store, publication.topic, "nothing").post(publication.parcels(0, 1, 1))
    publication.tracker.seal(publication.fanout)
    with pytest.raises(FanoutSealed):
        publication.post(0, 1, 1)
    assert publication.lanes() == {}
    assert publication.counts() == (0, 0, 0, 0)


def test_of_publishers_of_one_lane_at_the_same_time_one_publishes(publication: Publication) -> None:
    gate = threading.Barrier(4)

    def post(_: int) -> list[bool]:
        publisher = Publisher(publication.store, publication.topic, publication.fanout, clock=publication.clock)
        answers = []
        for first in range(1, 100, 33):
            gate.wait(60)
            answers.append(publisher.post(publication.parcels(9, first, first + 32)))
        return answers

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(post, range(4)))
    assert [sum(one) for one in zip(*answers, strict=True)] == [1, 1, 1]
    assert publication.counts() == (99, 99, 0, 99)
    assert publication.lanes() == {9: (99, 0)}


def test_deleting_a_topic_removes_its_lanes(publication: Publication, store: Store, clock: HandClock) -> None:
    publication.post(0, 1, 3)
    publication.timeline.delete_topic(publication.topic)
    number = store.read(lambda rows: rows.topic(publication.topic).number)  # type: ignore[union-attr]
    while Prune(store, clock=clock).run_once():
        pass
    assert store.read(lambda rows: rows.lanes(number, "import")) == []
    publication.timeline.create_topic(publication.topic)
    assert publication.lanes() == {}
    assert publication.post(0, 1, 2)


@pytest.mark.parametrize("kind", ["memory"])
@pytest.mark.parametrize(
    ("parcels", "error", "said"),
    [
        ([], InvalidTable, "1 to 64 parcels"),
        (parcels_of("p", 0, 1, 65), InvalidTable, "got 65"),
        ([parcel_of("p", 0, 1), parcel_of("p", 0, 3)], InvalidTable, "number 3 of lane 0"),
        ([parcel_of("p", 0, 2), parcel_of("p", 0, 1)], InvalidTable, "in order"),
        ([parcel_of("p", 0, 1), parcel_of("p", 1, 2)], InvalidTable, "one lane"),
        ([parcel_of("p", 0, 1), parcel_of("q", 0, 2)], InvalidTable, "one lane"),
        ([parcel_of("p", 0, 0)], InvalidMessage, "its number is 0"),
        ([parcel_of("p", 2**31, 1)], InvalidMessage, "its lane is"),
        ([parcel_of("", 0, 1)], InvalidName, "publication"),
        ([parcel_of("a\nb", 0, 1)], InvalidName, "control"),
        ([parcel_of("p" * 245, 0, 1)], InvalidName, "255"),
        ([parcel_of("p", 0, 1, id="\ud800")], InvalidMessage, "text"),
    ],
)
def test_what_cannot_be_published_is_refused_by_name(
    publication: Publication, parcels: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        publication.publisher.post(parcels)
    with pytest.raises(InvalidTable, match="each with a moment"):
        publication.publisher.post(publication.parcels(0, 1, 2), [None])
    assert publication.counts() == (0, 0, 0, 0)


@pytest.mark.parametrize("kind", ["memory"])
def test_a_parcel_that_no_message_holds_is_refused_with_what_to_do(publication: Publication) -> None:
    large = b'["%s"]' % b"".join(b"%064x" % (number * 2**200 // 7919**3) for number in range(1, LARGEST_BODY // 16))
    with pytest.raises(InvalidMessage, match="smaller max_items"):
        publication.post(0, 1, 1, payload=large)
    assert publication.post(0, 1, 1, payload=b" " * 2 * LARGEST_BODY)  # gzipped it is small
