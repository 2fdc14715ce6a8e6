"""Large answers: bounded each, and all of them together; what cannot be answered is not leased."""

import asyncio
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from batchline import NewMessage, Store, Timeline, open_store
from batchline.client import Client
from batchline.core.message import LARGEST_BODY
from batchline.core.timeline_checks import LEASED_BYTES
from batchline.errors import Overloaded
from batchline.runtime.byte_budget import ByteBudget
from batchline.runtime.tokens import Tokens
from batchline.service import answer_share, answering, leases
from batchline.service.answer_share import AnswerShare
from batchline.service.waiting import Wanted
from batchline.wire.messages import leased_messages
from tests.doubles import leases_of_all_sessions, new_id
from tests.memory import MIB, measured
from tests.service.serving import Place, placed
from tests.waiting import wait_until

PATIENCE_S: Final = 60


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """A service that makes and sends one answer of 8 MiB at a time."""
    with open_store("memory://") as store, placed(store, answer_bytes=LEASED_BYTES) as place:
        yield place


@pytest.fixture
def topic(timeline: Timeline) -> str:
    return timeline.create_topic(new_id()).name


def put(timeline: Timeline, topic: str, count: int, size: int = MIB) -> list[str]:
    """Messages of random bytes, which JSON has in base64."""
    ids = [f"m{number:03}" for number in range(count)]
    for id in ids:
        timeline.create(topic, [NewMessage(os.urandom(size), id=id)], producer_group="p")
    return ids


def lease(place: Place, topic: str, *, token: str = "", **form: Any) -> httpx2.Response:
    address = f"{place.url}/v1/topics/{topic}/messages/lease"
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return httpx2.post(address, json={"consumer": "c", "limit": 1_000} | form, headers=headers, timeout=PATIENCE_S)


@contextmanager
def deaf_client(place: Place, topic: str, token: str = "") -> Iterator[socket.socket]:
    """A client that asks for many messages, and does not read the answer."""
    host, port = place.url.removeprefix("http://").split(":")
    body = json.dumps({"consumer": "deaf", "limit": 1_000}).encode()
    with socket.socket() as asking:
        asking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        asking.connect((host, int(port)))
        head = f"POST /v1/topics/{topic}/messages/lease HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
        head += f"authorization: Bearer {token}\r\n" if token else ""
        asking.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        yield asking


def held(place: Place) -> int:
    assert place.service is not None
    return place.service.parts.answers.held


def test_an_answer_has_eight_mebibytes_and_the_next_goes_on(place: Place, timeline: Timeline, topic: str) -> None:
    ids = put(timeline, topic, 11)
    answers = [lease(place, topic).json()["messages"] for _ in range(3)]
    assert [[one["id"] for one in some] for some in answers] == [ids[:8], ids[8:], []]
    assert held(place) == 0


def test_a_long_poll_has_no_more_than_that_and_fewer_if_asked(place: Place, timeline: Timeline, topic: str) -> None:
    put(timeline, topic, 3)
    assert len(lease(place, topic, wait="20s", max_bytes=2 * MIB).json()["messages"]) == 2
    assert lease(place, topic, max_bytes=LEASED_BYTES + 1).json()["type"] == "/problems/InvalidCount"


def test_a_client_that_starts_again_gets_all_its_leases(place: Place, timeline: Timeline, topic: str) -> None:
    ids, me = put(timeline, topic, 10), new_id()
    with Client(place.url) as client:
        while client.lease(topic, me, limit=100):
            pass
        assert sorted(one.id for one in client.my_leases(me)) == ids
        page = httpx2.get(f"{place.url}/v1/leases?consumer={me}", timeout=PATIENCE_S).json()
        assert (len(page["messages"]), bool(page["next"])) == (8, True)


