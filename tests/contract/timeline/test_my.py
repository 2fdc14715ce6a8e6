"""What is mine: the leases of a consumer, and the messages of a producer group in pages."""

import pytest

from batchline import NewMessage, Store, Timeline
from batchline.errors import UnknownTopic
from tests.contract.timeline.line import Line, ids_of, leases_of, words
from tests.doubles import new_id

# --- my_leases --------------------------------------------------------------------------------------------------------


def test_a_restarted_consumer_gets_its_leases_back(store: Store, line: Line) -> None:
    me = new_id()
    line.create("a", "b", "c", at=line.now - 3)
    before = line.lease(me, limit=2)
    restarted = Timeline(store, clock=line.clock)
    found = restarted.my_leases(me)
    assert sorted(leases_of(found)) == sorted(leases_of(before))
    assert {one.id: (one.body, one.attempts, one.producer_group) for one in found} == {
        one.id: (one.body, 1, line.group) for one in before
    }
    assert words(restarted.done(leases_of(found))) == ["done", "done"]
    assert restarted.my_leases(me) == []


def test_only_the_consumers_own_and_only_while_they_are_active(line: Line) -> None:
    me, other = new_id(), new_id()
    line.create("a", "b")
    (mine,) = line.lease(me, limit=1)
    line.lease(other, limit=1)
    line.until(mine.lease.until_ms - 1)
    assert leases_of(line.timeline.my_leases(me)) == [mine.lease]
    line.wait(1)
    assert line.timeline.my_leases(me) == line.timeline.my_leases(other) == []


def test_the_new_token_after_it_was_extended(line: Line) -> None:
    me = new_id()
    (lease,) = line.leased("a", consumer=me)
    (outcome,) = line.timeline.extend(lease)
    assert [one.lease for one in line.timeline.my_leases(me)] == [outcome.lease]


def test_of_all_topics_or_of_one(line: Line) -> None:
    me = new_id()
    other = Line(line.timeline, line.clock).make()
    line.leased("a", consumer=me)
    other.leased("b", consumer=me)
    assert sorted(ids_of(line.timeline.my_leases(me))) == ["a", "b"]
    assert ids_of(line.timeline.my_leases(me, topic=other.topic)) == ["b"]
    with pytest.raises(UnknownTopic):
        line.timeline.my_leases(me, topic=new_id())


# --- my_messages ------------------------------------------------------------------------------------------------------


def test_nobody_has_nothing(line: Line) -> None:
    page = line.timeline.my_messages(new_id())
    assert (page.messages, page.next) == ((), None)


def test_messages_of_all_topics_as_they_were_created(line: Line) -> None:
    other = Line(line.timeline, line.clock, group=line.group).make()
    line.create("first", at=line.now + 9)
    other.create("second")
    line.timeline.create(line.topic, [NewMessage(id="theirs")], producer_group=new_id())
    line.create("third", at=line.now + 3)
    assert [(one.topic, one.id) for one in line.messages()] == [
        (line.topic, "first"),
        (other.topic, "second"),
        (line.topic, "third"),
    ]
    assert line.messages()[0] == line.read("first")


@pytest.mark.parametrize("limit", [1, 7, 64, 129, 130, 131])
def test_pages_have_every_message_once(line: Line, limit: int) -> None:
    made = []
    for count in (65, 1, 64):
        outcomes = line.timeline.create(line.topic, [NewMessage()] * count, producer_group=line.group)
        made += [one.id for one in outcomes]
    found: list[str] = []
    after = None
    while True:
        page = line.timeline.my_messages(line.group, after=after, limit=limit)
        assert len(page.messages) <= limit
        found += ids_of(page.messages)
        after = page.next
        if after is None or (limit == 1 and len(found) == 5):
            break
        assert len(page.messages) == limit
    assert found == (made[:5] if limit == 1 else made)


def test_what_happens_between_pages_moves_nothing_to_another_page(line: Line) -> None:
    made = line.timeline.create(line.topic, [NewMessage()] * 10, producer_group=line.group)
    ids = [one.id for one in made]
    page = line.timeline.my_messages(line.group, limit=4)
    assert ids_of(page.messages) == ids[:4]
    line.cancel(ids[1], ids[3], ids[5])
    line.timeline.move(line.topic, {ids[0]: line.now + 5, ids[9]: 0}, producer_group=line.group)
    line.lease(limit=2)
    rest = line.timeline.my_messages(line.group, after=page.next, limit=100)
    assert ids_of(rest.messages) == [ids[4], *ids[6:]]
    assert rest.next is None


def test_more_bundles_than_are_read_at_once_with_gaps_between(line: Line) -> None:
    ids = []
    for _ in range(140):
        (made,) = line.timeline.create(line.topic, [NewMessage()], producer_group=line.group)
        ids.append(made.id)
    line.cancel(*ids[2:130])
    assert ids_of(line.timeline.my_messages(line.group, limit=5).messages) == [*ids[:2], *ids[130:133]]
    assert ids_of(line.messages()) == [*ids[:2], *ids[130:]]
