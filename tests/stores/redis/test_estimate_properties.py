"""Whatever is called in whatever order, the scripts answer what a few lines of plain Python would."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.core.moment import moment_of
from batchline.errors import FanoutSealed
from batchline.runtime.estimated_tracker import EstimatedTracker
from batchline.stores.redis.estimates import EstimateStore
from tests.doubles import BEGIN_US, HandClock, new_id

#: A verb, its count, and how far the clock moves before it; one machine's may lag behind another's.
Step = tuple[Literal["open", "add", "seal", "ack", "fail", "status"], int, int]
STEPS = st.tuples(
    st.sampled_from(("open", "add", "seal", "ack", "fail", "status")),
    st.integers(1, 4) | st.integers(1, 10_000_000),
    st.integers(-1_000, 1_000_000),
)


@dataclass
class Model:
    """A fanout by count, as the page says it."""

    tolerate: int | None
    now_us: int
    active_us: int
    total: int = 0
    pending: int = 0
    failed: int = 0
    sealed_us: int | None = None
    completed_us: int | None = None
    failed_us: int | None = None

    def step(self, verb: str, count: int, now_us: int) -> tuple[bool, bool] | None:
        """Whether the call completes it, or makes it fail; None where it is refused."""
        self.now_us = now_us
        if verb == "status":
            return False, False
        if verb == "add" and self.sealed_us is not None:
            return None
        self.active_us = max(self.active_us, now_us)
        self.count(verb, count)
        return self.end() if verb in ("seal", "ack", "fail") else (False, False)

    def count(self, verb: str, count: int) -> None:
        self.total += count if verb == "add" else 0
        self.pending += {"add": count, "ack": -count, "fail": -count}.get(verb, 0)
        self.failed += count if verb == "fail" else 0
        if verb == "seal" and self.sealed_us is None:
            self.sealed_us = self.now_us

    def end(self) -> tuple[bool, bool]:
        if self.completed_us is not None or self.failed_us is not None:
            return False, False
        if self.tolerate is not None and self.failed > self.tolerate:
            self.failed_us = self.now_us
            return False, True
        if self.sealed_us is not None and self.pending <= 0:
            self.completed_us = self.now_us
            return True, False
        return False, False


@given(steps=st.lists(STEPS, max_size=30), tolerate=st.none() | st.integers(0, 5))
def test_any_sequence_of_calls_is_answered_as_by_the_model(
    redis_url: str, steps: list[Step], tolerate: int | None
) -> None:
    clock, fanout = HandClock(), new_id()
    model = Model(tolerate, BEGIN_US, BEGIN_US)
    with EstimateStore(redis_url) as store:
        tracker = EstimatedTracker(store, clock=clock)
        tracker.open(fanout, tolerate=tolerate)
        for verb, count, moved_us in steps:
            clock.us += moved_us
            expected = model.step(verb, count, clock.us)
            call(tracker, fanout, verb, count, model, expected)
            assert_same(tracker, fanout, model)


def call(
    tracker: EstimatedTracker, fanout: str, verb: str, count: int, model: Model, expected: tuple[bool, bool] | None
) -> None:
    """Make the call, and compare its answer."""
    if expected is None:
        with pytest.raises(FanoutSealed):
            tracker.add(fanout, count)
    elif verb == "add":
        assert tracker.add(fanout, count) == model.total
    elif verb in ("open", "status"):
        assert getattr(tracker, verb)(fanout).pending == model.pending
    else:
        outcome = getattr(tracker, verb)(fanout, *[count][: verb != "seal"])
        assert (outcome.pending, outcome.completed, outcome.failed) == (model.pending, *expected)


def assert_same(tracker: EstimatedTracker, fanout: str, model: Model) -> None:
    status = tracker.status(fanout)
    assert (status.total, status.pending, status.failed) == (model.total, model.pending, model.failed)
    assert status.acked == model.total - model.pending - model.failed
    assert (status.sealed_at, status.completed_at) == (moment(model.sealed_us), moment(model.completed_us))
    assert (status.failed_at, status.opened_at) == (moment(model.failed_us), moment(BEGIN_US))
    assert status.last_activity_at == moment(model.active_us)
    assert status.double_counted == (model.pending < 0)


def moment(us: int | None) -> datetime | None:
    return None if us is None else moment_of(us)
