"""Dead letters back onto their topic, on every store."""

from dataclasses import replace
from datetime import timedelta

from batchline import NewMessage
from batchline.core.consignment import read_consignment
from batchline.core.topic import dead_letters_of
from batchline.runtime.resend import Resend
from batchline.stores.delivering import Delivery
from tests.contract.parcels.posting import Publication
from tests.doubles import new_id


def refused(one: Delivery) -> Delivery:
    return replace(one, dead=replace(one.parcel, reason="no use"))


def resend(publication: Publication) -> Resend:
    dead = dead_letters_of(publication.topic)
    return Resend(publication.store, dead, publication.topic, timeline=publication.timeline)


def test_dead_parcels_stand_on_their_topic_again_in_lanes_of_their_own(publication: Publication) -> None:
    publication.post(0, 1, 3)
    publication.post(1, 1, 2)
    publication.tracker.seal(publication.fanout)
    publication.settle(*map(refused, publication.taken()))
    assert publication.counts() == (5, 0, 5, 0)
    resent = resend(publication).run()
    assert (len(resent.parcels), publication.dead()) == (5, {})
    again = publication.taken()
    places = {(one.parcel.publication, one.parcel.lane, one.parcel.number) for one in again}
    assert places == {(resent.fanout, lane, number) for lane, last in ((0, 3), (1, 2)) for number in range(1, last + 1)}
    assert {one.parcel.id for one in again} == {f"import-{lane}-{number}" for _, lane, number in places}
    publication.settle(*again)
    status = publication.tracker.status(resent.fanout or "")
    assert (status.state, status.acked) == ("complete", 5)
    assert publication.counts() == (5, 0, 5, 0)


def test_what_was_sent_again_before_is_not_sent_twice(publication: Publication) -> None:
    publication.post(0, 1, 2)
    publication.settle(*map(refused, publication.taken()))
    first, second = resend(publication), resend(publication)
    assert len(first.run(1).parcels) == 1
    assert len(second.run().parcels) == 1
    assert first.run().parcels == first.resent.parcels
    bodies = [read_consignment(message.body) for message in publication.lease()]
    assert sorted(one.id for one in bodies) == ["import-0-1", "import-0-2"]


def test_a_message_that_was_leased_too_often_is_as_it_was_before(publication: Publication) -> None:
    timeline, topic, dead = publication.timeline, new_id(), new_id()
    timeline.create_topic(topic, max_attempts=1, dead_letter=dead)
    timeline.create(topic, [NewMessage(b"a", id="a", priority=5), NewMessage(b"made")], producer_group="shop")
    timeline.release(publication.lease(topic=topic))
    assert publication.lease(topic=topic) == []
    (held,) = timeline.lease(dead, "other", duration=timedelta(hours=1))
    assert len(Resend(publication.store, dead, topic, timeline=timeline).run().messages) == 1
    timeline.release(held.lease)
    assert len(Resend(publication.store, dead, topic, timeline=timeline).run(10).messages) == 1
    assert {one.body for one in publication.lease(topic=topic)} == {b"a", b"made"}
    found = timeline.read(topic, "a", producer_group="shop")
    assert (found.attempts, found.priority) == (1, 5)
