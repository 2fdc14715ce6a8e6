"""What a worker holds of parcels that are small on the way and large when they are expanded."""

from pathlib import Path
from typing import Final

import pytest

from batchline import Timeline, Tracker, open_store
from batchline.core.consignment import LARGEST_PAYLOAD, Consignment, read_consignment
from batchline.core.topic import dead_letters_of
from batchline.errors import InvalidMessage
from batchline.runtime import publisher
from batchline.runtime.publisher import Publisher, make_topics
from batchline.runtime.sending import EXPANDED_BYTES
from tests.memory import MIB, measured

TOPIC: Final = "parcels"
#: Delivers what is on the topic, into a sink that looks at each parcel's measurements.
WORKER: Final = """
import asyncio
from batchline import open_store
from batchline.runtime.worker import Worker
from batchline.sinks.sink import Sink

class Looking(Sink):
    most = 1
    def send(self, parcels):
        assert all(parcel.payload.endswith(b"]") for parcel in parcels)

async def deliver(store, wanted):
    worker = Worker(store, "parcels", Looking(), concurrency=8)
    running = asyncio.ensure_future(worker.run())
    async with asyncio.timeout(100):
        while sum(worker.parcels.values()) < wanted:
            await asyncio.sleep(0.05)
    worker.stop()
    await running
    return dict(worker.parcels)

with open_store(sys.argv[1]) as store:
    begin()
    end(asyncio.run(deliver(store, int(sys.argv[2]))))
"""


def parcel_of(lane: int, size: int) -> Consignment:
    """A parcel whose measurements are mostly blanks."""
    moment = "2026-11-15T12:00:00Z"
    return Consignment(f"p-{lane}", "import", lane, 1, f"item-{lane}", 0, moment, moment, b"[" + b" " * size + b"]")


def publish(address: str, sizes: list[int]) -> None:
    """Publish parcels of these sizes, each on a lane of its own."""
    with open_store(address) as store:
        make_topics(Timeline(store), TOPIC)
        fanout = Tracker(store).open("import").id
        for lane, size in enumerate(sizes):
            Publisher(store, TOPIC, fanout).post([parcel_of(lane, size)])


def dead_letters(address: str) -> list[Consignment]:
    with open_store(address) as store:
        found = Timeline(store).lease(dead_letters_of(TOPIC), "test", limit=100)
        return [read_consignment(message.body) for message in found]


def test_a_worker_expands_no_more_than_it_sends_and_buries_what_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """400 MiB of measurements in 8 parcels of under 400 KiB: it holds those that it sends."""
    address = f"sqlite:///{tmp_path}/parcels.db"
    monkeypatch.setattr(publisher, "check_size", lambda *_: None)
    publish(address, [80 * MIB] * 2 + [40 * MIB] * 6)
    monkeypatch.undo()
    worker = measured(WORKER, [address, 8])
    assert worker.told == {"refused": 2, "delivered": 6}
    assert worker.grown < EXPANDED_BYTES + 100 * MIB
    dead = dead_letters(address)
    assert sorted(one.lane for one in dead) == [0, 1]
    assert all("83,886,082 bytes" in one.reason and f"{LARGEST_PAYLOAD:,}" in one.reason for one in dead)


def test_what_a_worker_would_refuse_is_not_published(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/parcels.db"
    with pytest.raises(InvalidMessage, match=r"'p-0' expands to 67,108,866 bytes.*smaller max_items or max_bytes"):
        publish(address, [LARGEST_PAYLOAD])
    with open_store(address) as store:
        assert Timeline(store).count(TOPIC).waiting == 0
