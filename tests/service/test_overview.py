"""`/v1/overview` and `/v1/caller`, and how often the store is read for them."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import msgspec
import pytest

from batchline.core.message import NewMessage
from batchline.runtime.glance import Glance
from batchline.runtime.timeline import Timeline
from batchline.runtime.tokens import Tokens
from batchline.runtime.tracker import Tracker
from batchline.service.service import Service
from batchline.stores.opening import open_store
from batchline.stores.store import Store
from tests.doubles import HandClock


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("memory://") as store:
        store.migrate()
        timeline = Timeline(store)
        for name in ("orders", "secret"):
            timeline.create_topic(name)
            timeline.create(name, [NewMessage(b"x", timeline.now_ms() - 1_000, "m")], producer_group="sales")
        Tracker(store).open("f", labels={"producer_group": "sales"})
        yield store


def get(store: Store, path: str, token: str | None = None) -> tuple[int, Any]:
    """The status and the answer of one request."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(event: Any) -> None:
        sent.append(event)

    headers = [(b"host", b"localhost")] + ([(b"authorization", f"Bearer {token}".encode())] if token else [])
    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}
    with closing(Service(store)) as service:
        asyncio.run(service.app(scope | {"headers": headers}, receive, send))
    return sent[0]["status"], msgspec.json.decode(sent[1]["body"])


def test_a_token_sees_its_own_topics_and_fanouts(store: Store) -> None:
    tokens = Tokens(store)
    _, owner = tokens.create(producer_group="sales", topics=["orders"])
    _, worker = tokens.create(consumers=["w*"], topics=["*"])
    _, admin = tokens.create(admin=True)
    seen = {}
    for name, text in (("owner", owner), ("worker", worker), ("admin", admin)):
        _, overview = get(store, "/v1/overview", text)
        seen[name] = ([one["name"] for one in overview["topics"]], overview["fanouts"]["open"])
    assert seen == {"owner": (["orders"], 1), "worker": (["orders", "secret"], 0), "admin": (["orders", "secret"], 1)}


def test_who_asks_is_told_what_it_may_do(store: Store) -> None:
    assert get(store, "/v1/caller")[1] == {
        "open": True,
        "admin": True,
        "name": "",
        "producer_group": "local",
        "topics": ["*"],
        "consumers": ["*"],
    }
    _, text = Tokens(store).create("desk", producer_group="sales", topics=["o*"])
    assert get(store, "/v1/caller", text)[1] == {
        "open": False,
        "admin": False,
        "name": "desk",
        "producer_group": "sales",
        "topics": ["o*"],
        "consumers": [],
    }


def test_an_admin_reads_every_message_and_others_their_own(store: Store) -> None:
    path = "/v1/topics/orders/messages/m"
    assert get(store, path)[1]["producer_group"] == "sales"
    tokens = Tokens(store)
    _, admin = tokens.create(admin=True)
    _, other = tokens.create(producer_group="others", topics=["*"])
    assert [get(store, path, text)[0] for text in (admin, other)] == [200, 403]


def test_the_store_is_read_once_a_second_however_many_ask(store: Store) -> None:
    clock = HandClock()
    glance = Glance(store, clock)
    first = glance.facts()
    clock.us += 999_999
    assert glance.facts() is first
    assert glance.made("a", lambda facts: [facts]) is glance.made("a", lambda facts: [facts])
    assert glance.made("b", lambda facts: facts.now_ms) == first.now_ms
    clock.us += 1
    second = glance.facts()
    assert second is not first
    assert glance.made("a", lambda facts: facts) is second
    clock.us -= 5_000_000  # a clock that was put back
    assert glance.facts() is not second
