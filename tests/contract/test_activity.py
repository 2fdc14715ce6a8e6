"""Activity is what the caller did, repeats included: it postpones expiry. A refused call is none."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest

from batchline import ExpiryRules, Store, Tracker
from batchline.core.moment import moment_of
from batchline.errors import FanoutRefused, InvalidCount
from tests.contract.remote import Remote, tracker_on
from tests.contract.tracking import expire_all, new_id, opened, pass_time
from tests.doubles import HandClock

A_BIT = timedelta(microseconds=1)
DAY = timedelta(days=1)


@pytest.fixture
def tracker(fresh_store: Store, clock: HandClock, remote: Remote | None) -> Tracker:
    return tracker_on(fresh_store, clock, remote, ExpiryRules(unsealed=3 * DAY, sealed=5 * DAY, tombstone=7 * DAY))


REPEATS: dict[str, Callable[[Tracker, str, list[str]], object]] = {
    "open": lambda tracker, fanout, _: tracker.open(fanout, tolerate=None),
    "open of an ended child": lambda tracker, fanout, _: tracker.open(f"{fanout}/child", parent=fanout),
    "add": lambda tracker, fanout, _: tracker.add(fanout, 128, add_id="page-1"),
    "seal": lambda tracker, fanout, _: tracker.seal(fanout),
    "ack alone": lambda tracker, _, items: tracker.ack(items[:1]),
    "ack of a finished group": lambda tracker, _, items: tracker.ack(items[64:]),
    "ack among others": lambda tracker, _, items: tracker.ack([items[0], items[64]]),
    "ack of a failed item": lambda tracker, _, items: tracker.ack(items[1:2]),
    "fail": lambda tracker, _, items: tracker.fail(items[1:2], "broken"),
}


@pytest.mark.parametrize("repeat", REPEATS)
def test_a_repeated_call_is_activity(tracker: Tracker, clock: HandClock, repeat: str) -> None:
    fanout = tracker.open(new_id(), tolerate=None).id
    items = [item for group in tracker.add(fanout, 128, add_id="page-1") for item in group.items()]
    tracker.seal(tracker.open(f"{fanout}/child", parent=fanout).id)
    tracker.seal(fanout)
    tracker.ack([items[0], *items[64:]])
    tracker.fail(items[1:2], "broken")
    before = tracker.status(fanout)
    pass_time(clock, 4 * DAY)
    REPEATS[repeat](tracker, fanout, items)
    assert tracker.status(fanout) == replace(before, last_activity_at=moment_of(clock.us))
    pass_time(clock, 5 * DAY - A_BIT)
    assert fanout not in expire_all(tracker).expired
    pass_time(clock, A_BIT)
    assert fanout in expire_all(tracker).expired


def test_a_repeated_call_is_activity_of_a_complete_fanout(tracker: Tracker, clock: HandClock) -> None:
    fanout, items = opened(tracker, 1)
    tracker.ack(items)
    assert tracker.seal(fanout).completed
    pass_time(clock, 4 * DAY)
    tracker.ack(items)
    pass_time(clock, 5 * DAY - A_BIT)
    assert expire_all(tracker).expired == []
    pass_time(clock, A_BIT)
    assert expire_all(tracker).expired == [fanout]


REFUSED: dict[str, Callable[[Tracker, str, list[str]], object]] = {
    "open otherwise": lambda tracker, fanout, _: tracker.open(fanout, tolerate=77),
    "another add of the same id": lambda tracker, fanout, _: tracker.add(fanout, 2, add_id="page-1"),
    "add after the seal": lambda tracker, fanout, _: tracker.add(fanout, 1),
    "ack past the last item": lambda tracker, _, items: tracker.ack([items[0].removesuffix(":0") + ":7"]),
    "ack of a child's item": lambda tracker, fanout, _: tracker.ack(tracker.pending_items(fanout, 10)[1:]),
}


@pytest.mark.parametrize("refused", REFUSED)
def test_a_refused_call_is_no_activity(tracker: Tracker, clock: HandClock, refused: str) -> None:
    fanout = tracker.open(new_id()).id
    items = [item for group in tracker.add(fanout, 1, add_id="page-1") for item in group.items()]
    tracker.open(parent=fanout)
    tracker.seal(fanout)
    before = tracker.status(fanout)
    pass_time(clock, DAY)
    with suppress(FanoutRefused, InvalidCount):
        assert REFUSED[refused](tracker, fanout, items).errors  # type: ignore[attr-defined]
    assert tracker.status(fanout) == before
