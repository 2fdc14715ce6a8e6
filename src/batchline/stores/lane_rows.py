"""What publishing and delivery ask of a store: how far the lanes of a publication have come."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from batchline.core.signature import LaneProof, new_secret

__all__ = ["LaneRow", "LaneRows", "hold_lane"]


class LaneRow(NamedTuple):
    """A lane: its parcels up to which number are on the timeline, and up to which have arrived."""

    lane: int
    published: int = 0
    delivered: int = 0
    #: By which its parcels are signed; None if nothing was published since parcels are signed.
    secret: str | None = None
    #: Parcels up to this number were published before, and are not signed.
    unsigned_to: int = 0

    @property
    def proof(self) -> LaneProof:
        """What proves that publishing created a parcel of it."""
        return LaneProof(self.secret, self.unsigned_to)


class LaneRows(Protocol):
    """The table of lanes, within one transaction. What is "held" is locked, in order, until the transaction ends."""

    def insert_lanes(self, topic: int, publication: str, lanes: Sequence[int]) -> None:
        """New lanes, of which nothing is published; those that are there stay as they are."""

    def hold_lanes(self, topic: int, publication: str, lanes: Sequence[int]) -> list[LaneRow]:
        """Those of these lanes that are there."""

    def lanes(self, topic: int, publication: str) -> list[LaneRow]:
        """All lanes of a publication."""

    def write_lanes(self, topic: int, publication: str, rows: Sequence[LaneRow]) -> None:
        """Write lanes that are held: how far they have come, and their secrets."""

    def delete_lanes(self, topic: int) -> None:
        """Forget all lanes of a topic."""


def hold_lane(rows: LaneRows, topic: int, publication: str, lane: int) -> LaneRow:
    """Hold a lane to publish in it. It is made if it is not there, and has a secret from then on."""
    rows.insert_lanes(topic, publication, [lane])
    (found,) = rows.hold_lanes(topic, publication, [lane])
    return found if found.secret is not None else found._replace(secret=new_secret())
