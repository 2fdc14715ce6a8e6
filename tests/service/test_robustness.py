"""Whatever comes over the wire: a named problem or a closed connection, nothing changed, and the next one is served."""

import json
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import httpx2
import pytest

from batchline import Store, Timeline, open_store
from batchline.service.reading import LARGEST_BODY
from tests.service.serving import serving

PATIENCE_S = 20.0
TOPIC = "/v1/topics/t/messages"


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with open_store("memory://") as store:
        Timeline(store).create_topic("t")
        yield store


@pytest.fixture(scope="module")
def url(store: Store) -> Iterator[str]:
    with serving(store) as url:
        yield url


@pytest.fixture
def client(store: Store, url: str) -> Iterator[httpx2.Client]:
    """After each test the service answers, and nothing was put on the topic."""
    with httpx2.Client(base_url=url, timeout=PATIENCE_S) as client:
        yield client
        assert client.get("/v1/topics/t/count").json() == {"waiting": 0, "processing": 0, "available": 0}


@contextmanager
def connected(url: str) -> Iterator[socket.socket]:
    host, _, port = url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        yield connection


def answer_to(url: str, sent: bytes, *, half_close: bool = False) -> bytes:
    """All that comes back until the other side closes."""
    with connected(url) as connection:
        connection.sendall(sent)
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        pieces = []
        try:
            while piece := connection.recv(65_536):
                pieces.append(piece)
        except ConnectionResetError:  # it closed while we still had something to say
            pass
        return b"".join(pieces)


def post(body: bytes, more: str = "", length: int | None = None) -> bytes:
    head = f"POST {TOPIC} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\n"
    return f"{head}content-length: {len(body) if length is None else length}\r\n{more}\r\n".encode() + body


def post_json(client: httpx2.Client, body: bytes) -> httpx2.Response:
    return client.post(TOPIC, content=body, headers={"content-type": "application/json"})


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # the beginning of TLS
        b"POST /v1/topics HTTP/1.1\r\nhost: localhost\r\ncontent-length: -5\r\n\r\n",
        b"POST /v1/topics HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        b"POST /v1/topics HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_no_http_is_refused_and_closed(client: httpx2.Client, url: str, sent: bytes) -> None:
    answer = answer_to(url, sent, half_close=True)
    assert answer == b"" or answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 404", b"HTTP/1.1 415"))


NESTED = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"messages"',
        b"\xff\xfe",
        b'{"messages": [{"body": "\\ud800"}]}',
        b'{"messages": [{"body": 7}]}',
        b'{"messages": [{"at": 1e400}]}',
        b'{"messages": [{"at": ' + b"9" * 5_000 + b"}]}",
        b'{"messages": [{"at": NaN}]}',
        b'{"messages": [{"at": -1}]}',
        b'{"messages": [{"at": "2026-13-01T00:00:00Z"}]}',
        b'{"messages": [{"at": "2026-11-16T00:00:00"}]}',
        b'{"messages": [{"body_base64": "%%"}]}',
        b'{"messages": [{"body": "a", "body_base64": "YQ=="}]}',
        b'{"messages": [{"id": "\\u0000"}]}',
        b'{"messages": [{"id": ""}]}',
        b'{"messages": [{"id": "a"}, {"id": "a"}]}',
        b'{"messages": [{"priority": 1001}]}',
        b'{"messages": ' + NESTED + b"}",
        b'{"message": []}',
        b'{"messages": [], "producer_group": "mine"}',
    ],
    ids=lambda body: ascii(body)[:40],
)
def test_a_body_that_is_not_what_it_should_be_is_400(client: httpx2.Client, body: bytes) -> None:
    answer = post_json(client, body)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert answer.json()["detail"]


def test_more_messages_than_a_call_may_have_are_refused(client: httpx2.Client) -> None:
    answer = post_json(client, json.dumps({"messages": [{}] * 10_001}).encode())
    assert answer.status_code in (400, 413)
    assert "10000" in answer.json()["detail"].replace(",", "")


def test_a_body_that_is_too_large_is_413_before_it_has_come(client: httpx2.Client, url: str) -> None:
    assert answer_to(url, post(b"{", length=LARGEST_BODY + 1)).startswith(b"HTTP/1.1 413")


