"""Sessions: processes that run under one consumer's name never hold the same message."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from batchline import LeasedMessage, Store, Timeline
from batchline.core.session import SessionRow
from batchline.errors import ConsumerReplaced, InvalidCount
from batchline.runtime.consumer_session import ConsumerSession
from tests.contract.timeline.line import MINUTE, Line, ids_of, leases_of, words
from tests.doubles import HandClock, new_id

LIVE_MS = 30_000


@pytest.fixture
def line(store: Store, clock: HandClock) -> Line:
    return Line(Timeline(store, clock=clock), clock).make()


def session_of(line: Line, consumer: str = "w", number: int | None = None) -> ConsumerSession:
    return ConsumerSession(line.timeline, line.topic, consumer, lease=MINUTE, number=number, process="")


def lease(line: Line, session: ConsumerSession, limit: int = 100) -> list[LeasedMessage]:
    return line.lease("w", limit, session=session.number)


def test_leases_of_a_live_session_are_not_taken(line: Line) -> None:
    line.create("a", "b")
    older, newer = session_of(line), session_of(line)
    older.begin()
    (held,) = lease(line, older, 1)
    assert newer.begin() == []
    assert ids_of(lease(line, newer)) == ["b"]
    assert words(line.timeline.done(held)) == ["done"], "the older one finishes what it has"


def test_leases_of_a_session_that_is_silent_are_taken_over_and_void(line: Line) -> None:
    line.create("a", "b", "c")
    older, newer = session_of(line), session_of(line)
    older.begin()
    held = line.lease("w", 2, session=older.number, duration=timedelta(hours=1))
    line.wait(LIVE_MS + 1)
    taken = newer.begin()
    assert ids_of(taken) == ["a", "b"]
    assert [one.attempts for one in taken] == [2, 2]
    assert {one.lease.until_ms for one in taken} == {line.now + 60_000}
    for verb in (line.timeline.extend, line.timeline.release, line.timeline.done):
        assert words(verb(leases_of(held))) == ["lost"] * 2
    assert [tuple(one) for one in line.read("a").history] == [
        (1, "w", "lost", line.now, "the consumer was started again")
    ]
    assert words(line.timeline.done(taken)) == ["done"] * 2
    assert line.counts() == (0, 0, 1)


def test_an_older_session_learns_that_it_was_replaced(line: Line) -> None:
    older, newer = session_of(line), session_of(line)
    older.begin()
    assert older.beat() == []
    newer.begin()
    assert newer.beat() == []
    with pytest.raises(ConsumerReplaced, match=r"'w' was started again by another process.*a name of its own"):
        older.beat()
    newer.end()
    assert older.beat() == [], "the newer one has left again"


def test_what_a_session_leaves_goes_to_the_next_at_its_next_beat(line: Line) -> None:
    line.create("a", "b")
    older, newer = session_of(line), session_of(line)
    older.begin()
    lease(line, older, 1)
    newer.begin()
    mine = lease(line, newer)
    older.end()
    assert [row.consumer for row in line.timeline.consumers(line.topic)] == []
    line.timeline.heartbeat(line.topic, "w")
    assert ids_of(newer.beat()) == ["a"]
    assert newer.beat() == []
    assert words(line.timeline.done(mine)) == ["done"], "its own leases stay as they are"
    newer.end()
    assert line.timeline.consumers(line.topic) == []


def test_the_consumer_leaves_with_its_last_live_session(line: Line) -> None:
    """The row of a killed session stays for a day; its buckets must not wait for a consumer until then."""
    killed, last = session_of(line), session_of(line)
    killed.begin()
    line.wait(LIVE_MS + 1)
    line.timeline.heartbeat(line.topic, "w")
    line.timeline.heartbeat(line.topic, "other")
    last.begin()
    last.end()
    assert [row.consumer for row in line.timeline.consumers(line.topic)] == ["other"]
    assert line.timeline.heartbeat(line.topic, "other").buckets == range(1_024)


def test_a_session_that_goes_on_has_its_own_leases_only(line: Line) -> None:
    line.create("a", "b")
    older, newer = session_of(line), session_of(line)
    older.begin()
    lease(line, older, 1)
    newer.begin()
    lease(line, newer)
    again = session_of(line, number=newer.number)
    assert ids_of(again.begin()) == ["b"]
    with pytest.raises(ConsumerReplaced):
        session_of(line, number=older.number).begin()


def test_an_older_session_leases_nothing_from_the_moment_a_newer_one_has_begun(line: Line) -> None:
    line.create("a", "b")
    older, newer = session_of(line), session_of(line)
    older.begin()
    (held,) = lease(line, older, 1)
    newer.begin()
    with pytest.raises(ConsumerReplaced, match=r"'w' was started again by another process"):
        lease(line, older)
    assert words(line.timeline.extend(held)) == ["extended"], "what it has is its own"
    assert ids_of(line.lease("v", 1, session=older.number)) == ["b"], "the session of another name is no newer one"
    line.wait(LIVE_MS + 1)
    line.create("c")
    assert ids_of(lease(line, older, 1)) == ["c"], "the newer one has been silent for too long"


def test_a_session_that_goes_on_elsewhere_has_its_leases_and_the_tokens_before_are_void(line: Line) -> None:
    line.create("a", "b", "c")
    before = session_of(line)
    before.begin()
    held = lease(line, before, 2)
    after = session_of(line, number=before.number)
    resumed = after.begin()
    assert ids_of(resumed) == ["a", "b"]
    assert [(one.attempts, one.lease.until_ms) for one in resumed] == [(1, held[0].lease.until_ms)] * 2
    for verb in (line.timeline.extend, line.timeline.release, line.timeline.done):
        assert words(verb(leases_of(held))) == ["lost"] * 2
    with pytest.raises(ConsumerReplaced):
        lease(line, before)
    with pytest.raises(ConsumerReplaced):
        before.beat()
    assert ids_of(lease(line, after)) == ["c"]
    assert words(line.timeline.done(resumed)) == ["done"] * 2


def test_of_clients_that_name_one_session_the_last_has_its_leases(line: Line) -> None:
    line.create("a")
    first = session_of(line)
    first.begin()
    tokens = [lease(line, first, 1)]
    others = [session_of(line, number=first.number) for _ in range(3)]
    tokens += [one.begin() for one in others]
    assert [ids_of(some) for some in tokens] == [["a"]] * 4
    assert len({one.number for one in (first, *others)}) == 4
    assert [words(line.timeline.extend(some)) for some in tokens] == [["lost"]] * 3 + [["extended"]]
    for one in (first, *others[:2]):
        with pytest.raises(ConsumerReplaced):
            one.beat()
    assert others[2].beat() == []


def test_a_connection_that_is_still_open_shares_its_number_with_none_that_ended_after_it(line: Line) -> None:
    line.create("a")
    first = session_of(line)
    first.begin()
    still_open, ended = (session_of(line, number=first.number) for _ in range(2))
    still_open.begin()
    ended.begin()
    ended.end()
    last = session_of(line, number=first.number)
    last.begin()
    assert last.number > ended.number > still_open.number
    with pytest.raises(ConsumerReplaced):
        lease(line, still_open)
    assert ids_of(lease(line, last)) == ["a"]
    still_open.end()
    assert ids_of(line.timeline.my_leases("w", topic=line.topic)) == [], "the last one is alive"


def test_a_resumed_session_that_has_ended_is_not_alive(line: Line) -> None:
    line.create("a")
    first = session_of(line)
    first.begin()
    resumed = session_of(line, number=first.number)
    resumed.begin()
    lease(line, resumed)
    resumed.end()
    assert line.timeline.consumers(line.topic) == []
    assert ids_of(session_of(line).begin()) == ["a"]


def test_clients_that_name_one_session_at_the_same_time_do_not_share_its_leases(line: Line) -> None:
    line.create(*(f"m{number}" for number in range(20)))
    first = session_of(line)
    first.begin()
    lease(line, first)
    others = [session_of(line, number=first.number) for _ in range(4)]

    def begin(one: ConsumerSession) -> list[LeasedMessage]:
        with suppress(ConsumerReplaced):
            return one.begin()
        return []

    with ThreadPoolExecutor(len(others)) as threads:
        found = list(threads.map(begin, others))
    assert len({one.number for one in others}) == 4
    outcomes = sorted(words(line.timeline.extend(some)) for some in found if some)
    assert outcomes == [["extended"] * 20, *[["lost"] * 20] * (len(outcomes) - 1)]


def test_a_replaced_session_that_connects_again_finishes_what_it_has_and_stays_replaced(line: Line) -> None:
    line.create("a", "b")
    older, newer = session_of(line), session_of(line)
    older.begin()
    held = lease(line, older, 1)
    newer.begin()
    again = session_of(line, number=older.number)
    with pytest.raises(ConsumerReplaced):
        again.begin()
    assert words(line.timeline.extend(held)) == ["lost"]
    assert words(line.timeline.done(again.held())) == ["done"]
    with pytest.raises(ConsumerReplaced):
        lease(line, again)
    assert newer.beat() == []
    assert ids_of(lease(line, newer)) == ["b"]


class Narrow(Timeline):
    """A timeline that takes over one message at a time."""

    def take_over(
        self, topic: str, consumer: str, session: int, *, duration: timedelta | None = None, max_bytes: int = 1
    ) -> list[LeasedMessage]:
        return super().take_over(topic, consumer, session, duration=duration, max_bytes=max_bytes)


def test_beats_go_on_taking_over_until_nothing_is_left(line: Line, store: Store) -> None:
    older = session_of(line)
    newer = ConsumerSession(Narrow(store, clock=line.clock), line.topic, "w", lease=MINUTE)
    older.begin()
    for id in "abc":
        line.create(id)
        line.lease("w", 1, session=older.number, duration=timedelta(hours=1))
    assert newer.begin() == []
    line.wait(LIVE_MS + 1)
    assert [ids_of(newer.beat()) for _ in range(4)] == [["a"], ["b"], ["c"], []]


def test_a_session_that_wakes_after_it_was_taken_over_changes_nothing(line: Line) -> None:
    line.create("a", "b")
    frozen, newer = session_of(line), session_of(line)
    frozen.begin()
    held = line.lease("w", 2, session=frozen.number, duration=timedelta(hours=1))
    line.wait(LIVE_MS + 1)
    a, b = newer.begin()
    assert words(line.timeline.done(b)) == ["done"]
    assert words(line.timeline.done(held)) == ["lost", "done"], "b is gone, and was so before"
    with pytest.raises(ConsumerReplaced):
        frozen.beat()
    assert words(line.timeline.done(a)) == ["done"]


def test_leases_of_a_live_session_are_not_shown_to_a_caller_without_one(line: Line) -> None:
    line.create("a", "b")
    session = session_of(line)
    session.begin()
    lease(line, session, 1)
    line.lease("w", 1)

    def shown() -> list[str]:
        return ids_of(line.timeline.my_leases("w", topic=line.topic))

    assert shown() == ["b"]
    assert ids_of(line.timeline.my_leases("w", topic=line.topic, session=session.number)) == ["a"]
    session.end()
    assert shown() == ["a", "b"], "it has ended"


def test_what_was_leased_without_a_session_is_taken_over(line: Line) -> None:
    line.create("a", "b")
    line.lease("w", 1)
    line.lease("other", 1)
    assert ids_of(session_of(line).begin()) == ["a"]


def test_leases_with_and_without_a_session_are_written_together(line: Line) -> None:
    line.create(*"abcd")
    session = session_of(line)
    session.begin()
    held = [*lease(line, session, 1), *line.lease("v", 1), *lease(line, session, 1), *line.lease("v", 1)]
    assert words(line.timeline.extend(held)) == ["extended"] * 4
    assert ids_of(session.held()) == ["a", "c"]
    assert ids_of(line.timeline.my_leases("v", topic=line.topic)) == ["b", "d"]


def test_a_start_by_a_clock_that_is_behind_is_the_newest_all_the_same(line: Line) -> None:
    number = 1 << 62
    row = SessionRow("w", number, line.now)
    line.timeline.attend_sessions(line.topic, [row])
    late = session_of(line)
    late.begin()
    assert late.number > number
    (standing,) = line.timeline.attend_sessions(line.topic, [row])
    assert standing.replaced


class Interrupted(Timeline):
    """A timeline on which something happens as a session ends."""

    happen: Callable[[], object] = staticmethod(lambda: None)

    def end_session(self, topic: str, consumer: str, session: int, *, is_resumed: bool = False) -> None:
        super().end_session(topic, consumer, session, is_resumed=is_resumed)
        self.happen()


def test_starts_at_once_by_clocks_that_are_behind_have_different_numbers(line: Line, store: Store) -> None:
    session_of(line).begin()
    timelines = [Interrupted(store, clock=line.clock) for _ in range(2)]
    one, two = (ConsumerSession(timeline, line.topic, "w") for timeline in timelines)
    one.number, two.number = 1, 2
    timelines[0].happen = two.begin
    with suppress(ConsumerReplaced):
        one.begin()
    assert one.number != two.number
    with pytest.raises(ConsumerReplaced):
        min(one, two, key=lambda session: session.number).beat()


def test_a_message_leased_too_often_is_a_dead_letter_when_its_session_has_ended(line: Line) -> None:
    dead = new_id()
    line.timeline.update_topic(line.topic, max_attempts=2, dead_letter=dead)
    line.timeline.create_topic(dead)
    line.create("poison")
    first, second, third = (session_of(line) for _ in range(3))
    first.begin()
    assert ids_of(lease(line, first)) == ["poison"]
    first.end()
    assert ids_of(second.begin()) == ["poison"]
    second.end()
    assert third.begin() == [], "a process that it ends each time does not get it for ever"
    assert ids_of(line.timeline.lease(dead, "w")) == ["poison"]


@pytest.mark.parametrize("session", ["7", True, 0, -1, 1.5, 1 << 63])
def test_what_is_no_number_of_a_session_is_refused(line: Line, session: Any) -> None:
    line.create("a")
    for call in (line.lease, lambda **how: line.timeline.my_leases("w", **how)):
        with pytest.raises(InvalidCount, match="session must be a whole number from 1 to"):
            call(session=session)
    assert line.counts() == (0, 0, 1)


def test_sessions_go_with_their_topic(line: Line, store: Store) -> None:
    session_of(line).begin()
    number = line.stored.number
    store.transact(lambda rows: rows.remove_topic(number))
    assert store.read(lambda rows: rows.sessions(number, 0)) == []
