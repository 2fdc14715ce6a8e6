"""How long an instance rests between its turns."""

from datetime import timedelta

from batchline.core.partitions import Asking
from batchline.core.share import Share, ShareRules


def share_of(wanted: int, others: int) -> Share:
    """One of 20 partitions that asked for some; so did somebody else, who now has the fair share of two."""
    share = Share(ShareRules(20_000, 1_000, max_interval=timedelta(milliseconds=500)), "one")
    share.want(wanted * 1_000)
    share.steps([Asking("one", wanted), Asking("two", others)], 0.0, 0, 0.0)
    return share


def test_who_lacks_partitions_that_it_may_have_asks_soon() -> None:
    share = share_of(wanted=20, others=20)
    share.granted(range(9), 0.0)
    assert share.rest_s(1.0) == 0.125


def test_who_has_its_fair_share_asks_at_the_longest_interval_however_much_more_it_wants() -> None:
    share = share_of(wanted=20, others=20)
    share.granted(range(10), 0.0)
    assert (share.rest_s(0.0), share.rest_s(1.0)) == (0.25, 0.5)


def test_when_the_other_wants_less_the_fair_share_grows() -> None:
    share = share_of(wanted=20, others=20)
    share.granted(range(10), 0.0)
    steps = share.steps([Asking("one", 20), Asking("two", 4)], 1.0, 0, 0.0)
    assert (steps.most, share.rest_s(1.0)) == (6, 0.125)