def test_a_body_without_a_length_is_cut_off(client: httpx2.Client) -> None:
    pieces = (b" " * (1 << 20) for _ in range(18))
    answer = client.post(TOPIC, content=pieces, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["type"]) == (413, "/problems/TooLarge")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "multipart/form-data"])
def test_what_a_form_of_another_page_can_send_is_415(client: httpx2.Client, kind: str) -> None:
    answer = client.post(TOPIC, content=b'{"messages": [{}]}', headers={"content-type": kind})
    assert (answer.status_code, answer.json()["type"]) == (415, "/problems/WrongMedia")


@pytest.mark.parametrize("headers", [{"origin": "http://evil.example"}, {"host": "evil.example"}, {"origin": "null"}])
def test_pages_of_others_are_not_answered(client: httpx2.Client, headers: dict[str, str]) -> None:
    answer = client.post(TOPIC, json={"messages": [{}]}, headers=headers)
    assert (answer.status_code, answer.json()["type"]) == (403, "/problems/Forbidden")


def test_who_closes_their_half_is_answered_or_closed(client: httpx2.Client, url: str) -> None:
    whole = answer_to(url, b"GET /v1/topics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", half_close=True)
    assert whole == b"" or whole.startswith(b"HTTP/1.1 200")
    assert answer_to(url, post(b'{"messages": [', length=100), half_close=True) == b""


def test_who_goes_away_in_the_middle_leaves_nothing(client: httpx2.Client, url: str) -> None:
    for length in (0, 5, 50):
        with connected(url) as connection:
            connection.sendall(post(b'{"messages": [{}' + b" " * length, length=200))


def test_headers_of_a_megabyte_do_no_harm(client: httpx2.Client, url: str) -> None:
    head = b"GET /v1/topics HTTP/1.1\r\nhost: localhost\r\n"
    answer = answer_to(url, head + b"x: " + b"y" * (1 << 20) + b"\r\nconnection: close\r\n\r\n", half_close=True)
    assert answer == b"" or answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 431", b"HTTP/1.1 200"))


def test_five_hundred_idle_sockets_keep_nobody_from_being_served(client: httpx2.Client, url: str) -> None:
    with ExitStack() as stack:
        idle = [stack.enter_context(connected(url)) for _ in range(500)]
        for connection in idle[::2]:  # half of them have begun to ask
            connection.sendall(b"GET /v1/topics HTTP/1.1\r\nhost: loc")
        for _ in range(20):
            assert client.get("/v1/topics/t").status_code == 200


def test_many_requests_on_one_connection_are_answered_in_order(client: httpx2.Client, url: str) -> None:
    one = b"GET /v1/topics/%d HTTP/1.1\r\nhost: localhost\r\n\r\n"
    last = b"GET /v1/topics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    answer = answer_to(url, b"".join(one % number for number in range(100)) + last)
    assert answer.count(b"HTTP/1.1 404") == 100
    places = [answer.index(b"'%d'" % number) for number in range(100)]
    assert places == sorted(places)


def test_too_much_at_once_is_503_and_afterwards_all_is_well(tmp_path: Path) -> None:
    path = tmp_path / "batchline.db"
    with open_store(f"sqlite:///{path}") as store, serving(store, most_under_way=2) as url:
        Timeline(store).create_topic("t")
        with closing(sqlite3.connect(path, isolation_level=None)) as other, httpx2.Client(base_url=url) as client:
            other.execute("BEGIN IMMEDIATE")  # nobody else can write
            answers: list[int] = []
            two = [threading.Thread(target=lambda: answers.append(put(url))) for _ in range(2)]
            for thread in two:
                thread.start()
            while (refused := client.get("/v1/topics/t")).status_code != 503:
                pass
            assert (refused.headers["retry-after"], refused.json()["type"]) == ("1", "/problems/Overloaded")
            other.execute("ROLLBACK")
            for thread in two:
                thread.join(PATIENCE_S)
            assert answers == [200, 200]
            assert client.get("/v1/topics/t/count").json()["available"] == 2


def put(url: str) -> int:
    """Put a message, when there is room: who looks whether there is any takes some, too."""
    while (status := httpx2.post(f"{url}{TOPIC}", json={"messages": [{}]}, timeout=PATIENCE_S).status_code) == 503:
        pass
    return status
