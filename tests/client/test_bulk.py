"""Calls that are larger than one request may be: several requests, one answer in the order of what was given."""

import pytest

from batchline import NewMessage, Timeline, Tracker
from batchline.client import Client
from batchline.client.pieces import BYTES_AT_ONCE, framed, pieces
from batchline.core.message import LARGEST_BODY
from batchline.errors import UnknownGroup
from tests.client.conftest import Face
from tests.client.crooked import Crooked
from tests.doubles import new_id


@pytest.mark.parametrize(
    ("sizes", "most", "cuts"),
    [
        ([], 3, []),
        ([1], 3, [(0, 1)]),
        ([1] * 3, 3, [(0, 3)]),
        ([1] * 7, 3, [(0, 3), (3, 6), (6, 7)]),
        ([BYTES_AT_ONCE, 1], 3, [(0, 1), (1, 2)]),
        ([1, BYTES_AT_ONCE - 2], 3, [(0, 2)]),
        ([1, BYTES_AT_ONCE + 5, 1], 3, [(0, 1), (1, 2), (2, 3)]),
    ],
    ids=str,
)
def test_pieces_are_as_large_as_they_may_be(sizes: list[int], most: int, cuts: list[tuple[int, int]]) -> None:
    assert list(pieces([bytes(size) for size in sizes], most)) == cuts


def test_a_body_lists_what_is_encoded_beside_what_else_is_said() -> None:
    assert framed(b"ids", [b'"a"', b'"b"']) == b'{"ids":["a","b"]}'
    assert framed(b"masks", [b'"a":1'], b'{"call_id":"x"}', b"{}") == b'{"masks":{"a":1},"call_id":"x"}'


def test_many_messages_are_created_leased_and_finished(server: Crooked, timeline: Timeline, topic: str) -> None:
    bodies = [b"%d" % number for number in range(10_001)]
    with Client(server.url) as client:
        outcomes = client.create(topic, bodies, producer_group="g")
        assert [one.outcome for one in outcomes] == ["created"] * 10_001
        held = client.lease(topic, "w", limit=10_000) + client.lease(topic, "w", limit=10_000)
        assert {one.id: one.body for one in held} == dict(zip([one.id for one in outcomes], bodies, strict=True))
        done = client.done(held)
    assert [(one.id, one.outcome) for one in done] == [(one.id, "done") for one in held]
    assert server.requests == 3 + 2 + 2
    assert timeline.count(topic).total == 0


def test_many_bytes_are_several_requests_whatever_they_look_like(
    server: Crooked, timeline: Timeline, topic: str
) -> None:
    bodies = [bytes(LARGEST_BODY), b"\xff" * LARGEST_BODY, b"x" * LARGEST_BODY] * 3
    with Client(server.url) as client:
        assert [one.ok for one in client.create(topic, bodies, producer_group="g")] == [True] * 9
        assert server.requests > 1
        held = client.lease(topic, "w", limit=10) + client.lease(topic, "w", limit=10)
        assert sorted(one.body for one in held) == sorted(bodies)


def test_leases_on_several_topics_are_answered_in_their_order(
    face: Face, server: Crooked, timeline: Timeline, topic: str
) -> None:
    topics = [topic, timeline.create_topic(new_id()).name]
    held = []
    for one in topics:
        timeline.create(one, [NewMessage(id=f"{one}-{number}") for number in range(3)], producer_group="g")
        held.append(timeline.lease(one, "w", limit=3))
    mixed = [lease for pair in zip(*held, strict=True) for lease in pair]
    extended = face("extend", mixed)
    assert [(one.id, one.outcome) for one in extended] == [(one.id, "extended") for one in mixed]
    assert [one.lease.topic for one in extended] == topics * 3
    assert server.requests == 2


def test_errors_of_items_have_the_very_objects_that_were_given(face: Face, tracker: Tracker) -> None:
    fanout = tracker.open(new_id()).id
    (group,) = tracker.add(fanout, 3)
    (gone,) = tracker.add(tracker.open(new_id()).id, 1)
    unknown = (f"{gone.id[:-1]}{'0' if gone.id[-1] != '0' else '1'}", 1)
    nothing = object()
    items = [(group, 1), unknown, nothing, f"{fanout}:{unknown[0]}:0", unknown, *group.items()]
    outcome = face("ack", items)
    assert (outcome.changed, outcome.repeated) == (3, 1)
    told = [one.item for one in outcome.errors]
    assert told[0] is nothing
    assert sum(one is unknown for one in told) == 2
    assert f"{fanout}:{unknown[0]}:0" in told
    assert {type(one.error) for one in outcome.errors[1:]} == {UnknownGroup}
