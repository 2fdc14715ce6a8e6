"""A line of one test's own, on every store: on the one that a worker's tests share, or on an empty one."""

from collections.abc import Callable, Iterator

import pytest

from batchline import Store, Timeline
from tests.contract.remote import Remote, timeline_on
from tests.contract.timeline.line import Line, prune
from tests.doubles import HandClock


@pytest.fixture
def timeline(store: Store, clock: HandClock, remote: Remote | None) -> Timeline:
    return timeline_on(store, clock, remote)


@pytest.fixture
def line(timeline: Timeline, clock: HandClock) -> Line:
    """A topic with the usual rules."""
    return Line(timeline, clock).make()


@pytest.fixture
def fresh_store(kind: str, shared_store: Callable[[str, str], Store], clock: HandClock) -> Iterator[Store]:
    """A store without topics: each test leaves it as empty as it was, which is faster than a new one."""
    store = shared_store(kind, "timeline")
    yield store
    clock.us += 2 * 24 * 3_600 * 1_000_000  # every lease has ended
    timeline = Timeline(store, clock=clock)
    for topic in timeline.topics():
        timeline.delete_topic(topic.name)
    prune(store, clock)
    store.transact(lambda rows: rows.forget_brokers(1 << 60))
    assert timeline.topics() == []


@pytest.fixture
def fresh_timeline(fresh_store: Store, clock: HandClock, remote: Remote | None) -> Timeline:
    return timeline_on(fresh_store, clock, remote)


@pytest.fixture
def fresh_line(fresh_timeline: Timeline, clock: HandClock) -> Line:
    """A topic with the usual rules in a store of its own, for those that let the background work run."""
    return Line(fresh_timeline, clock).make()
