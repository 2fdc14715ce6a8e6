"""Sockets on which messages are pushed, on a real server."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from socket import SHUT_RDWR
from typing import Any
from urllib.parse import quote

import pytest
from starlette.websockets import WebSocketDisconnect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from batchline import NewMessage, Timeline, open_store
from batchline.core.message import moment_ms
from batchline.runtime.consumer_session import ConsumerSession
from batchline.runtime.tokens import Tokens
from batchline.service import roll
from batchline.service.operation import Socket
from batchline.service.service import SOCKETS
from batchline.service.subscriber import Subscriber
from batchline.wire.push import LARGEST_FRAME, Close
from tests.doubles import new_id
from tests.service.serving import Place, placed
from tests.waiting import wait_until

PATIENCE_S = 20


@pytest.fixture
def topic(timeline: Timeline) -> str:
    return timeline.create_topic(f"jobs/{new_id()}").name


def put(timeline: Timeline, topic: str, count: int, first: int = 0, **options: Any) -> list[str]:
    ids = [f"m{number}" for number in range(first, first + count)]
    timeline.create(topic, [NewMessage(id=id, **options) for id in ids], producer_group="p")
    return ids


@contextmanager
def socket(
    place: Place, topic: str, query: str = "consumer=c&prefetch=3", **options: Any
) -> Iterator[ClientConnection]:
    address = f"{place.url.replace('http', 'ws')}/v1/topics/{quote(topic, safe='')}/messages/subscribe?{query}"
    with connect(address, proxy=None, **options) as opened:
        yield opened


def heard(opened: ClientConnection, kind: str) -> dict[str, Any]:
    frame: dict[str, Any] = json.loads(opened.recv(PATIENCE_S))
    assert frame.pop("type") == kind, frame
    return frame


def say(opened: ClientConnection, kind: str, **fields: Any) -> None:
    opened.send(json.dumps({"type": kind, **fields}))


def pushed(opened: ClientConnection, count: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    while len(messages) < count:
        messages += heard(opened, "messages")["messages"]
    assert len(messages) == count
    return messages


def closed(opened: ClientConnection) -> int | None:
    with pytest.raises(ConnectionClosed):
        opened.recv(PATIENCE_S)
    return opened.close_code


def refused(place: Place, topic: str, query: str, **options: Any) -> tuple[int, str]:
    with pytest.raises(InvalidStatus) as caught, socket(place, topic, query, **options):
        pass
    problem = json.loads(caught.value.response.body or b"")
    return problem["status"], problem["type"].removeprefix("/problems/")


def test_no_more_than_prefetch_are_with_the_consumer_and_each_that_ends_makes_room(
    place: Place, timeline: Timeline, topic: str
) -> None:
    put(timeline, topic, 10)
    with socket(place, topic) as opened:
        assert heard(opened, "subscribed") | {"clock_ms": 0, "session": 0} == {
            "lease_ms": 300_000,
            "prefetch": 3,
            "clock_ms": 0,
            "resumed": 0,
            "session": 0,
        }
        first = pushed(opened, 3)
        with pytest.raises(TimeoutError):
            opened.recv(0.1)
        say(opened, "done", request=1, leases=[first[0]["lease"]])
        assert heard(opened, "outcomes") == {"request": 1, "outcomes": [{"id": first[0]["id"], "outcome": "done"}]}
        assert pushed(opened, 1)[0]["id"] not in {message["id"] for message in first}
        say(opened, "prefetch", prefetch=6)
        assert len(pushed(opened, 3)) == 3
    assert timeline.count(topic).total == 9


def test_what_is_asked_is_answered_by_its_number(place: Place, timeline: Timeline, topic: str) -> None:
    put(timeline, topic, 1)
    with socket(place, topic) as opened:
        heard(opened, "subscribed")
        (message,) = pushed(opened, 1)
        say(opened, "extend", request=7, leases=[message["lease"]], duration="10m")
        told = heard(opened, "outcomes")
        assert (told["request"], told["outcomes"][0]["outcome"]) == (7, "extended")
        lease = told["outcomes"][0]["lease"]
        say(opened, "release", request=8, leases=[lease, message["lease"]], reason="not now")
        told = heard(opened, "outcomes")
        assert [outcome["outcome"] for outcome in told["outcomes"]] == ["released", "lost"]
        (again,) = pushed(opened, 1)
        assert again["attempts"] == 2
        say(opened, "release", request=9, leases=[again["lease"]], after_ms=3_600_000)
        assert heard(opened, "outcomes")["outcomes"][0]["outcome"] == "released"
    found = timeline.read(topic, "m0", producer_group="p")
    assert [attempt.reason for attempt in found.history] == ["not now", ""]
    assert timedelta(minutes=59) < found.at - moment_ms(timeline.now_ms()) < timedelta(hours=1, seconds=1)


def test_malformed_frames_are_answered_and_the_socket_lives(place: Place, timeline: Timeline, topic: str) -> None:
    put(timeline, topic, 1)
    with socket(place, topic) as opened:
        heard(opened, "subscribed")
        (message,) = pushed(opened, 1)
        frames: list[str | bytes] = ["", "{", "[]", '{"type":"dance"}', '{"type":"done","leases":[1]}', b"\xff", b""]
        frames += ['{"type":"done","leases":["nonsense"],"request":3}', '{"type":"prefetch","prefetch":-1}']
        frames += ['{"type":"beat","clock":"yesterday"}', '{"type":"done","leases":[],"unknown":1}']
        frames += ['{"type":"release","leases":[],"after_ms":-1}', '{"type":"release","leases":[],"after_ms":1,"at":1}']
        for frame in frames:
            opened.send(frame)
            assert heard(opened, "problem")["problem"]["status"] == 400
        foreign = timeline.lease(topic, "other")
        assert foreign == []
        say(opened, "done", request=1, leases=[message["lease"].rpartition("/")[0] + "/other"])
        assert heard(opened, "problem")["problem"]["type"] == "/problems/Forbidden"
        say(opened, "done", request=2, leases=[message["lease"]])
        assert heard(opened, "outcomes")["request"] == 2


def test_a_frame_that_is_too_large_ends_the_socket(place: Place, topic: str) -> None:
    with socket(place, topic) as opened:
        heard(opened, "subscribed")
        with suppress(ConnectionClosed):  # it may end before all was sent
            opened.send(" " * (LARGEST_FRAME + 1))
        assert closed(opened) in (1009, 1006)  # what was not read may make the connection break


def test_a_session_that_is_named_again_goes_on_with_its_leases(place: Place, timeline: Timeline, topic: str) -> None:
    put(timeline, topic, 3)
    with socket(place, topic) as opened:
        session = heard(opened, "subscribed")["session"]
        old = pushed(opened, 3)
        assert [row.consumer for row in timeline.consumers(topic)] == ["c"]
        opened.socket.shutdown(SHUT_RDWR)  # as if the network were cut
    with socket(place, topic, f"consumer=c&prefetch=1&session={session}") as opened:
        assert heard(opened, "subscribed")["resumed"] == 3
        new = pushed(opened, 3)
        assert {message["attempts"] for message in new} == {1}, "its process went on with them"
        for leases, word in ((old, "lost"), (new, "done")):
            say(opened, "done", request=1, leases=[message["lease"] for message in leases])
            outcomes = heard(opened, "outcomes")["outcomes"]
            assert [one["outcome"] for one in outcomes] == [word] * 3, "tokens of the connection before are void"


def test_a_socket_that_its_client_closed_leaves_its_messages_to_the_next_session(
    place: Place, timeline: Timeline, topic: str
) -> None:
    put(timeline, topic, 3)
    with socket(place, topic) as opened:
        heard(opened, "subscribed")
        old = [message["lease"] for message in pushed(opened, 3)]
    wait_until(lambda: not timeline.consumers(topic))
    with socket(place, topic, "consumer=c&prefetch=1") as opened:
        assert heard(opened, "subscribed")["resumed"] == 3
        new = pushed(opened, 3)
        assert {message["attempts"] for message in new} == {2}
        say(opened, "release", request=1, leases=[*old, new[0]["lease"]])
        assert [one["outcome"] for one in heard(opened, "outcomes")["outcomes"]] == ["lost"] * 3 + ["released"]


def test_a_session_whose_connection_was_lost_keeps_its_messages(place: Place, timeline: Timeline, topic: str) -> None:
    put(timeline, topic, 1)
    with socket(place, topic) as opened:
        session = heard(opened, "subscribed")["session"]
        pushed(opened, 1)
        opened.socket.shutdown(SHUT_RDWR)
    with socket(place, topic) as newer:
        assert heard(newer, "subscribed")["resumed"] == 0, "the other process may be alive"
        with socket(place, topic, f"consumer=c&prefetch=3&session={session}") as older:
            assert heard(older, "subscribed")["resumed"] == 1
            (message,) = pushed(older, 1)
            put(timeline, topic, 1, first=1)
            assert pushed(newer, 1)[0]["id"] == "m1", "the older one takes nothing more"
            say(older, "done", request=1, leases=[message["lease"]])
            assert heard(older, "outcomes")["outcomes"][0]["outcome"] == "done"
            assert heard(older, "problem")["problem"]["type"] == "/problems/ConsumerReplaced"
            assert closed(older) == Close.REPLACED


def test_a_session_that_is_cut_off_again_before_it_is_greeted_keeps_its_messages(
    place: Place, timeline: Timeline, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(timeline, topic, 1)
    with socket(place, topic) as opened:
        session = heard(opened, "subscribed")["session"]
        pushed(opened, 1)
        opened.socket.shutdown(SHUT_RDWR)

    async def cut_off(_: Subscriber) -> None:
        raise WebSocketDisconnect(1006)

    with monkeypatch.context() as patched:
        patched.setattr(Subscriber, "_greet", cut_off)
        with socket(place, topic, f"consumer=c&prefetch=3&session={session}") as again:
            closed(again)
    with socket(place, topic) as newer:
        assert heard(newer, "subscribed")["resumed"] == 0, "its process works on the message"
        with socket(place, topic, f"consumer=c&prefetch=3&session={session}") as again:
            assert heard(again, "subscribed")["resumed"] == 1, "it names the session that it knows"
            (message,) = pushed(again, 1)
            say(again, "done", request=1, leases=[message["lease"]])
            assert heard(again, "outcomes")["outcomes"][0]["outcome"] == "done"


@pytest.mark.parametrize("session", ["0", "-1", "9223372036854775808", "x"])
def test_a_session_is_a_number_that_the_service_gave(place: Place, topic: str, session: str) -> None:
    assert refused(place, topic, f"consumer=c&session={session}")[0] == 400


def test_who_leaves_gives_everything_back_at_once(place: Place, timeline: Timeline, topic: str) -> None:
    put(timeline, topic, 3)
    with socket(place, topic) as opened:
        heard(opened, "subscribed")
        pushed(opened, 3)
        say(opened, "leave")
        assert closed(opened) == Close.LEFT
    assert timeline.my_leases("c", topic=topic) == []
    assert timeline.consumers(topic) == []
    assert len(timeline.lease(topic, "other", limit=10)) == 3


def test_a_second_socket_of_a_consumer_gets_what_comes_and_the_first_finishes_what_it_has(
    place: Place, timeline: Timeline, topic: str
) -> None:
    put(timeline, topic, 1)
    with socket(place, topic) as first:
        heard(first, "subscribed")
        (message,) = pushed(first, 1)
        with socket(place, topic) as second:
            assert heard(second, "subscribed")["resumed"] == 0
            put(timeline, topic, 1, first=1)
            assert pushed(second, 1)[0]["id"] == "m1"
            say(first, "extend", request=1, leases=[message["lease"]])
            (outcome,) = heard(first, "outcomes")["outcomes"]
            say(first, "done", request=2, leases=[outcome["lease"]])
            assert heard(first, "outcomes")["outcomes"][0]["outcome"] == "done"
            assert "was started again by another process" in heard(first, "problem")["problem"]["detail"]
            assert closed(first) == Close.REPLACED
            assert [row.consumer for row in timeline.consumers(topic)] == ["c"]


def test_large_messages_come_in_frames_that_a_client_takes(place: Place, timeline: Timeline, topic: str) -> None:
    put(timeline, topic, 12, body=b"\x00" * (1 << 20))
    with socket(place, topic, "consumer=c&prefetch=12", max_size=LARGEST_FRAME) as opened:
        heard(opened, "subscribed")
        assert len(pushed(opened, 12)) == 12


def test_who_reads_nothing_holds_nobody_up(place: Place, timeline: Timeline, topic: str) -> None:
    put(timeline, topic, 40, body=b"x" * (1 << 20))
    with (
        socket(place, topic, "consumer=slow&prefetch=32", max_queue=1),
        socket(place, topic, "consumer=quick&prefetch=40", max_size=LARGEST_FRAME) as quick,
    ):
        heard(quick, "subscribed")
        assert pushed(quick, 8)


def test_all_are_told_that_the_topic_is_deleted(place: Place, timeline: Timeline, topic: str) -> None:
    put(timeline, topic, 1, at=timeline.now_ms() + 3_600_000)
    with socket(place, topic) as opened:
        heard(opened, "subscribed")
        timeline.delete_topic(topic)
        assert heard(opened, "problem")["problem"]["type"] == "/problems/TopicDeleted"
        assert closed(opened) == Close.TOPIC


def test_what_is_wrong_is_answered_before_a_socket_is_accepted(place: Place, topic: str) -> None:
    assert refused(place, "nowhere", "consumer=c") == (404, "UnknownTopic")
    assert refused(place, topic, "prefetch=1") == (400, "WrongContent")
    assert refused(place, topic, "consumer=c&prefetch=10001") == (400, "InvalidCount")
    assert refused(place, topic, "consumer=c&duration=13h") == (400, "InvalidRules")
    assert refused(place, topic, "consumer=c&duration=soon") == (400, "InvalidRules")
    assert refused(place, topic, "consumer=a%0Ab") == (400, "InvalidName")
    assert refused(place, topic, "consumer=c", origin="https://elsewhere.example") == (403, "Forbidden")


def test_every_socket_stands_in_the_document(place: Place) -> None:
    import httpx2

    description = httpx2.get(f"{place.url}/openapi.json").json()["info"]["description"]
    assert all(one.path in description and one.summary in description for one in SOCKETS)


@pytest.fixture(scope="module")
def guarded() -> Iterator[tuple[Place, Tokens]]:
    """A service with tokens, that looks at them more often than usual."""
    with pytest.MonkeyPatch.context() as patch, open_store("memory://") as store:
        patch.setattr(roll, "CALL_EVERY", timedelta(milliseconds=50))
        with placed(store) as place:
            assert place.service is not None
            tokens = place.service.parts.tokens
            tokens.create(admin=True)
            place.service.parts.timeline.create_topic("jobs")
            yield place, tokens


def test_a_socket_whose_messages_another_connection_has_ends_although_its_leases_would_last(
    guarded: tuple[Place, Tokens],
) -> None:
    place, tokens = guarded
    assert place.service is not None
    timeline, (_, text) = place.service.parts.timeline, tokens.create(consumers=["c"], topics=["long"])
    timeline.create_topic("long", lease=timedelta(hours=1))
    put(timeline, "long", 1)
    with socket(place, "long", **bearer(text)) as opened:
        session = heard(opened, "subscribed")["session"]
        pushed(opened, 1)
        elsewhere = ConsumerSession(timeline, "long", "c", number=session, process="")
        assert len(elsewhere.begin()) == 1
        assert heard(opened, "problem")["problem"]["type"] == "/problems/ConsumerReplaced"
        assert closed(opened) == Close.REPLACED
    elsewhere.end()


def bearer(text: str) -> dict[str, Any]:
    return {"additional_headers": {"Authorization": f"Bearer {text}"}}


@pytest.mark.parametrize("one", SOCKETS, ids=lambda one: one.name)
def test_a_socket_needs_the_right_to_lease_on_its_topic_in_its_name(guarded: tuple[Place, Tokens], one: Socket) -> None:
    place, tokens = guarded
    assert (one.right, one.path) == ("consume", "/v1/topics/{topic}/messages/subscribe")
    revoked, text = tokens.create(consumers=["c"], topics=["*"])
    tokens.revoke(revoked.id)
    refusals: list[tuple[dict[str, Any], int]] = [
        ({}, 401),
        (bearer("bl_nonsense"), 401),
        (bearer(text), 401),
        (bearer(tokens.create(producer_group="p", topics=["*"])[1]), 403),
        (bearer(tokens.create(consumers=["d*"], topics=["*"])[1]), 403),
        (bearer(tokens.create(consumers=["c"], topics=["other"])[1]), 403),
    ]
    for options, status in refusals:
        assert refused(place, "jobs", "consumer=c", **options)[0] == status
    assert place.service is not None
    assert place.service.parts.timeline.consumers("jobs") == []


def test_a_socket_on_an_internal_topic_needs_a_token_that_names_it(guarded: tuple[Place, Tokens]) -> None:
    place, tokens = guarded
    assert place.service is not None
    place.service.parts.timeline.create_topic("parcels", internal=True)
    wide, exact = (tokens.create(consumers=["c"], topics=[topic])[1] for topic in ("*", "parcels"))
    assert refused(place, "parcels", "consumer=c", **bearer(wide))[0] == 403
    with socket(place, "parcels", "consumer=c", **bearer(exact)) as opened:
        heard(opened, "subscribed")


def test_a_browser_sends_its_token_as_a_subprotocol_which_is_not_echoed(guarded: tuple[Place, Tokens]) -> None:
    place, tokens = guarded
    text = tokens.create(consumers=["c"], topics=["*"])[1]
    offered = [Subprotocol("batchline"), Subprotocol(f"bearer.{text}")]
    with socket(place, "jobs", "consumer=c", subprotocols=offered) as opened:
        assert opened.subprotocol == "batchline"
        heard(opened, "subscribed")
    wrong = [Subprotocol("batchline"), Subprotocol("bearer.bl_nonsense")]
    assert refused(place, "jobs", "consumer=c", subprotocols=wrong)[0] == 401


def test_a_socket_whose_token_is_revoked_or_expires_is_closed(guarded: tuple[Place, Tokens]) -> None:
    place, tokens = guarded
    revoked, kept = tokens.create(consumers=["c*"], topics=["*"]), tokens.create(consumers=["c*"], topics=["*"])
    short = tokens.create(consumers=["c*"], expires=timedelta(seconds=1), topics=["*"])
    with (
        socket(place, "jobs", "consumer=c3", **bearer(short[1])) as third,
        socket(place, "jobs", "consumer=c1", **bearer(revoked[1])) as first,
        socket(place, "jobs", "consumer=c2", **bearer(kept[1])) as second,
    ):
        tokens.revoke(revoked[0].id)
        for opened in (first, third):
            heard(opened, "subscribed")
            assert heard(opened, "problem")["problem"]["type"] == "/problems/Unauthorized"
            assert closed(opened) == Close.POLICY
        heard(second, "subscribed")
        say(second, "done", request=1, leases=[])
        assert heard(second, "outcomes") == {"request": 1, "outcomes": []}


def test_a_client_that_reads_nothing_does_not_hold_up_the_others_when_it_takes_over_leases(
    guarded: tuple[Place, Tokens],
) -> None:
    """Else no socket of the process is seen, and others take its leases for those of an ended session."""
    place, tokens = guarded
    assert place.service is not None
    timeline = place.service.parts.timeline
    timeline.create_topic("full", lease=timedelta(hours=1))
    of_c, of_d = (tokens.create(consumers=[name], topics=["full", "jobs"]) for name in "cd")
    older = ConsumerSession(timeline, "full", "c", process="")
    older.begin()
    put(timeline, "full", 1)
    (held,) = timeline.lease("full", "c", session=older.number)
    put(timeline, "full", 30, first=1, body=b"x" * (1 << 20))
    pushed_by_then = [1]

    def stands_still() -> bool:
        pushed_by_then.append(timeline.count("full").processing)
        return pushed_by_then[-2] == pushed_by_then[-1] > 1

    with (
        socket(
            place,
            "full",
            "consumer=c&prefetch=32",
            max_queue=1,
            max_size=LARGEST_FRAME,
            close_timeout=0.1,
            **bearer(of_c[1]),
        ),
        socket(place, "jobs", "consumer=d", **bearer(of_d[1])) as other,
    ):
        heard(other, "subscribed")
        wait_until(stands_still, pause_s=0.3)
        older.end()
        wait_until(lambda: timeline.read_any("full", "m0").version > held.lease.version)
        tokens.revoke(of_d[0].id)
        # Long before the client that reads nothing is given up.
        assert json.loads(other.recv(5))["problem"]["type"] == "/problems/Unauthorized"
        assert closed(other) == Close.POLICY