def test_many_small_messages_are_encoded_in_a_thread(
    place: Place, timeline: Timeline, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = list[str]()

    def noted(*arguments: Any) -> Any:
        names.append(threading.current_thread().name)
        return leased_messages(*arguments)

    monkeypatch.setattr(leases, "leased_messages", noted)
    timeline.create(topic, [b"x"] * 1_000, producer_group="p")
    assert len(lease(place, topic).json()["messages"]) == 1_000
    assert len(names) == 1
    assert names != ["service"]  # the loop's


def test_while_answers_are_not_read_others_are_told_to_come_again_and_nothing_is_leased_for_them(
    place: Place, timeline: Timeline, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_share, "WAIT_S", 0.1)
    put(timeline, topic, 17)
    with deaf_client(place, topic) as deaf:
        wait_until(lambda: timeline.count(topic).processing == 8)
        refused = lease(place, topic)
        assert (refused.status_code, refused.json()["type"]) == (503, "/problems/Overloaded")
        assert int(refused.headers["retry-after"]) > 0
        assert lease(place, topic, wait="1s").status_code == 503
        assert timeline.count(topic).available == 9
        assert httpx2.get(f"{place.url}/v1/topics/{topic}", timeout=PATIENCE_S).status_code == 200
        deaf.shutdown(socket.SHUT_RDWR)
    wait_until(lambda: held(place) == 0)
    assert len(lease(place, topic).json()["messages"]) == 8


def two_tokens(store: Store) -> list[str]:
    tokens = Tokens(store)
    return [tokens.create(name, producer_group="p", consumers=["*"], topics=["*"])[1] for name in ("first", "second")]


def test_a_caller_that_does_not_read_leaves_half_of_the_bytes_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_share, "WAIT_S", 0.1)
    with open_store("memory://") as store, placed(store, answer_bytes=2 * LEASED_BYTES) as place:
        timeline, (slow, other) = Timeline(store), two_tokens(store)
        timeline.create_topic("t")
        put(timeline, "t", 24)
        with deaf_client(place, "t", slow) as first, deaf_client(place, "t", slow) as second:
            wait_until(lambda: held(place) == LEASED_BYTES)
            assert lease(place, "t", token=slow).status_code == 503
            assert len(lease(place, "t", token=other).json()["messages"]) == 8
            for one in (first, second):
                one.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: held(place) == 0)
        assert len(lease(place, "t", token=slow).json()["messages"]) == 8


def test_a_caller_whose_sockets_do_not_read_leaves_half_of_the_bytes_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_share, "WAIT_S", 0.1)

    async def story() -> None:
        budget = ByteBudget(4 * LARGEST_BODY)
        sockets = [AnswerShare(budget) for _ in range(4)]
        for one in sockets:
            one.belong("slow")
        wanted = [Wanted("c", lambda: 1, share=one) for one in sockets]
        assert [one.room() for one in wanted] == [1, 1, 0, 0]
        other = AnswerShare(budget)
        other.belong("other")
        await other.take(2 * LARGEST_BODY)
        with pytest.raises(Overloaded):
            await sockets[2].take(1)
        other.end()
        sockets[0].end()
        assert (wanted[2].room(), wanted[3].room(), budget.held) == (1, 0, 2 * LARGEST_BODY)
        for one in sockets:
            one.end()
        assert (budget.held, budget.part_of("slow").held) == (0, 0)

    asyncio.run(story())


def test_a_client_that_does_not_read_is_let_go_so_that_its_bytes_are_free(
    place: Place, timeline: Timeline, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "SEND_S", 0.5)
    monkeypatch.setattr(answering, "BYTES_PER_S", 1 << 40)
    put(timeline, topic, 9)
    with deaf_client(place, topic):
        wait_until(lambda: timeline.count(topic).processing == 8)
        assert len(lease(place, topic).json()["messages"]) == 1
        assert held(place) == 0


def test_a_client_on_a_slow_line_gets_a_large_answer_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "SEND_S", 0.01)
    answer, pieces = answering.PiecewiseResponse(b"x" * MIB), list[bytes]()

    async def send(message: Any) -> None:
        await asyncio.sleep(0.002)
        pieces.append(message.get("body", b""))

    asyncio.run(answer({}, send, send))
    assert b"".join(pieces) == answer.body


def test_a_socket_that_comes_back_gets_all_that_it_holds_each_once(
    place: Place, timeline: Timeline, topic: str
) -> None:
    from tests.service.test_push import heard, pushed
    from tests.service.test_push import socket as open_socket

    ids = put(timeline, topic, 20)
    options = {"max_size": None}
    with open_socket(place, topic, "consumer=c&prefetch=20", **options) as first:
        session = heard(first, "subscribed")["session"]
        assert sorted(one["id"] for one in pushed(first, 20)) == ids
    with open_socket(place, topic, f"consumer=c&prefetch=20&session={session}", **options) as again:
        assert heard(again, "subscribed")["resumed"] == 8
        assert sorted(one["id"] for one in pushed(again, 20)) == ids
    assert {one.attempts for one in leases_of_all_sessions(timeline, "c", topic)} == {1}
    wait_until(lambda: held(place) == 0)


