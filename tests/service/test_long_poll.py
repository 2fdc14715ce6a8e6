"""Requests that wait for messages, on a real server."""

import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from batchline import NewMessage, Timeline, open_store
from batchline.errors import Overloaded
from batchline.service.under_way import UnderWay
from tests.doubles import new_id
from tests.service.serving import Place, placed
from tests.waiting import wait_until

PATIENCE_S = 20


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with open_store("memory://") as store, placed(store, most_under_way=1, most_waiting=2) as place:
        yield place


@pytest.fixture
def topic(timeline: Timeline) -> str:
    return timeline.create_topic(new_id()).name


def lease(place: Place, topic: str, **form: Any) -> httpx2.Response:
    address = f"{place.url}/v1/topics/{topic}/messages/lease"
    return httpx2.post(address, json={"consumer": "c"} | form, timeout=PATIENCE_S)


class Asking:
    """A request in a thread."""

    def __init__(self, place: Place, topic: str, **form: Any) -> None:
        self.answer: httpx2.Response | None = None
        self._thread = threading.Thread(target=self._ask, args=(place, topic, form))
        self._thread.start()

    def _ask(self, place: Place, topic: str, form: dict[str, Any]) -> None:
        self.answer = lease(place, topic, **form)

    def ids(self) -> list[str]:
        self._thread.join(PATIENCE_S)
        assert self.answer is not None
        return [message["id"] for message in self.answer.json()["messages"]]


def waiting(place: Place) -> int:
    assert place.service is not None
    return place.service.parts.under_way.waiting


def test_a_request_waits_for_a_message_and_is_not_counted_as_under_way(
    place: Place, timeline: Timeline, topic: str
) -> None:
    # One may be under way: the second comes when the first waits.
    first = Asking(place, topic, wait="20s", consumer="c0")
    wait_until(lambda: waiting(place) == 1)
    second = Asking(place, topic, wait="20s", consumer="c1")
    wait_until(lambda: waiting(place) == 2)
    assert httpx2.get(f"{place.url}/v1/topics").status_code == 200
    refused = lease(place, topic, wait="1s")
    assert (refused.status_code, refused.json()["type"]) == (503, "/problems/Overloaded")
    assert refused.headers["retry-after"] == "1"
    form = {"messages": [{"id": "m0"}, {"id": "m1"}]}
    httpx2.post(f"{place.url}/v1/topics/{topic}/messages", json=form).raise_for_status()
    assert sorted(first.ids() + second.ids()) == ["m0", "m1"]
    wait_until(lambda: waiting(place) == 0)
    assert timeline.count(topic).processing == 2


def test_a_request_that_does_not_wait_is_answered_at_once_and_one_that_waits_in_time(place: Place, topic: str) -> None:
    for form in ({}, {"wait": "0s"}, {"wait": "100ms"}):
        assert lease(place, topic, **form).json() == {"messages": []}


def test_a_wait_that_cannot_be_is_refused_by_name(place: Place, topic: str) -> None:
    for wait, problem in (("31s", "InvalidInput"), ("soon", "InvalidRules")):
        refused = lease(place, topic, wait=wait)
        assert (refused.status_code, refused.json()["type"]) == (400, f"/problems/{problem}")
    assert lease(place, topic, wait="10s", limit=0).status_code == 400
    assert lease(place, "nowhere", wait="10s").status_code == 404


def test_a_client_that_goes_while_it_waits_stops_waiting_and_nothing_is_leased_for_it(
    place: Place, timeline: Timeline, topic: str
) -> None:
    host, port = place.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as client:
        body = b'{"consumer":"gone","wait":"30s"}'
        head = f"POST /v1/topics/{topic}/messages/lease HTTP/1.1\r\nHost: {host}:{port}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        wait_until(lambda: waiting(place) == 1)
    wait_until(lambda: waiting(place) == 0)
    timeline.create(topic, [NewMessage(id="m")], producer_group="p")
    assert lease(place, topic, wait="5s").json()["messages"][0]["attempts"] == 1


def test_those_who_wait_are_let_go_when_the_service_ends() -> None:
    with open_store("memory://") as store:
        with placed(store) as place:
            assert place.service is not None
            place.service.parts.timeline.create_topic("jobs")
            asking = Asking(place, "jobs", wait="30s")
            wait_until(lambda: waiting(place) == 1)
        assert asking.ids() == []


def test_what_is_worked_on_and_what_waits_are_counted_apart() -> None:
    load = UnderWay(1, 1)
    with load.working():
        with pytest.raises(Overloaded, match="under way"), load.working():
            pass
        with load.resting():
            assert (load.requests, load.waiting) == (0, 1)
            with pytest.raises(Overloaded, match="wait"), load.attending():
                pass
        assert (load.requests, load.waiting) == (1, 0)
    assert load.requests == 0
