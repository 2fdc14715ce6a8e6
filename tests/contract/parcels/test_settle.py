"""Settling: items done, messages gone and lanes further in one go; each once, whoever tells it, however often."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from batchline import NewMessage
from batchline.core.consignment import message_id
from batchline.core.topic import dead_letters_of
from batchline.runtime.prune import Prune
from batchline.runtime.publisher import Publisher
from batchline.stores.delivering import Delivery
from batchline.stores.settling import LEVELS_AT_ONCE
from tests.contract.faulty_stores import Breaking
from tests.contract.parcels.posting import Publication, parcels_of, words
from tests.contract.tracking import chain


def refused(one: Delivery, reason: str = "no use", places: Iterable[int] = (0, 1)) -> Delivery:
    return replace(one, dead=replace(one.parcel.only(list(places)), reason=reason))


def in_part(publication: Publication, one: Delivery, **changes: Any) -> Delivery:
    """The first measurement is refused, the second is to be sent again in a minute."""
    usual: dict[str, Any] = {
        "dead": replace(one.parcel.only([0]), reason="no use"),
        "rest": replace(one.parcel.only([1]), reason="no use"),
        "rest_after_ms": 60_000,
        "rest_id": f"{one.lease.id}~1",
    }
    return replace(one, **(usual | changes))


def test_what_has_arrived_is_acknowledged_and_gone_and_its_lane_is_further(publication: Publication) -> None:
    publication.post(0, 1, 3)
    publication.post(1, 1, 2)
    found = publication.taken()
    assert publication.settle(*found[:4]) == ["done"] * 4
    assert publication.counts() == (5, 1, 0, 1)
    assert publication.lanes() == {0: (3, 3), 1: (2, 1)}
    assert publication.deliveries.reached(["import", "another"]) == {("import", 0): 3, ("import", 1): 1}


def test_settling_again_changes_nothing(publication: Publication) -> None:
    publication.post(0, 1, 3)
    found = publication.taken()
    for _ in range(3):
        assert publication.settle(*found[:2]) == ["done"] * 2
        assert publication.counts() == (3, 1, 0, 1)
        assert publication.lanes() == {0: (3, 2)}


def test_an_older_settling_does_not_set_a_lane_back(publication: Publication) -> None:
    publication.post(0, 1, 3)
    first, second, third = publication.taken()
    publication.settle(first, second, third)
    publication.settle(first)
    assert publication.lanes() == {0: (3, 3)}


def test_the_end_of_a_fanout_is_told_once_over_several_processes(publication: Publication) -> None:
    publication.post(0, 1, 2)
    publication.post(1, 1, 2)
    publication.tracker.seal(publication.fanout)
    found = publication.taken()
    couriers = [publication.courier() for _ in range(3)]
    for place, courier in enumerate(couriers):
        courier.settle(found[place : place + 2])
    for courier in couriers:
        courier.settle(found)
    endings = [ending for courier in couriers for ending in courier.endings]
    assert [(one.fanout, one.state) for one in endings] == [(publication.fanout, "complete")]


def test_what_is_refused_becomes_a_dead_letter_and_fails_its_item(publication: Publication) -> None:
    publication.post(0, 1, 2)
    publication.tracker.seal(publication.fanout)
    first, second = publication.taken()
    assert publication.settle(refused(first, places=[1]), second) == ["done", "done"]
    assert publication.counts() == (2, 0, 1, 0)
    assert publication.lanes() == {0: (2, 2)}
    dead = publication.dead()
    assert list(dead) == [message_id("import", 0, 1)]
    assert dead[message_id("import", 0, 1)] == replace(first.parcel.only([1]), reason="no use")
    assert [(one.fanout, one.state) for one in publication.deliveries.endings] == [(publication.fanout, "failed")]
    (failure,) = publication.tracker.failed_items(publication.fanout)
    assert failure.reason == "no use"


def test_a_dead_letter_whose_id_is_taken_gets_another(publication: Publication) -> None:
    publication.post(0, 1, 1)
    taken = NewMessage(b"something else", id=message_id("import", 0, 1))
    publication.timeline.create(dead_letters_of(publication.topic), [taken], producer_group="somebody")
    (one,) = publication.taken()
    publication.settle(refused(one))
    bodies = [message.body for message in publication.lease("u", dead_letters_of(publication.topic))]
    assert sorted(bodies) == sorted([b"something else", replace(one.parcel, reason="no use").as_body()])


def test_dead_letters_find_their_topic_or_make_it(publication: Publication) -> None:
    publication.timeline.delete_topic(dead_letters_of(publication.topic))
    while Prune(publication.store, clock=publication.clock).run_once():
        pass
    publication.post(0, 1, 1)
    (one,) = publication.taken()
    assert publication.settle(refused(one)) == ["done"]
    assert len(publication.dead()) == 1


def test_a_parcel_whose_lease_was_lost_has_arrived_all_the_same(publication: Publication) -> None:
    publication.post(0, 1, 2)
    found = publication.taken("slow")
    publication.clock.us += 61_000_000
    others = publication.taken("quick")
    assert publication.settle(found[0]) == ["lost"]
    assert publication.counts() == (2, 1, 0, 2)
    assert publication.lanes() == {0: (2, 1)}
    assert publication.settle(*others) == ["done", "done"]
    assert publication.counts() == (2, 0, 0, 0)


@pytest.mark.parametrize("first", ["slow", "quick"])
def test_what_two_have_refused_is_one_dead_letter_whoever_comes_first(publication: Publication, first: str) -> None:
    publication.post(0, 1, 1)
    slow = publication.taken("slow")
    publication.clock.us += 61_000_000
    told = {"slow": slow, "quick": publication.taken("quick")}
    for consumer in (first, "quick", "slow"):
        publication.settle(refused(told[consumer][0], reason=f"said {consumer}"))
    assert [one.reason for one in publication.dead().values()] == [f"said {first}"]
    assert publication.counts() == (1, 0, 1, 0)


def test_who_comes_after_it_has_arrived_does_not_make_it_a_dead_letter(publication: Publication) -> None:
    publication.post(0, 1, 1)
    (slow,) = publication.taken("slow")
    publication.clock.us += 61_000_000
    publication.settle(*publication.taken("quick"))
    assert publication.settle(refused(slow)) == ["done"]
    assert publication.dead() == {}
    assert publication.counts() == (1, 0, 0, 0)


def test_what_is_left_of_a_parcel_comes_again_at_its_moment_and_its_lane_stands(publication: Publication) -> None:
    publication.post(0, 1, 2)
    publication.tracker.seal(publication.fanout)
    first, second = publication.taken()
    assert publication.settle(in_part(publication, first)) == ["done"]
    assert publication.counts() == (2, 2, 0, 2)
    assert publication.lanes() == {0: (2, 0)}
    assert [one.count for one in publication.dead().values()] == [1]
    assert publication.taken("another") == []
    publication.timeline.release([second.lease], publication.clock.us // 1_000 + 60_002)
    publication.clock.us += 60_002_000
    rest, behind = publication.taken()
    assert (rest.lease.id, rest.parcel.measurements) == (
        f"{message_id('import', 0, 1)}~1",
        first.parcel.measurements[1:],
    )
    assert publication.settle(rest, behind) == ["done", "done"]
    # Something of it was refused, so the item has failed, although the rest arrived.
    assert publication.counts() == (2, 0, 1, 0)
    assert publication.lanes() == {0: (2, 2)}
    assert [one.state for one in publication.deliveries.endings] == ["failed"]


def test_what_is_left_is_written_once_and_not_for_a_lease_that_was_lost(publication: Publication) -> None:
    publication.post(0, 1, 1)
    (slow,) = publication.taken("slow")
    publication.clock.us += 61_000_000
    (quick,) = publication.taken("quick")
    assert publication.settle(in_part(publication, slow)) == ["lost"]
    assert publication.counts()[3] == 1
    assert publication.dead() == {}
    for one in (quick, quick, slow):
        publication.settle(in_part(publication, one))
    assert publication.counts() == (1, 1, 0, 1)
    assert len(publication.dead()) == 1
    publication.clock.us += 60_000_000
    (rest,) = publication.taken()
    publication.settle(rest)
    publication.settle(in_part(publication, slow))
    assert publication.counts() == (1, 0, 1, 0)
    assert len(publication.dead()) == 1


def test_who_lost_the_lease_and_has_refused_all_is_not_heard_once_another_has_divided_the_parcel(
    publication: Publication,
) -> None:
    publication.post(0, 1, 1)
    (slow,) = publication.taken("slow")
    publication.clock.us += 61_000_000
    (quick,) = publication.taken("quick")
    publication.settle(in_part(publication, quick))
    publication.settle(refused(slow))
    assert publication.lanes() == {0: (1, 0)}
    assert publication.counts() == (1, 1, 0, 1)
    assert [one.count for one in publication.dead().values()] == [1]


def test_who_divides_a_parcel_that_has_come_to_its_end_is_not_heard(publication: Publication) -> None:
    publication.post(0, 1, 1)
    (slow,) = publication.taken("slow")
    publication.clock.us += 61_000_000
    (quick,) = publication.taken("quick")
    assert publication.settle(refused(slow)) == ["lost"]
    assert publication.settle(in_part(publication, quick)) == ["done"]
    assert publication.counts() == (1, 0, 1, 0)
    assert [one.count for one in publication.dead().values()] == [2]


def test_parts_that_are_refused_one_after_the_other_are_dead_letters_each(publication: Publication) -> None:
    publication.post(0, 1, 1, payload=b'[{"same":1},{"same":1}]')
    (one,) = publication.taken()
    publication.settle(in_part(publication, one))
    publication.clock.us += 60_000_000
    (rest,) = publication.taken()
    publication.settle(refused(rest, places=[0]))
    assert sum(one.count for one in publication.dead().values()) == 2


def test_a_parcel_of_no_fanout_is_done_as_well(publication: Publication) -> None:
    publication.post(0, 1, 1)
    (one,) = publication.taken()
    strange = replace(one.parcel, item="nowhere/1/2")
    assert words(publication.deliveries.settle([replace(one, parcel=strange)])) == ["done"]
    assert publication.counts() == (1, 1, 0, 0)


@pytest.mark.parametrize("changes", [{"publication": "unheard of"}, {"lane": 7}, {"number": 3}], ids=str)
def test_what_was_not_published_moves_no_lane_and_acknowledges_nothing(
    publication: Publication, changes: dict[str, Any]
) -> None:
    publication.post(0, 1, 2)
    first, second = publication.taken()
    strange = replace(first, parcel=replace(first.parcel, **changes))
    assert publication.settle(strange, second) == ["lost", "done"]
    assert publication.counts() == (2, 1, 0, 1)
    assert publication.lanes() == {0: (2, 2)}


def test_the_last_parcel_completes_a_deep_chain_of_ancestors(publication: Publication) -> None:
    ids = chain(publication.store, 2 * LEVELS_AT_ONCE + 10, publication.clock())
    publication.publisher = Publisher(publication.store, publication.topic, ids[-1], clock=publication.clock)
    publication.post(0, 1, 2)
    publication.tracker.seal(ids[-1])
    assert publication.settle(*publication.taken()) == ["done", "done"]
    assert sorted(ending.fanout for ending in publication.deliveries.endings) == sorted(ids)
    assert publication.tracker.status(ids[0]).state == "complete"


def test_a_parcel_of_a_bad_fanout_does_not_keep_others_from_being_settled(publication: Publication) -> None:
    """The bad fanout's row cannot be read, so that its completion raises."""
    bad = publication.tracker.open().id
    publisher = Publisher(publication.store, publication.topic, bad, clock=publication.clock)
    publisher.post(parcels_of("other", 0, 1, 1))
    publication.post(0, 1, 2)
    publication.tracker.seal(bad)
    found = publication.taken()
    outcomes = publication.courier(Breaking(publication.store, [bad])).settle(found)
    (lost,) = [one for one in outcomes if one.outcome == "lost"]
    assert "broken row" in lost.reason
    assert words(outcomes).count("done") == 2
    assert publication.counts() == (2, 0, 0, 1)
    assert publication.lanes() == {0: (2, 2)}
    assert publication.settle(*found) == ["done"] * 3
    assert publication.tracker.status(bad).state == "complete"
