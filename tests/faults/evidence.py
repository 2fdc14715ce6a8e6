"""What is there after a run: read from the device's log, the landing, the driver's results, the receiver, the store."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pa_parquet

from batchline.core.consignment import Consignment, read_consignment
from batchline.core.message import Message
from batchline.core.stray import DEAD_PARCELS
from batchline.core.topic import dead_letters_of
from batchline.runtime.timeline import Timeline
from batchline.runtime.tracker import Tracker
from batchline.stores import Store
from tests.faults.pipeline import COMPLETED, NAME, TOPIC
from tests.faults.recovery import Stall
from tests.faults.strays import STRAYS, mark_of, stray_in
from tests.sinks.arrivals import Arrival

__all__ = [
    "Evidence",
    "ParcelPlace",
    "Row",
    "dead_letters",
    "landed_rows",
    "left_in",
    "malformed_numbers",
    "read_log",
    "rejected_rows",
]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the landing, wherever it is found again."""

    #: By which it is known: the landing counts all rows.
    sequence: int
    #: The measurement it tells of: key, type and event time.
    id: tuple[str, str, str]
    #: The device's number of it.
    number: int
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class ParcelPlace:
    """Where a parcel stands."""

    lane: int
    number: int


@dataclass(slots=True)
class Evidence:
    """All that a run has left."""

    #: What the device has sent, and what was acknowledged, line by line.
    device: list[list[Any]] = field(default_factory=list)
    landed: list[Row] = field(default_factory=list)
    #: The numbers of messages that were no measurements.
    malformed: list[int] = field(default_factory=list)
    rejected: list[Row] = field(default_factory=list)
    arrived: list[Row] = field(default_factory=list)
    dead: list[Row] = field(default_factory=list)
    #: In the order in which each arrived first.
    parcels: list[ParcelPlace] = field(default_factory=list)
    dead_parcels: list[ParcelPlace] = field(default_factory=list)
    #: Fanouts and their states; and whose completion was told.
    fanouts: dict[str, str] = field(default_factory=dict)
    completed: list[str] = field(default_factory=list)
    #: What is left that should be gone, by what it is.
    left: dict[str, int] = field(default_factory=dict)
    #: What the driver says that it has read, batched and rejected.
    counted: dict[str, int] = field(default_factory=dict)
    refused_on_purpose: bool = False
    #: Parcels of a stranger, by their marks: those that were put on the topic, that arrived, that are dead letters as
    #: strays, and that are dead letters as if they were parcels.
    strays: list[str] = field(default_factory=list)
    arrived_strays: list[str] = field(default_factory=list)
    dead_strays: list[str] = field(default_factory=list)
    mistaken_strays: list[str] = field(default_factory=list)
    #: What processes with a wrong clock have harmed.
    harm: list[str] = field(default_factory=list)
    #: Times without progress, and how long each may be.
    stalls: list[Stall] = field(default_factory=list)

    def add_arrivals(self, arrivals: Iterable[Arrival]) -> None:
        """What the receiver has."""
        for one in arrivals:
            if mark := mark_of(one.measurements):
                self.arrived_strays.append(mark)
                continue
            self.arrived += [_row(measurement) for measurement in one.measurements]
            assert one.lane is not None
            assert one.number is not None
            self.parcels.append(ParcelPlace(one.lane, one.number))

    def add_dead(self, parcels: Iterable[Consignment]) -> None:
        """What is among the dead letters."""
        for one in parcels:
            if mark := mark_of(one.measurements):
                self.mistaken_strays.append(mark)
                continue
            self.dead += [_row(measurement) for measurement in one.measurements]
            self.dead_parcels.append(ParcelPlace(one.lane, one.number))

    def add_store(self, store: Store) -> None:
        """What the store says."""
        self.add_dead(dead_letters(store))
        letters = _messages(store, STRAYS, dead_letters_of(TOPIC))
        self.dead_strays = [mark for message in letters if (mark := stray_in(message.body))]
        self.fanouts = {
            one.id: one.state for one in Tracker(store).list(labels={"pipeline": NAME}, limit=1_000).fanouts
        }
        self.completed = [message.id for message in _messages(store, "tracker", COMPLETED)]
        self.left |= left_in(store)

    def add_summary(self, summary: Mapping[str, Any]) -> None:
        """What the driver has said in the end."""
        self.counted = {"read": summary["read"], "batched": summary["batched"]} | summary["rejected"]


def read_log(path: Path) -> list[list[Any]]:
    """The device's log."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def landed_rows(landing: Path) -> list[Row]:
    """The rows that have landed."""
    return [_row(line) for file in landing.glob("*.jsonl") for line in _lines(file)]


def malformed_numbers(landing: Path) -> list[int]:
    """The numbers of the messages that were no measurements."""
    lines = (line for file in (landing / "malformed").glob("*.jsonl") for line in _lines(file))
    return [json.loads(line["text"])["number"] for line in lines]


def rejected_rows(out: Path) -> list[Row]:
    """The rows that the driver has refused."""
    tables = (pa_parquet.ParquetFile(file).read() for file in out.glob("rejected/epoch=*/*.parquet"))
    return [_row(line) for table in tables for line in table.to_pylist()]


def dead_letters(store: Store) -> list[Consignment]:
    """The parcels that nobody took."""
    return [read_consignment(message.body) for message in _messages(store, DEAD_PARCELS, dead_letters_of(TOPIC))]


def left_in(store: Store) -> dict[str, int]:
    """What is left in the store that should be gone."""
    counts = Timeline(store).count(TOPIC)
    fanouts = Tracker(store).list(labels={"pipeline": NAME}, limit=1_000).fanouts
    return {
        "parcels on the timeline": counts.total,
        "parcels under a lease": counts.processing,
        "pending items": sum(one.pending for one in fanouts),
        "fanouts that are not complete": sum(one.state != "complete" for one in fanouts),
    }


def _messages(store: Store, producer_group: str, topic: str) -> Iterator[Message]:
    """All messages of a producer group on a topic."""
    timeline, after = Timeline(store), None
    while True:
        page = timeline.my_messages(producer_group, after=after)
        yield from (message for message in page.messages if message.topic == topic)
        after = page.next
        if after is None:
            return


def _lines(file: Path) -> Iterator[Any]:
    with file.open() as lines:
        yield from map(json.loads, lines)


def _row(line: Mapping[str, Any]) -> Row:
    time = line["event_time"]
    at = (datetime.fromisoformat(time) if isinstance(time, str) else time).isoformat()
    return Row(line["sequence"], (line["key"], line["type"], at), round(line["value"]), line.get("verdict", ""))
