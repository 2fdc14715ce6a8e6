"""Tokens that end while a request waits or a socket is open, on a real server whose clock is moved by hand."""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from socket import create_connection
from typing import Any, NamedTuple

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from batchline import NewMessage, Store, Timeline, open_store
from batchline.core.token import Token
from batchline.runtime.tokens import REMEMBERED_FOR, Tokens
from batchline.service.service import THREADS
from batchline.wire.push import Close
from tests.doubles import HandClock
from tests.service.serving import Place, placed
from tests.service.test_push import closed, heard, pushed, put, say, socket
from tests.waiting import wait_until

PATIENCE_S = 30
SECOND_US = 1_000_000


class Scene(NamedTuple):
    """A service, its clock, and a token of a consumer."""

    place: Place
    clock: HandClock
    store: Store
    timeline: Timeline
    token: Token
    text: str

    @property
    def headers(self) -> dict[str, str]:
        """The headers with a token."""
        return {"Authorization": f"Bearer {self.text}"}

    def revoke(self) -> None:
        """Revoke the token by another process."""
        Tokens(self.store, self.clock).revoke(self.token.id)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.us += round(seconds * SECOND_US)

    def attempts(self) -> list[int]:
        """How many times each message was leased."""
        ids = ("m0", "m1")
        return [message.attempts for message in self.timeline.my_messages("p").messages if message.id in ids]


@pytest.fixture
def scene() -> Iterator[Scene]:
    clock = HandClock()
    with open_store("memory://") as store, placed(store, clock=clock) as place:
        assert place.service is not None
        timeline = place.service.parts.timeline
        timeline.create_topic("jobs")
        token, text = Tokens(store, clock).create(consumers=["c"], topics=["jobs"], expires=timedelta(hours=1))
        yield Scene(place, clock, store, timeline, token, text)


class Poll:
    """A long poll in a thread."""

    def __init__(self, scene: Scene) -> None:
        self._answer: httpx2.Response | None = None
        self._thread = threading.Thread(target=self._ask, args=(scene,))
        self._thread.start()
        service = scene.place.service
        assert service is not None
        wait_until(lambda: service.parts.under_way.waiting == 1)

    def _ask(self, scene: Scene) -> None:
        address = f"{scene.place.url}/v1/topics/jobs/messages/lease"
        form = {"consumer": "c", "wait": "30s"}
        self._answer = httpx2.post(address, json=form, headers=scene.headers, timeout=PATIENCE_S + 10)

    def answer(self) -> httpx2.Response:
        self._thread.join(PATIENCE_S)
        assert self._answer is not None
        return self._answer


def revoke(scene: Scene) -> None:
    scene.revoke()
    scene.wait(REMEMBERED_FOR.total_seconds())


def expire(scene: Scene) -> None:
    scene.wait(3_600)


ENDS = pytest.mark.parametrize("end", [revoke, expire])


@ENDS
def test_a_long_poll_gets_nothing_once_its_token_has_ended(scene: Scene, end: Callable[[Scene], None]) -> None:
    poll = Poll(scene)
    end(scene)
    put(scene.timeline, "jobs", 1)
    answer = poll.answer()
    assert (answer.status_code, answer.json()["type"]) == (401, "/problems/Unauthorized")
    assert "was revoked or has expired" in answer.json()["detail"]
    assert scene.attempts() == [0], "nothing was leased for it"


def test_a_long_poll_gets_messages_for_less_than_five_seconds_after_its_token_was_revoked(scene: Scene) -> None:
    poll = Poll(scene)
    scene.revoke()
    scene.wait(4.999)
    put(scene.timeline, "jobs", 1)
    assert len(poll.answer().json()["messages"]) == 1


@ENDS
def test_a_socket_gets_nothing_once_its_token_has_ended_and_is_closed(
    scene: Scene, end: Callable[[Scene], None]
) -> None:
    with socket(scene.place, "jobs", "consumer=c&prefetch=1", additional_headers=scene.headers) as opened:
        heard(opened, "subscribed")
        put(scene.timeline, "jobs", 1)
        pushed(opened, 1)
        end(scene)
        put(scene.timeline, "jobs", 1, first=1)
        say(opened, "prefetch", prefetch=2)
        assert heard(opened, "problem")["problem"]["type"] == "/problems/Unauthorized"
        assert closed(opened) == Close.POLICY
    assert scene.attempts() == [1, 0], "nothing was leased for it"


