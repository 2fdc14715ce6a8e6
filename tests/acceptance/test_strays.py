"""Parcels that another producer forges over HTTP: they count nowhere, and the true ones arrive."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from batchline import Store, Timeline, Tracker, open_store
from batchline.core.consignment import Consignment
from batchline.runtime.deliveries import Deliveries
from batchline.runtime.publisher import Publisher, make_topics
from batchline.runtime.tokens import Tokens
from batchline.runtime.worker import Worker
from batchline.sinks.sink import Sink
from tests.contract.parcels.posting import parcel_of, parcels_of
from tests.service.serving import serving

LANES, PARCELS = 2, 5
#: Due long before everything else, so that it is leased first.
LONG_AGO = "2000-01-01T00:00:00Z"


class Noting(Sink):
    """Takes everything, and notes it."""

    def __init__(self) -> None:
        self.sent: list[Consignment] = []

    async def send(self, parcels: Sequence[Consignment]) -> None:
        """Note parcels."""
        self.sent += parcels

    def numbers(self, lane: int) -> list[int]:
        """The numbers of a lane's parcels, as they were sent."""
        return [one.number for one in self.sent if one.lane == lane]


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    kind = request.param
    url = f"sqlite:///{tmp_path}/b.db" if kind == "sqlite" else request.getfixturevalue(f"{kind}_database")
    with open_store(url) as opened:
        yield opened


def publish(store: Store) -> Tracker:
    """Put a few parcels in each lane, of the fanout `import`."""
    make_topics(Timeline(store), "parcels")
    tracker = Tracker(store)
    tracker.open("import")
    for lane in range(LANES):
        Publisher(store, "parcels", "import").post(parcels_of("import", lane, 1, PARCELS))
    tracker.seal("import")
    return tracker


def forgeries(items: Sequence[str], more: int = 0) -> list[dict[str, Any]]:
    """Messages that name each lane and number that is published, and `more` behind these; with items of the fanout."""
    numbers = range(1, PARCELS + 1 + more)
    places = [(lane, number) for lane in range(LANES) for number in numbers]
    padded = [*items, *[None] * (len(places) - len(items))]
    parcels = [
        parcel_of("import", *place, item=item, payload=b"[]") for place, item in zip(places, padded, strict=True)
    ]
    return [{"body": one.as_body().decode(), "at": LONG_AGO} for one in parcels]


def ask(url: str, token: str, messages: Sequence[dict[str, Any]], topic: str = "parcels") -> httpx2.Response:
    """Create messages over HTTP."""
    headers = {"authorization": f"Bearer {token}"}
    return httpx2.post(f"{url}/v1/topics/{topic}/messages", json={"messages": messages}, headers=headers, timeout=60)


def deliver(store: Store) -> tuple[Worker, Noting]:
    """Let a worker deliver what is on the topic."""
    sink = Noting()
    worker = Worker(store, "parcels", sink, worker="w", in_hand=LANES)

    async def work() -> None:
        running = asyncio.ensure_future(worker.run())
        while Timeline(store).count("parcels").total and not running.done():
            await asyncio.wait([running], timeout=0.02)
        worker.stop()
        await running

    asyncio.run(asyncio.wait_for(work(), 120))
    return worker, sink


def check_arrived(store: Store, worker: Worker, sink: Noting, tracker: Tracker) -> None:
    """The true parcels have arrived, in order, and the fanout was completed once."""
    assert [sink.numbers(lane) for lane in range(LANES)] == [list(range(1, PARCELS + 1))] * LANES
    assert all(one.payload != b"[]" for one in sink.sent)
    status = tracker.status("import")
    assert (status.state, status.acked, status.pending) == ("complete", LANES * PARCELS, 0)
    assert [(one.fanout, one.state) for one in worker.endings] == [("import", "complete")]
    reached = Deliveries(store, Timeline(store), "parcels").reached(["import"])
    assert reached == {("import", lane): PARCELS for lane in range(LANES)}


@pytest.mark.parametrize("group", ["vandals", "parcels"])
def test_parcels_that_another_producer_forges_count_nowhere(store: Store, group: str) -> None:
    tracker = publish(store)
    forged = forgeries(tracker.pending_items("import"), more=2)
    token = Tokens(store).create(producer_group=group, topics=["parcels"])[1]
    with serving(store) as url:
        ask(url, token, forged).raise_for_status()
    worker, sink = deliver(store)
    check_arrived(store, worker, sink, tracker)
    assert worker.parcels == {"delivered": LANES * PARCELS, "strays": len(forged)}
    timeline = Timeline(store)
    letters = timeline.lease("parcels-dead", "u", limit=100)
    assert sorted(one.body.decode() for one in letters) == sorted(one["body"] for one in forged)
    for letter in letters:
        (attempt,) = timeline.read("parcels-dead", letter.id, producer_group="strays").history
        assert "does not have the signature of that lane" in attempt.reason


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_thousand_strays_do_not_stop_delivery(store: Store) -> None:
    tracker, token = publish(store), Tokens(store).create(producer_group="vandals", topics=["parcels"])[1]
    strays = [{"body": "x", "at": LONG_AGO}] * 400 + forgeries((), more=300 - PARCELS)
    with serving(store) as url:
        ask(url, token, strays).raise_for_status()
    worker, sink = deliver(store)
    check_arrived(store, worker, sink, tracker)
    assert worker.parcels["strays"] == len(strays) == 1_000
    assert Timeline(store).count("parcels-dead").total == 1_000


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_token_whose_patterns_only_match_an_internal_topic_creates_nothing_there(store: Store) -> None:
    tracker, tokens = publish(store), Tokens(store)
    _, wide = tokens.create(producer_group="vandals", consumers=["*"], topics=["*", "parcels*"])
    with serving(store) as url:
        for topic in ("parcels", "parcels-dead"):
            answer = ask(url, wide, forgeries(()), topic)
            assert answer.status_code == 403
            assert f"topic '{topic}' is internal" in answer.json()["detail"]
    worker, sink = deliver(store)
    check_arrived(store, worker, sink, tracker)
    assert worker.parcels == {"delivered": LANES * PARCELS}
