"""Sessions of consumers: the processes that run under one name never hold the same message."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from batchline import LeasedMessage, Store, Timeline
from batchline.errors import ConsumerReplaced
from batchline.runtime.consumer_session import ConsumerSession
from tests.contract.timeline.line import MINUTE, Line, ids_of
from tests.doubles import HandClock


@pytest.fixture
def stored(store: Store, clock: HandClock) -> Line:
    """A topic of this test's own, in a store."""
    return Line(Timeline(store, clock=clock), clock).make(lease=MINUTE)


def session_of(line: Line, consumer: str = "w") -> ConsumerSession:
    return ConsumerSession(line.timeline, line.topic, consumer)


def lease_in(session: ConsumerSession, line: Line, limit: int = 100) -> list[LeasedMessage]:
    return line.lease(limit=limit, session=session.number)


def test_a_session_leases_one_spot_whole_and_another_in_part(stored: Line) -> None:
    made = []
    for bodies in ([b"a"], [b"b", b"c"]):  # made ids: the messages of a call are on one spot
        made += [one.id for one in stored.timeline.create(stored.topic, bodies, producer_group=stored.group)]
        stored.wait(1)
    session = session_of(stored)
    session.begin()
    assert ids_of(lease_in(session, stored, limit=2)) == made[:2]
    assert ids_of(stored.lease("x")) == made[2:]


class Interrupted(Timeline):
    """A timeline on which something happens as a session ends."""

    happen: Callable[[], object] = staticmethod(lambda: None)

    def end_session(self, topic: str, consumer: str, session: int) -> None:
        super().end_session(topic, consumer, session)
        self.happen()


def test_sessions_that_begin_at_once_behind_another_clock_are_told_apart(stored: Line, store: Store) -> None:
    session_of(stored).begin()
    timelines = [Interrupted(store, clock=stored.clock) for _ in range(2)]
    one, two = (ConsumerSession(timeline, stored.topic, "w") for timeline in timelines)
    one.number, two.number = 1, 2  # as by clocks that are behind
    timelines[0].happen = two.begin
    with suppress(ConsumerReplaced):
        one.begin()
    assert one.number != two.number
    with pytest.raises(ConsumerReplaced):
        min(one, two, key=lambda session: session.number).beat()