def test_bytes_are_given_in_turn_and_all_come_back() -> None:
    async def story() -> None:
        budget, order = ByteBudget(10), list[int]()

        async def take(number: int, size: int) -> None:
            share = AnswerShare(budget)
            await share.take(size, patient=True)
            order.append(number)
            await asyncio.sleep(0)
            share.keep(size // 2)
            share.end()
            share.keep(size)
            assert not share.try_take(1)

        waiting = [asyncio.ensure_future(take(number, size)) for number, size in enumerate([6, 6, 4, 100, 1])]
        leaving = asyncio.ensure_future(AnswerShare(budget).take(10, patient=True))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.gather(*waiting)
        assert (order, budget.held) == ([0, 1, 2, 3, 4], 0)

    asyncio.run(story())


def test_one_that_waits_too_long_is_told_and_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_share, "WAIT_S", 0.01)

    async def story() -> None:
        budget = ByteBudget(LARGEST_BODY)
        first, second = AnswerShare(budget), AnswerShare(budget)
        await first.take(LARGEST_BODY)
        with pytest.raises(Overloaded, match="1,048,576 bytes of large requests and answers are under way"):
            await second.take(1)
        first.end()
        assert (budget.held, second.try_take(1), budget.held) == (0, True, 1)

    asyncio.run(story())


def test_a_waiting_client_gets_no_messages_while_others_have_the_bytes() -> None:
    budget = ByteBudget(2 * LARGEST_BODY)
    other, wanted = AnswerShare(budget), Wanted("c", lambda: 2, share=AnswerShare(budget))
    assert other.try_take(LARGEST_BODY)
    assert (wanted.room(), budget.held) == (0, LARGEST_BODY)
    other.end()
    assert (wanted.room(), budget.held) == (2, 2 * LARGEST_BODY)
    wanted.keep([])
    assert budget.held == 0


#: Serves a store with 160 messages of 1 MiB to 20 clients at once; each wants them all.
LEASES: Final = """
import asyncio, os
from contextlib import closing
from batchline import Timeline, open_store
from batchline.service.in_thread import serve_app_in_thread
from batchline.service.service import Service

async def ask(port, number):
    reading, writing = await asyncio.open_connection("127.0.0.1", port)
    body = b'{"consumer":"c%d","limit":10000,"wait":"1s"}' % number
    head = b"POST /v1/topics/t/messages/lease HTTP/1.1\\r\\nhost: localhost\\r\\nconnection: close\\r\\n"
    writing.write(head + b"content-type: application/json\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(body) + body)
    status, read = await reading.readline(), 0
    while piece := await reading.read(65_536):
        read += len(piece)
    writing.close()
    return read if b"200" in status else await ask(port, number)

async def ask_all(port):
    return sum(await asyncio.gather(*(ask(port, number) for number in range(20))))

with open_store(sys.argv[1]) as store:
    timeline = Timeline(store)
    timeline.create_topic("t")
    for _ in range(20):
        timeline.create("t", [os.urandom(1 << 20) for _ in range(8)], producer_group="g")
    with closing(Service(store)) as service, serve_app_in_thread(service.app, dismiss=service.dismiss) as url:
        begin()
        read = asyncio.run(ask_all(int(url.rpartition(":")[2])))
        end([read >> 20, timeline.count("t").processing])
"""


def test_many_clients_that_lease_large_messages_take_a_bounded_amount_of_memory(tmp_path: Path) -> None:
    serving = measured(LEASES, [f"sqlite:///{tmp_path}/t.db"])
    read, leased = serving.told
    assert leased == 160
    assert read > leased  # all of it, as base64
    assert serving.grown < 450 * MIB


def test_large_requests_that_stall_take_their_bytes_from_large_ones_of_their_caller_alone() -> None:
    with open_store("memory://") as store, placed(store, body_bytes=2 * MIB) as place:
        Timeline(store).create_topic("t")
        slow, other = two_tokens(store)
        address, large = f"{place.url}/v1/topics/t/messages", [{"body": "x" * 600_000}]
        host, port = place.url.removeprefix("http://").split(":")
        head = f"POST /v1/topics/t/messages HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
        head += f"authorization: Bearer {slow}\r\n"

        def post(token: str, messages: list[dict[str, str]]) -> httpx2.Response:
            headers = {"authorization": f"Bearer {token}"}
            return httpx2.post(address, json={"messages": messages}, headers=headers, timeout=PATIENCE_S)

        with socket.create_connection((host, int(port))) as stalling:
            stalling.sendall(f"{head}content-length: {16 * MIB}\r\n\r\n".encode() + b" " * 600_000)
            assert place.service is not None
            bodies = place.service.parts.bodies
            wait_until(lambda: bodies.held >= 600_000)
            refused = post(slow, large)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            assert post(slow, [{"body": "x"}]).status_code == 200
            assert post(other, large).status_code == 200
        wait_until(lambda: bodies.held == 0)
        assert post(slow, large).status_code == 200
        assert bodies.held == 0
