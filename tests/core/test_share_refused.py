"""An instance that is refused asks later, and never gives up."""

from batchline.core.share import Share, ShareRules


def refused(times: int) -> Share:
    share = Share(ShareRules(shared=100, factor=10), "one")
    share.want(100)
    for _ in range(times):
        share.refused(1)
    return share


def test_the_more_often_it_is_refused_the_longer_it_rests_up_to_the_longest_interval() -> None:
    assert [refused(times).rest_s(chance=1.0) for times in range(5)] == [0.125, 0.25, 0.5, 0.5, 0.5]


def test_a_store_that_is_away_for_hours_is_asked_on() -> None:
    assert refused(10_000).rest_s(chance=1.0) == 0.5