@ENDS
@pytest.mark.parametrize("verb", ["extend", "release", "done", "leave"])
def test_a_socket_changes_nothing_once_its_token_has_ended(
    scene: Scene, end: Callable[[Scene], None], verb: str
) -> None:
    put(scene.timeline, "jobs", 1)
    query = "consumer=c&prefetch=1&duration=2h"  # no room for more: its token is not looked at for that
    with socket(scene.place, "jobs", query, additional_headers=scene.headers) as opened:
        heard(opened, "subscribed")
        (message,) = pushed(opened, 1)
        before = scene.timeline.read_any("jobs", "m0")
        end(scene)
        said: dict[str, Any] = {} if verb == "leave" else {"leases": [message["lease"]], "request": 1}
        say(opened, verb, **said)
        assert heard(opened, "problem")["problem"]["type"] == "/problems/Unauthorized"
        with suppress(ConnectionClosed):
            while heard(opened, "problem"):
                pass
        assert opened.close_code == Close.POLICY
    assert scene.timeline.read_any("jobs", "m0") == before


def test_a_request_whose_body_comes_slowly_changes_nothing_once_its_token_has_ended(scene: Scene) -> None:
    host, port = scene.place.url.removeprefix("http://").split(":")
    service, body = scene.place.service, b'{"messages": [{"id": "m0"}]}'
    assert service is not None
    token, text = Tokens(scene.store, scene.clock).create(producer_group="p", topics=["jobs"])
    with create_connection((host, int(port)), PATIENCE_S) as client:
        head = f"POST /v1/topics/jobs/messages HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n"
        head += f"Authorization: Bearer {text}\r\nContent-Type: application/json\r\n"
        client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:5])
        wait_until(lambda: service.parts.tokens.has_proved(text))
        revoke(scene._replace(token=token))
        client.sendall(body[5:])
        assert client.recv(100).startswith(b"HTTP/1.1 401 ")
    assert scene.attempts() == []


def test_a_socket_whose_token_ends_before_it_is_accepted_is_refused(scene: Scene) -> None:
    service, go_on = scene.place.service, threading.Event()
    assert service is not None
    put(scene.timeline, "jobs", 1)
    address = f"{scene.place.url}/v1/topics/jobs/messages/lease"
    assert len(httpx2.post(address, json={"consumer": "c"}, headers=scene.headers).json()["messages"]) == 1
    refused: list[int] = []

    def connect() -> None:
        with pytest.raises(InvalidStatus) as raised:
            socket(scene.place, "jobs", "consumer=c", additional_headers=scene.headers).__enter__()
        refused.append(raised.value.response.status_code)

    thread = threading.Thread(target=connect)
    try:
        for _ in range(THREADS):  # so that it waits
            service._threads.submit(go_on.wait)
        thread.start()
        wait_until(lambda: service.parts.under_way.sockets == 1)
        revoke(scene)
    finally:
        go_on.set()
        thread.join(PATIENCE_S)
    assert refused == [401]


def test_a_request_of_the_time_before_there_were_tokens_gets_nothing_when_there_are_some() -> None:
    clock = HandClock()
    with open_store("memory://") as store, placed(store, clock=clock) as place:
        assert place.service is not None
        timeline = place.service.parts.timeline
        timeline.create_topic("jobs")
        scene = Scene(place, clock, store, timeline, Token(""), "bl_none")
        poll = Poll(scene)
        Tokens(store, clock).create(consumers=["c"], topics=["jobs"])
        scene.wait(REMEMBERED_FOR.total_seconds())
        timeline.create("jobs", [NewMessage(id="m0")], producer_group="p")
        assert poll.answer().status_code == 401
        assert scene.attempts() == [0]


def test_a_token_is_read_once_in_five_seconds_however_often_it_is_looked_at(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = 0
    read = scene.store.read

    def counted(work: Callable[[Any], Any]) -> Any:
        nonlocal reads
        reads += 1
        return read(work)

    monkeypatch.setattr(scene.store, "read", counted)
    tokens = Tokens(scene.store, scene.clock)
    for _ in range(10):
        for _ in range(100):
            assert tokens.ended([scene.token.id]) == set()
        scene.wait(REMEMBERED_FOR.total_seconds())
    assert reads == 10
    scene.revoke()
    reads = 0
    assert tokens.ended([scene.token.id, None, "unknown"]) == {scene.token.id, None, "unknown"}
    assert reads == 3
