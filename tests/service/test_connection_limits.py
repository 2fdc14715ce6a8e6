"""What comes before the application sees a request is bounded: in size, in time, in number, and in memory."""

import asyncio
import json
import logging
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame
from websockets.sync.client import connect as open_socket

from batchline import Timeline, open_store
from batchline.core.connection_limits import ConnectionLimits
from batchline.service import subscriber
from batchline.service.limited_http import FRAGMENTS, PIECE, PINGS, LimitedHttp, LimitedSocket
from batchline.service.listening import Tls
from batchline.service.read_turns import TURN_BYTES
from batchline.service.service import THREADS
from batchline.service.under_way import MOST_UNDER_WAY
from batchline.wire.push import Asked, read_asked
from tests.benchmarks.service import memory_mib, served
from tests.service.serving import Place, placed
from tests.waiting import wait_until

PATIENCE_S = 20.0
GET = b"GET /v1/topics HTTP/1.1\r\nhost: localhost\r\n"
POST = b"POST /v1/topics/t/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
UPGRADE = b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
#: Short enough for a test, at each place where a client can be slow.
QUICK: dict[str, Any] = {"head_s": 0.3, "grace_s": 0.3, "idle_s": 0.3, "linger_s": 0.3, "every_s": 0.05}


@contextmanager
def limited(**limits: Any) -> Iterator[Place]:
    with open_store("memory://") as store:
        Timeline(store).create_topic("t")
        with placed(store, limits=ConnectionLimits(**limits)) as place:
            yield place


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """A service with the default limits."""
    with limited() as place:
        yield place


@pytest.fixture(scope="module")
def quick() -> Iterator[Place]:
    """A service that waits for no one for long."""
    with limited(**QUICK) as place:
        yield place


def connect(url: str, source: str = "127.0.0.1") -> socket.socket:
    host, _, port = url.partition("://")[2].rpartition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE_S, source_address=(source, 0))


def read_all(connection: socket.socket) -> bytes:
    pieces = []
    with suppress(ConnectionResetError):
        while piece := connection.recv(65_536):
            pieces.append(piece)
    return b"".join(pieces)


def read_answer(connection: socket.socket) -> bytes:
    """Read one answer with JSON, and leave the connection open."""
    found = b""
    while not found.endswith(b"}"):
        piece = connection.recv(65_536)
        assert piece, found
        found += piece
    return found


def answer_to(url: str, sent: bytes) -> bytes:
    with connect(url) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(sent)
        return read_all(connection)


def refused(place: Place, reason: str) -> float:
    """How many connections were refused for a reason."""
    assert place.service is not None
    name, labels = "batchline_connections_refused_total", {"reason": reason}
    return place.service.parts.metrics.registry.get_sample_value(name, labels) or 0.0


# --- sizes ---


