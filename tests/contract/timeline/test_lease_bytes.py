"""What hands out bodies is bounded by their bytes as well as by their number, on every store and over the network."""

from collections.abc import Sequence

import pytest

from batchline import LeasedMessage, NewMessage, Store, Timeline
from batchline.errors import InvalidCount, InvalidInput
from batchline.runtime.consumer_session import ConsumerSession
from tests.contract.timeline.line import MINUTE, Line, ids_of, words
from tests.doubles import new_id

MIB = 1 << 20
LIVE_MS = 30_000


def put(line: Line, sizes: Sequence[int], *, together: bool = True) -> list[str]:
    """Messages of these sizes, due one after the other: created by one call, or by one each."""
    new = [NewMessage(bytes(size), line.now - 1_000 + number, f"m{number}") for number, size in enumerate(sizes)]
    for some in [new] if together else [[one] for one in new]:
        assert all(one.ok for one in line.timeline.create(line.topic, some, producer_group=line.group))
    return [one.id or "" for one in new]


def sizes_of(messages: Sequence[LeasedMessage]) -> list[int]:
    return [len(message.body) for message in messages]


@pytest.mark.parametrize("together", [True, False])
def test_a_lease_has_at_most_so_many_bytes_and_takes_nothing_else(line: Line, together: bool) -> None:
    ids = put(line, [1_000] * 7, together=together)
    assert ids_of(line.lease(max_bytes=3_000)) == ids[:3]
    assert line.counts() == (0, 3, 4)
    assert ids_of(line.lease(max_bytes=2_999)) == ids[3:5]
    rest = line.lease()
    assert ids_of(rest) == ids[5:]
    assert [one.attempts for one in rest] == [1, 1]


@pytest.mark.parametrize("together", [True, False])
def test_a_message_that_is_larger_than_all_comes_alone_and_in_its_turn(line: Line, together: bool) -> None:
    ids = put(line, [10, 5_000, 10, 10], together=together)
    assert [ids_of(line.lease(max_bytes=100)) for _ in range(4)] == [ids[:1], ids[1:2], ids[2:], []]


def test_of_messages_due_at_one_moment_the_first_that_fit_are_leased(line: Line) -> None:
    new = [NewMessage(bytes(100), line.now, f"m{number}") for number in range(100)]
    line.timeline.create(line.topic, new, producer_group=line.group)
    found = [one.id for _ in range(4) for one in line.lease(max_bytes=2_500)]
    assert found == [one.id for one in new]


def test_without_a_word_a_lease_has_eight_mebibytes_and_no_message_is_lost_for_that(line: Line) -> None:
    ids = put(line, [MIB] * 19, together=False)
    leases = [line.lease(limit=1_000) for _ in range(4)]
    assert [len(found) for found in leases] == [8, 8, 3, 0]
    assert [one.id for found in leases for one in found] == ids
    assert {one.attempts for found in leases for one in found} == {1}


def test_dead_letters_on_the_way_do_not_use_the_bytes_up(store: Store, line: Line) -> None:
    timeline = Timeline(store, clock=line.clock)
    dead = timeline.create_topic(new_id()).name
    other = Line(timeline, line.clock).make(max_attempts=1, dead_letter=dead)
    ids = put(other, [1_000] * 3, together=False)
    assert len(other.lease()) == 3
    other.wait(61_000)
    new = [NewMessage(bytes(1_000), id="new")]
    timeline.create(other.topic, new, producer_group=other.group)
    assert ids_of(other.lease(max_bytes=1_000)) == ["new"]
    assert sorted(ids_of(timeline.lease(dead, "w", limit=10))) == ids


def test_leases_come_in_pages_each_once_though_they_are_extended_meanwhile(line: Line) -> None:
    me, other = new_id(), Line(line.timeline, line.clock).make()
    wanted = {(line.topic, id) for id in put(line, [1_000] * 5, together=False)}
    wanted |= {(other.topic, id) for id in put(other, [1_000] * 5, together=False)}
    line.lease(me)
    other.lease(me)
    page = line.timeline.leases_page(me, max_bytes=2_500)
    pages = [page]
    while page.next is not None:
        line.wait(1)
        line.timeline.extend([one.lease for one in page.messages], 2 * MINUTE)
        page = line.timeline.leases_page(me, after=page.next, max_bytes=2_500)
        pages.append(page)
    assert {len(page.messages) for page in pages} <= {1, 2}
    found = [(one.held.topic, one.id) for page in pages for one in page.messages]
    assert len(found) == len(set(found))
    assert set(found) == wanted
    assert len(line.timeline.my_leases(me)) == 10


def test_all_leases_are_listed_however_many_pages_they_are(line: Line) -> None:
    me, ids = new_id(), put(line, [MIB] * 10, together=False)
    line.lease(me)
    line.lease(me)
    assert sorted(ids_of(line.timeline.my_leases(me))) == sorted(ids)
    page = line.timeline.leases_page(me)
    assert (sizes_of(page.messages), page.next is None) == ([MIB] * 8, False)
    rest = line.timeline.leases_page(me, after=page.next)
    assert (len(rest.messages), rest.next) == (2, None)


def test_a_page_of_a_producers_messages_has_eight_mebibytes(line: Line) -> None:
    ids = put(line, [MIB] * 10, together=False)
    page = line.timeline.my_messages(line.group, limit=100)
    rest = line.timeline.my_messages(line.group, limit=100, after=page.next)
    assert (ids_of(page.messages), ids_of(rest.messages), rest.next) == (ids[:8], ids[8:], None)


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "1", (1 << 30) + 1])
def test_a_number_of_bytes_that_is_none_is_refused(line: Line, bad: int) -> None:
    for call in (lambda: line.lease(max_bytes=bad), lambda: line.timeline.leases_page("w", max_bytes=bad)):
        with pytest.raises(InvalidCount, match="max_bytes must be a whole number from 1 to"):
            call()


@pytest.mark.parametrize("bad", ["", "x", "1/", "/t", "-1/t", "1_0/t", "ffffffffffffffffff/t", 7])
def test_a_page_after_nothing_that_was_told_is_refused(line: Line, bad: str) -> None:
    with pytest.raises(InvalidInput, match="after must be the next of the page before"):
        line.timeline.leases_page("w", after=bad)


def test_what_ended_sessions_leave_is_taken_over_in_parts_and_none_of_it_is_left(store: Store, line: Line) -> None:
    timeline = Timeline(store, clock=line.clock)
    ids = put(line, [1_000] * 5, together=False)
    older, newer = (ConsumerSession(timeline, line.topic, "w", lease=MINUTE, process="") for _ in "ab")
    older.begin()
    timeline.lease(line.topic, "w", limit=10, duration=60 * MINUTE, session=older.number)
    line.wait(LIVE_MS + 1)
    newer.enter()
    first = newer.held_page()
    assert (ids_of(first.messages), first.next) == (ids, None)
    line.wait(LIVE_MS + 1)
    found = [timeline.take_over(line.topic, "w", newer.number + 1, max_bytes=2_000) for _ in range(4)]
    assert [ids_of(some) for some in found] == [ids[:2], ids[2:4], ids[4:], []]
    assert words(timeline.done([one for some in found for one in some])) == ["done"] * 5
