"""How often an instance asks is no more than it can be of use."""

from batchline.core.partitions import Asking
from batchline.core.share import Share, ShareRules


def test_who_wants_more_and_holds_a_fair_share_rests_as_one_that_has_enough() -> None:
    share = Share(ShareRules(10), "one")
    share.want(10)
    assert share.rest_s(1.0) == 0.125  # it has nothing yet
    share.granted(range(5), 0.0)
    share.steps([Asking("two", 10, tuple(range(5, 10)))], 1.0, 0, 0.5)
    assert (share.rest_s(0.0), share.rest_s(1.0)) == (0.25, 0.5)
    share.steps([], 2.0, 0, 0.5)
    assert share.rest_s(1.0) == 0.125  # the other has gone
