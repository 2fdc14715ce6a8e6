"""What the tests of publishing and of delivery share: a publication of one test's own, and parcels for it."""

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from batchline import LeasedMessage, Store, Timeline, Tracker
from batchline.core.consignment import Consignment, read_consignment
from batchline.core.message import Outcome
from batchline.core.topic import dead_letters_of
from batchline.runtime.deliveries import Deliveries
from batchline.runtime.publisher import Publisher, make_topics
from batchline.stores.delivering import Delivery
from batchline.stores.lane_rows import LaneRow
from tests.doubles import HandClock, new_id

__all__ = ["Publication", "parcel_of", "parcels_of"]

MINUTE = timedelta(minutes=1)


def parcel_of(publication: str, lane: int, number: int, measurements: int = 2, **changes: Any) -> Consignment:
    """A parcel whose measurements say where they belong."""
    values = [{"lane": lane, "number": number, "place": place} for place in range(measurements)]
    usual: dict[str, Any] = {
        "id": f"{publication}-{lane}-{number}",
        "publication": publication,
        "lane": lane,
        "number": number,
        "item": None,
        "count": measurements,
        "first_time": "2026-11-15T12:00:00Z",
        "last_time": "2026-11-15T12:00:01Z",
        "payload": json.dumps(values, separators=(",", ":")).encode(),
    }
    return Consignment(**(usual | changes))


def parcels_of(publication: str, lane: int, first: int, last: int, **changes: Any) -> list[Consignment]:
    """Parcels from one number to another."""
    return [parcel_of(publication, lane, number, **changes) for number in range(first, last + 1)]


@dataclass
class Publication:
    """A topic, a fanout and a publication, and short words for long calls."""

    store: Store
    clock: HandClock
    topic: str = field(default_factory=new_id)
    name: str = "import"
    tolerate: int | None = 0

    def __post_init__(self) -> None:
        self.timeline = Timeline(self.store, clock=self.clock)
        self.tracker = Tracker(self.store, clock=self.clock)
        make_topics(self.timeline, self.topic)
        self.fanout = self.tracker.open(tolerate=self.tolerate).id
        self.publisher = Publisher(self.store, self.topic, self.fanout, clock=self.clock)
        self.deliveries = self.courier()

    def courier(self, store: Store | None = None) -> Deliveries:
        """Deliveries of a process of its own."""
        return Deliveries(store or self.store, self.timeline, self.topic)

    def parcels(self, lane: int, first: int, last: int, **changes: Any) -> list[Consignment]:
        return parcels_of(self.name, lane, first, last, **changes)

    def post(self, lane: int, first: int, last: int, **changes: Any) -> bool:
        return self.publisher.post(self.parcels(lane, first, last, **changes))

    def lease(self, consumer: str = "w", topic: str = "", **options: Any) -> list[LeasedMessage]:
        return self.timeline.lease(topic or self.topic, consumer, limit=500, duration=MINUTE, **options)

    def taken(self, consumer: str = "w", **options: Any) -> list[Delivery]:
        """What is due, leased, as if all of it had arrived."""
        return [Delivery(message, read_consignment(message.body)) for message in self.lease(consumer, **options)]

    def settle(self, *deliveries: Delivery) -> list[str]:
        return words(self.deliveries.settle(deliveries))

    def lanes(self) -> dict[int, tuple[int, int]]:
        """By lane, how far it is published and delivered."""

        def look(rows: Any) -> list[LaneRow]:
            found: list[LaneRow] = rows.lanes(rows.topic(self.topic).number, self.name)
            return found

        return {row.lane: (row.published, row.delivered) for row in self.store.read(look)}

    def dead(self) -> dict[str, Consignment]:
        """The dead letters, by the ids of their messages; they stay."""
        found = self.lease("undertaker", dead_letters_of(self.topic))
        self.timeline.release([message.lease for message in found])
        return {message.id: read_consignment(message.body) for message in found}

    def counts(self) -> tuple[int, int, int, int]:
        """Items in all, pending and failed; and messages on the timeline."""
        status = self.tracker.status(self.fanout)
        return status.total, status.pending, status.failed, self.timeline.count(self.topic).total


def words(outcomes: list[Outcome]) -> list[str]:
    return [one.outcome for one in outcomes]
