"""A line of one test's own, on every store: on the one that a worker's tests share, or on an empty one."""

import pytest

from batchline import Store, Timeline
from tests.contract.timeline.line import Line
from tests.doubles import HandClock


@pytest.fixture
def timeline(store: Store, clock: HandClock) -> Timeline:
    return Timeline(store, clock=clock)


@pytest.fixture
def line(timeline: Timeline, clock: HandClock) -> Line:
    """A topic with the usual rules."""
    return Line(timeline, clock).make()


@pytest.fixture
def fresh_line(fresh_store: Store, clock: HandClock) -> Line:
    """A topic with the usual rules in a store of its own, for those that let the background work run."""
    return Line(Timeline(fresh_store, clock=clock), clock).make()
