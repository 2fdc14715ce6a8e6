"""Answers get lost, and servers say that they cannot: the client asks again, and nothing is done twice."""

from datetime import timedelta

import pytest

from batchline import NewMessage, Timeline, Tracker
from batchline.client import Client
from batchline.errors import Overloaded, ServiceUnavailable
from tests.client.conftest import QUICK, Face
from tests.client.crooked import Crooked, How
from tests.doubles import new_id

LOST: list[How] = ["cut", "done and cut", "half", "503", "429", "502"]


@pytest.fixture(params=LOST)
def how(request: pytest.FixtureRequest) -> How:
    found: How = request.param
    return found


def test_messages_are_created_once(face: Face, server: Crooked, timeline: Timeline, topic: str, how: How) -> None:
    later = timeline.now_ms() + 3_600_000
    new = [b"made", NewMessage(b"chosen", id="a"), NewMessage(b"later", at=later), *[b"x"] * 100]
    server.next(how, how)
    outcomes = face("create", topic, new, producer_group="g")
    assert {one.outcome for one in outcomes} == {"created"}
    assert server.requests == 3
    counts = timeline.count(topic)
    assert (counts.waiting, counts.available) == (1, 102)
    assert len({one.id for one in outcomes}) == 103


def test_messages_are_created_once_even_if_they_are_finished_meanwhile(
    face: Face, server: Crooked, timeline: Timeline, topic: str
) -> None:
    server.next("done and cut")
    (first,) = face("create", topic, [b"x"], producer_group="g")
    (leased,) = timeline.lease(topic, "w", limit=10)
    timeline.done(leased)
    assert (leased.id, timeline.count(topic).total) == (first.id, 0)


def test_a_fanout_lives_through_it(face: Face, server: Crooked, tracker: Tracker, how: How) -> None:
    server.next(how)
    fanout = face("open", labels={"job": "import"}).id
    server.next(how)
    groups = face("add", fanout, 70)
    assert tracker.status(fanout).total == sum(group.upto for group in groups) == 70
    items = [item for group in groups for item in group.items()]
    server.next(how)
    face("fail", items[:1], "broken")
    server.next(how)
    assert face("seal", fanout).completed is False
    server.next(how)
    outcome = face("ack", items[1:])
    assert (outcome.changed + outcome.repeated, outcome.completed, outcome.failed) == (69, (), ())
    status = tracker.status(fanout)
    assert (status.acked, status.failed, status.state) == (69, 1, "failed")


def test_who_completed_a_fanout_is_told_so_although_the_first_answer_was_lost(face: Face, server: Crooked) -> None:
    fanout = face("open").id
    (group,) = face("add", fanout, 2)
    server.next("done and cut")
    assert not face("seal", fanout).completed
    server.next("done and cut", "half", "503")
    assert face("ack", group.items()).completed == (fanout,)
    assert face("ack", group.items()).completed == ()


def test_expiring_tells_the_same_again(face: Face, server: Crooked, tracker: Tracker) -> None:
    parent = tracker.open(new_id(), tolerate=0).id
    child = tracker.open(new_id(), parent=parent).id
    server.next("done and cut")
    outcome = face("expire", child)
    assert (outcome.expired, outcome.failed) == ([child], [parent])


def test_leases_are_extended_and_finished(face: Face, server: Crooked, timeline: Timeline, topic: str) -> None:
    timeline.create(topic, [b"a", b"b"], producer_group="g")
    held = face("lease", topic, "w", limit=2)
    server.next("done and cut")
    extended = face("extend", held, timedelta(minutes=9))
    assert [one.outcome for one in extended] == ["extended", "extended"]
    leases = [one.lease for one in extended]
    assert leases == [one.lease for one in timeline.my_leases("w", topic=topic)]
    server.next("done and cut")
    assert [one.outcome for one in face("done", leases)] == ["done", "done"]
    assert timeline.count(topic).total == 0


def test_what_was_lost_before_is_lost_whatever_became_of_the_answer(
    face: Face, server: Crooked, timeline: Timeline, topic: str
) -> None:
    timeline.create(topic, [b"a"], producer_group="g")
    (held,) = face("lease", topic, "w")
    timeline.release(held)
    server.next("done and cut")
    assert [one.outcome for one in face("extend", held)] == ["lost"]


def test_an_answer_after_the_client_went_away_is_asked_for_again(
    server: Crooked, timeline: Timeline, topic: str
) -> None:
    with Client(server.url, retry=QUICK, timeout=timedelta(seconds=1)) as client:
        client.topics()
        server.next("late")
        assert [one.outcome for one in client.create(topic, [b"x"] * 3, producer_group="g")] == ["created"] * 3
    assert server.requests == 2
    assert timeline.count(topic).total == 3


def test_after_the_last_try_it_is_unavailable(face: Face, server: Crooked) -> None:
    server.next("cut", times=9)
    with pytest.raises(ServiceUnavailable, match="cannot be reached: RemoteProtocolError: "):
        face("topics")
    assert server.requests == 4
    server.next("503", times=9)
    with pytest.raises(Overloaded, match="not now") as raised:
        face("topics")
    assert (server.requests, raised.value.retry_after) == (4, timedelta(0))


def test_who_is_not_there_is_unavailable() -> None:
    with (
        Client("http://127.0.0.1:1", retry=QUICK, tries=2) as client,
        pytest.raises(ServiceUnavailable, match="ConnectError"),
    ):
        client.topics()


def test_a_client_that_does_not_retry_asks_once(server: Crooked) -> None:
    with Client(server.url, retry=None) as client:
        server.next("cut")
        with pytest.raises(ServiceUnavailable):
            client.topics()
        assert server.requests == 1