@pytest.mark.parametrize(
    ("head", "status", "problem"),
    [
        (GET + b"a: b\r\n" * 101, 431, b"HeadTooLarge"),
        (GET + b"a: " + b"b" * 40_000 + b"\r\n", 431, b"HeadTooLarge"),
        (GET + b"a: " + b"b" * 400_000, 431, b"HeadTooLarge"),
        (b"GET /" + b"a" * 16_001 + b" HTTP/1.1\r\nhost: localhost\r\n", 414, b"AddressTooLong"),
        (b"GET /" + b"a" * 8_001 + b" HTTP/1.1\r\nhost: localhost\r\n" + UPGRADE, 414, b"AddressTooLong"),
        (b"GET /" + b"a" * 400_000, 431, b"HeadTooLarge"),
        (GET + b"a b: c\r\n", 400, b"WrongContent"),
        (POST + b"transfer-encoding: chunked\r\n\r\n1;" + b"x" * 400_000, 431, b"HeadTooLarge"),
        (POST + b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n0\r\na: " + b"x" * 400_000, 431, b"HeadTooLarge"),
    ],
    ids=[
        "headers",
        "a header",
        "a header without end",
        "address",
        "of a socket",
        "address without end",
        "name",
        "chunk",
        "trailer",
    ],
)
def test_a_head_beyond_a_limit_is_refused(place: Place, head: bytes, status: int, problem: bytes) -> None:
    answer = answer_to(place.url, head + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer[:100]
    assert b"/problems/" + problem in answer
    assert b"connection: close" in answer


def test_a_head_within_the_limits_is_answered(place: Place) -> None:
    assert answer_to(place.url, GET + b"a: b\r\n" * 98 + b"connection: close\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    path = b"GET /" + b"a" * 7_999 + b" HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    assert answer_to(place.url, path).startswith(b"HTTP/1.1 404 ")


SOCKET = (
    b"host: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


@pytest.mark.parametrize(
    ("begin", "more", "status"),
    [
        (b"GET /v1/topics/t/messages/subscribe?consumer=c", b"a: " + b"b" * 9_000 + b"\r\n", 431),
        (b"GET /v1/topics/\xff", b"", 400),
        (b"GET /v1/topics/t/messages/subscribe?consumer=c", b"origin: http://[\r\n", 400),
        (b"GET /v1/topics/t/messages/subscribe?consumer=" + b"c" * 9_000, b"", 414),
        (b"GET /v1/topics/t/messages/subscribe?consumer=c", b"content-length: 1\r\n", 400),
        (b"POST /v1/topics/t/messages/subscribe?consumer=c", b"transfer-encoding: chunked\r\n", 400),
        (b"PUT /v1/topics/t/messages/subscribe?consumer=c", b"", 405),
    ],
    ids=["a header", "address", "origin", "query", "a body", "chunks", "method"],
)
def test_a_handshake_that_cannot_be_is_refused(place: Place, begin: bytes, more: bytes, status: int) -> None:
    answer = answer_to(place.url, begin + b" HTTP/1.1\r\n" + SOCKET + more + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer[:100]


def test_a_handshake_before_an_earlier_answer_is_refused_and_leaves_nothing_behind() -> None:
    with limited() as place:
        assert place.service is not None
        handshake = b"GET /v1/topics/t/messages/subscribe?consumer=c HTTP/1.1\r\n" + SOCKET + b"\r\n"
        answer = answer_to(place.url, GET + b"\r\n" + handshake)
        assert (answer[:13], answer.count(b"HTTP/1.1 ")) == (b"HTTP/1.1 200 ", 1)
        gate = place.service.gate
        wait_until(lambda: gate.open == 0)
        assert not gate._idle
        assert not gate._watched


def test_frames_before_a_handshake_is_answered_are_not_read(place: Place) -> None:
    assert place.service is not None
    service, go_on = place.service, threading.Event()
    with connect(place.url) as connection:
        try:
            for _ in range(THREADS):  # so that the handshake waits
                service._threads.submit(go_on.wait)
            connection.sendall(b"GET /v1/topics/t/messages/subscribe?consumer=early HTTP/1.1\r\n" + SOCKET + b"\r\n")
            wait_until(lambda: service.parts.under_way.sockets == 1)
            connection.sendall(b"\x89\x80mask" * 10)  # pings
            for _ in range(3):
                assert httpx2.get(f"{place.url}/health/live").status_code == 200
        finally:
            go_on.set()
        assert connection.recv(100).startswith(b"HTTP/1.1 101 ")


def test_a_message_of_too_many_frames_closes_its_socket(place: Place) -> None:
    url = place.url.replace("http", "ws") + "/v1/topics/t/messages/subscribe?consumer=c"
    with open_socket(url) as one:
        assert "subscribed" in str(one.recv(PATIENCE_S))
        one.send(part for part in ('{"type": "nothing"', *[""] * (FRAGMENTS - 3), "}"))
        assert "problem" in str(one.recv(PATIENCE_S))
        with suppress(ConnectionClosed):
            one.send("" for _ in range(3 * FRAGMENTS))
        with pytest.raises(ConnectionClosed):
            one.recv(PATIENCE_S)
        assert one.close_code == 1009


@pytest.mark.parametrize("frame", [b"\x89\x80mask", b"\x8a\x80mask"], ids=["pings", "pongs"])
def test_a_flood_of_pings_closes_its_socket(place: Place, frame: bytes) -> None:
    with connect(place.url) as connection:
        connection.sendall(b"GET /v1/topics/t/messages/subscribe?consumer=c HTTP/1.1\r\n" + SOCKET + b"\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 101 ")
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(frame * 100 * PINGS)
        assert f"at most {PINGS} pings and pongs".encode() in read_all(connection)


def test_a_flood_of_frames_leaves_turns_to_others(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str | bytes] = []
    others: list[int] = []

    def counted(data: str | bytes) -> Asked:
        if not done:
            asyncio.get_running_loop().call_soon(lambda: others.append(len(done)))
        done.append(data)
        return read_asked(data)

    monkeypatch.setattr(subscriber, "read_asked", counted)
    frame = b'{"type":"prefetch","prefetch":1}'
    with connect(place.url) as connection:
        connection.sendall(b"GET /v1/topics/t/messages/subscribe?consumer=c HTTP/1.1\r\n" + SOCKET + b"\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 101 ")
        connection.sendall((b"\x81" + bytes([0x80 | len(frame)]) + bytes(4) + frame) * 100)
        wait_until(lambda: len(done) == 100)
    assert others == [1]


def subscribe(url: str, consumer: str, source: str = "127.0.0.1") -> socket.socket:
    """Open a socket, and read what it says first."""
    connection, found = connect(url, source), b""
    path = f"/v1/topics/t/messages/subscribe?consumer={consumer}"
    connection.sendall(f"GET {path} HTTP/1.1\r\n".encode() + SOCKET + b"\r\n")
    while b"subscribed" not in found:
        found += connection.recv(1_000)
    return connection


def test_a_flood_of_empty_frames_leaves_turns_to_others(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    done, others, handle = list[int](), list[int](), LimitedSocket.handle_text

    def counted(self: LimitedSocket, event: Frame) -> None:
        if not done:
            asyncio.get_running_loop().call_soon(lambda: others.append(len(done)))
        done.append(1)
        handle(self, event)

    monkeypatch.setattr(LimitedSocket, "handle_text", counted)
    with subscribe(place.url, "flooding") as connection:
        connection.sendall(b"\x81\x80mask" * 10_000)
        wait_until(lambda: len(done) == 10_000)
    assert others[0] <= PIECE // 6 + 1


def test_frames_that_are_read_in_many_turns_are_all_answered_in_order(place: Place) -> None:
    url = place.url.replace("http", "ws") + "/v1/topics/t/messages/subscribe?consumer=c"
    with open_socket(url) as one:
        assert "subscribed" in str(one.recv(PATIENCE_S))
        for number in range(3_000):
            one.send(json.dumps({"type": "prefetch", "prefetch": -1, "request": number}))
        numbers = [json.loads(one.recv(PATIENCE_S))["request"] for _ in range(3_000)]
        one.send('{"type": "prefetch", "prefetch": -1, "request": 7, "filled": "' + "x" * 500_000 + '"}')
        assert "problem" in str(one.recv(PATIENCE_S))
    assert numbers == list(range(3_000))


def test_half_sent_messages_of_sockets_take_bounded_memory_and_leave_half_to_other_addresses() -> None:
    half = b"\x81\xff" + (15 << 20).to_bytes(8) + b"mask" + b"x" * 900_000
    with limited(frame_bytes=2 << 20) as place, ExitStack() as stack:
        assert place.service is not None
        frames = place.service.gate.frames
        first, again = (stack.enter_context(subscribe(place.url, consumer)) for consumer in "ab")
        first.sendall(half)
        wait_until(lambda: frames.held >= 900_000)
        again.sendall(half[:200_000])
        assert b"large messages of other sockets" in read_all(again)
        other = stack.enter_context(subscribe(place.url, "c", "127.0.0.2"))
        other.sendall(half)
        wait_until(lambda: frames.held >= 1_800_000)
        stack.close()
        wait_until(lambda: frames.held == 0)


def test_a_connection_that_sends_much_leaves_turns_to_others(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    in_turn, most, parse = list[int](), list[int](), LimitedHttp._parse

    def counted(self: LimitedHttp, data: bytes) -> None:
        if len(data) >= TURN_BYTES:
            if not in_turn:
                asyncio.get_running_loop().call_soon(in_turn.clear)
            in_turn.append(len(data))
            most.append(len(in_turn))
        parse(self, data)

    monkeypatch.setattr(LimitedHttp, "_parse", counted)
    chunked = POST + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    answer = answer_to(place.url, chunked + b"1\r\n \r\n" * 2_000_000 + b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 "), answer[:100]
    assert set(most) == {1}


def test_a_refused_handshake_is_no_error_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("uvicorn.error")  # it does not propagate
    try:
        with limited() as place:  # at its end all is logged
            refused = b"GET /nowhere HTTP/1.1\r\n" + SOCKET + b"\r\n"
            assert answer_to(place.url, refused).startswith(b"HTTP/1.1 404 ")
            log.addHandler(caplog.handler)  # not before: its start has removed all others
            assert answer_to(place.url, refused).startswith(b"HTTP/1.1 404 ")
    finally:
        log.removeHandler(caplog.handler)
    assert caplog.messages == []


# --- what a proxy and the service could read differently ---


def test_a_header_after_the_body_is_no_header(place: Place) -> None:
    chunks = b"11\r\n" + b'{"messages":[{}]}' + b"\r\n0\r\norigin: http://evil\r\n\r\n"
    answer = answer_to(place.url, POST + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n" + chunks)
    assert answer.startswith(b"HTTP/1.1 200 "), answer


def test_a_body_behind_an_upgrade_is_not_read_as_a_request(place: Place) -> None:
    smuggled = GET + b"\r\n"
    head = b"connection: upgrade\r\nupgrade: h2c\r\ncontent-length: %d\r\n\r\n" % len(smuggled)
    with connect(place.url) as connection:
        connection.sendall(POST + head)
        assert read_answer(connection).startswith(b"HTTP/1.1 400 ")
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(smuggled)
        assert read_all(connection) == b""


def test_an_upgrade_to_another_protocol_is_ignored_and_the_next_request_is_answered(place: Place) -> None:
    upgrade = GET + b"connection: upgrade\r\nupgrade: h2c\r\n\r\n"
    answer = answer_to(place.url, upgrade + upgrade + GET + b"connection: close\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200 ") == 3


def test_pipelined_requests_beyond_the_limit_end_the_connection_after_those_before_are_answered() -> None:
    with limited(pipelined=10) as place:
        answer = answer_to(place.url, (GET + b"\r\n") * 50)
        assert answer.count(b"HTTP/1.1 200 ") == 11  # one under way, ten that wait
        assert refused(place, "pipelined") == 1


def test_pipelined_requests_take_bounded_memory(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    most, complete = [0], LimitedHttp.on_headers_complete

    def counted(self: LimitedHttp) -> None:
        complete(self)
        most[0] = max(most[0], len(self.pipeline))

    monkeypatch.setattr(LimitedHttp, "on_headers_complete", counted)
    head = GET + b"a: " + b"b" * 30_000 + b"\r\n\r\n"
    answer = answer_to(place.url, head * 50 + GET + b"connection: close\r\n\r\n")
    assert 1 <= answer.count(b"HTTP/1.1 200 ") <= 51
    assert most[0] * 30_000 < ConnectionLimits().pipelined_bytes + len(head)


def test_a_large_body_behind_another_request_arrives(place: Place) -> None:
    body = b'{"messages": [{"body": "' + b"a" * 1_000_000 + b'"}]}'
    request = POST + b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    assert answer_to(place.url, GET + b"\r\n" + GET + b"\r\n" + request).count(b"HTTP/1.1 200 ") == 3


def test_headers_without_end_take_no_memory(tmp_path: Path) -> None:
    piece = b"x-7: y\r\n" * (1 << 17)
    with served(f"sqlite:///{tmp_path / 'b.db'}") as (process, url):
        before = memory_mib(process.pid)
        for begin, repeated in ((GET, piece), (GET + b"x: ", b"y" * (1 << 20))):
            offered = 0
            while offered < 50:
                with suppress(OSError), connect(url) as connection:
                    connection.sendall(begin)
                    while offered < 50:
                        connection.sendall(repeated)
                        offered += 1
        assert memory_mib(process.pid) - before < 50
        assert httpx2.get(f"{url}/health/live").status_code == 200


# --- times ---


@pytest.mark.parametrize(
    ("sent", "answer", "reason"),
    [
        (b"", b"", ""),
        (b"GET / HT", b"HTTP/1.1 408 ", "head_time"),
        (b"\r\n", b"HTTP/1.1 408 ", "head_time"),
        (POST + b"content-length: 100\r\n\r\n{", b"HTTP/1.1 408 ", "body_rate"),
    ],
    ids=["nothing", "half a head", "an empty line", "half a body"],
)
def test_a_connection_that_sends_no_more_is_ended(quick: Place, sent: bytes, answer: bytes, reason: str) -> None:
    before = refused(quick, reason)
    found = answer_to(quick.url, sent)
    assert (found[: len(answer)], bool(found)) == (answer, bool(answer))
    assert not reason or refused(quick, reason) == before + 1


def test_a_head_that_comes_byte_by_byte_is_ended(quick: Place) -> None:
    with connect(quick.url) as connection, suppress(OSError):
        pause = threading.Event()
        for byte in GET + b"a: " + b"b" * 1_000:
            connection.sendall(bytes([byte]))
            pause.wait(0.01)
        raise AssertionError("the service has read it all")


def test_a_body_that_comes_slowly_but_above_the_least_rate_arrives() -> None:
    body = b'{"messages": [{"body": "' + b"a" * 2_000 + b'"}]}'
    with limited(**QUICK | {"bytes_per_s": 100.0}) as place, connect(place.url) as connection:
        pause = threading.Event()
        connection.sendall(POST + b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body))
        for begin in range(0, len(body), 200):  # three times as long as a stalled one may take
            connection.sendall(body[begin : begin + 200])
            pause.wait(0.06)
        assert read_all(connection).startswith(b"HTTP/1.1 200 ")


def test_an_idle_connection_is_ended_and_one_that_asks_again_in_time_is_not(quick: Place) -> None:
    with connect(quick.url) as connection:
        for _ in range(3):
            connection.sendall(GET + b"\r\n")
            assert read_answer(connection).startswith(b"HTTP/1.1 200 ")
        assert read_all(connection) == b""


def test_a_body_that_nobody_reads_does_not_keep_its_connection(quick: Place) -> None:
    head = b"POST /v1/nowhere HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{"
    assert answer_to(quick.url, head).startswith(b"HTTP/1.1 404 ")


def test_half_sent_bodies_keep_nobody_from_being_served(place: Place) -> None:
    assert place.service is not None
    with ExitStack() as stack:
        halves = [stack.enter_context(connect(place.url)) for _ in range(MOST_UNDER_WAY + 10)]
        for connection in halves:
            connection.sendall(POST + b"content-length: 100\r\n\r\n{")
        metrics = place.service.parts.metrics
        wait_until(lambda: metrics._under_way >= len(halves))
        answer = httpx2.post(f"{place.url}/v1/topics/t/messages", json={"messages": [{}]}, timeout=PATIENCE_S)
        assert answer.status_code == 200
        assert httpx2.get(f"{place.url}/v1/topics/t", timeout=PATIENCE_S).status_code == 200


def test_a_client_that_reads_no_answers_is_dropped() -> None:
    with limited(**QUICK | {"head_s": PATIENCE_S, "idle_s": PATIENCE_S}) as place, connect(place.url) as connection:
        with suppress(OSError):
            while refused(place, "unread") == 0:  # it asks, and never reads
                connection.sendall((b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n") * 20)
        wait_until(lambda: refused(place, "unread") == 1)
        with suppress(ConnectionResetError):
            while connection.recv(1 << 20):
                pass


def test_a_socket_that_answers_pings_outlives_the_idle_time(quick: Place) -> None:
    url = quick.url.replace("http", "ws") + "/v1/topics/t/messages/subscribe?consumer=c"
    with open_socket(url) as one:
        assert "subscribed" in str(one.recv(PATIENCE_S))
        with pytest.raises(TimeoutError):
            one.recv(1.0)
        one.send('{"type": "prefetch", "prefetch": -1, "request": 7}')
        assert "problem" in str(one.recv(PATIENCE_S))


# --- numbers ---


def test_connections_beyond_those_of_an_address_are_refused_and_those_of_another_are_not() -> None:
    with limited(per_address=5) as place, ExitStack() as stack:
        held = [stack.enter_context(connect(place.url)) for _ in range(5)]
        for connection in held:
            connection.sendall(b"GET")
        sixth = stack.enter_context(connect(place.url))
        answer = read_all(sixth)
        assert answer == b"" or (answer.startswith(b"HTTP/1.1 503 ") and b"retry-after: 1" in answer)
        wait_until(lambda: refused(place, "per_address") == 1)
        other = stack.enter_context(connect(place.url, "127.0.0.2"))
        other.sendall(GET + b"\r\n")
        assert read_answer(other).startswith(b"HTTP/1.1 200 ")
        held[0].close()
        wait_until(lambda: ask(place.url).startswith(b"HTTP/1.1 200 "))


def ask(url: str) -> bytes:
    return answer_to(url, GET + b"connection: close\r\n\r\n")


def test_an_idle_connection_makes_room_for_a_new_one_when_there_are_too_many() -> None:
    with limited(connections=5, per_address=5) as place, ExitStack() as stack:
        held = [stack.enter_context(connect(place.url)) for _ in range(5)]
        for connection in held:
            connection.sendall(GET + b"\r\n")
            assert read_answer(connection).startswith(b"HTTP/1.1 200 ")
        assert ask(place.url).startswith(b"HTTP/1.1 200 ")
        assert read_all(held[0]) == b""  # the longest idle
        held[1].sendall(GET + b"\r\n")
        assert read_answer(held[1]).startswith(b"HTTP/1.1 200 ")


def test_connections_that_are_not_idle_are_not_ended_for_new_ones() -> None:
    with limited(connections=5, per_address=5) as place, ExitStack() as stack:
        assert place.service is not None
        held = [stack.enter_context(connect(place.url)) for _ in range(5)]
        for connection in held:
            connection.sendall(b"GET /v1/topics HTTP/1.1\r\n")
        wait_until(lambda: place.service is not None and not place.service.gate._idle)
        answer = ask(place.url)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 503 ")
        held[0].sendall(b"host: localhost\r\n\r\n")
        assert read_answer(held[0]).startswith(b"HTTP/1.1 200 ")
        assert place.service.parts.metrics.registry.get_sample_value("batchline_connections") == 5


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    path = tmp_path_factory.mktemp("tls")
    key, cert = path / "k.pem", path / "c.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, *names, "-keyout", key, "-out", cert], check=True, capture_output=True)
    return Tls(cert, key)


def test_connections_in_their_tls_handshake_are_counted_and_given_up(certificate: Tls) -> None:
    limits = ConnectionLimits(handshake_s=1.0, per_address=5, **QUICK)
    with open_store("memory://") as store, placed(store, tls=certificate, limits=limits) as place, ExitStack() as stack:
        assert place.service is not None
        gate = place.service.gate
        silent = [stack.enter_context(connect(place.url)) for _ in range(6)]
        wait_until(lambda: refused(place, "per_address") == 1)
        wait_until(lambda: refused(place, "handshake") == 5)
        assert gate.open == 0
        assert [read_all(one) for one in silent] == [b""] * 6
        context = ssl.create_default_context(cafile=str(certificate.certificate))
        url = place.url.replace("http:", "https:")
        assert httpx2.get(f"{url}/health/live", verify=context).status_code == 200
        # A head that does not come is ended over TLS, too.
        secure = stack.enter_context(context.wrap_socket(connect(place.url), server_hostname="127.0.0.1"))
        secure.sendall(b"GET / HT")
        assert read_all(secure).startswith(b"HTTP/1.1 408 ")
        wait_until(lambda: gate.open == 0)


def test_nothing_is_counted_when_all_have_gone(place: Place) -> None:
    assert place.service is not None
    gate = place.service.gate
    wait_until(lambda: gate.open == 0)
    assert not gate._watched
    assert not gate._idle
    assert not gate._counts._by_address
    parts = place.service.parts
    assert parts.under_way.requests == parts.bodies.held == parts.answers.held == 0
