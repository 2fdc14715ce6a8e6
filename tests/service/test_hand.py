"""What is in the hands of a consumer, and how much room it has."""

import pytest

from batchline import Lease, Outcome
from batchline.errors import InvalidCount
from batchline.service.hand import MOST_AT_ONCE, Hand, check_prefetch


def lease(id: str, until_ms: int = 1_000) -> Lease:
    return Lease("jobs", id, 1, "c", until_ms, 1, 1, ord(id))


def test_what_is_pushed_takes_room_until_it_is_finished_or_lost() -> None:
    hand = Hand(3)
    hand.take([lease("a"), lease("b"), lease("c")])
    assert hand.room() == 0
    hand.finished([lease("a"), lease("b"), lease("u")])
    assert hand.room() == 2
    outcomes = [Outcome("c", "extended", lease("c", 2_000)), Outcome("x", "extended", lease("x"))]
    hand.extended([lease("c"), lease("x")], outcomes)
    assert hand.leases() == [lease("c", 2_000)]
    hand.extended([lease("c", 2_000)], [Outcome("c", "lost")])
    assert (hand.room(), len(hand)) == (3, 0)


def test_two_messages_of_one_id_take_room_for_two() -> None:
    hand = Hand(3)
    hand.take([lease("a"), lease("a")._replace(bundle=2)])
    assert hand.room() == 1
    hand.finished([lease("a")])
    assert hand.leases() == [lease("a")._replace(bundle=2)]


def test_what_has_ended_by_itself_takes_no_room() -> None:
    hand = Hand(2)
    hand.take([lease("a", 1_000), lease("b", 1_001)])
    hand.sweep(1_000)
    assert hand.leases() == [lease("b", 1_001)]


def test_one_that_holds_more_than_it_may_gets_none_and_nobody_gets_all_at_once() -> None:
    hand = Hand(1)
    hand.take([lease("a"), lease("b")])
    assert hand.room() == 0
    assert Hand(10_000).room() == MOST_AT_ONCE


def test_a_prefetch_that_cannot_be_is_refused() -> None:
    assert check_prefetch(0) == 0
    for wrong in (-1, 10_001):
        with pytest.raises(InvalidCount, match="prefetch"):
            check_prefetch(wrong)
