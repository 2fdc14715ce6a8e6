"""Parcels onto the timeline, on any store: with their items of the tracker, all in one transaction, once."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from batchline.core.consignment import Consignment, Content, message_id
from batchline.core.item_group import item_groups
from batchline.core.message import CheckedMessages
from batchline.errors import InvalidTable, RefusedMessage
from batchline.stores.creating import Creation, create_under_free_ids
from batchline.stores.lane_rows import LaneRow, hold_lane
from batchline.stores.rows import Rows
from batchline.stores.topics import live_topic
from batchline.stores.tracking import add_items, one_fanout, touch_fanout

__all__ = ["Posting", "post_parcels"]


@dataclass(frozen=True, slots=True)
class Posting:
    """Some parcels of a lane, in order of their numbers without a gap, and where they go."""

    topic: str
    producer_group: str
    fanout: str
    parcels: Sequence[Consignment]
    #: When they are due, in milliseconds, by parcel.
    at_ms: Sequence[int]
    now_us: int
    #: Their measurements, made before the transaction: nobody waits in it for gzip.
    contents: Sequence[Content]

    @property
    def publication(self) -> str:
        """Under which name they are published."""
        return self.parcels[0].publication

    @property
    def lane(self) -> int:
        """Their lane."""
        return self.parcels[0].lane

    @property
    def add_id(self) -> str:
        """What tells these parcels from others that might have been published under their numbers."""
        check = 0
        for parcel in self.parcels:
            check = zlib.crc32(parcel.payload, zlib.crc32(parcel.id.encode(), check))
        return f"{self.publication_hash:08x}/{self.lane}/{self.parcels[0].number}-{self.parcels[-1].number}/{check:08x}"

    @property
    def publication_hash(self) -> int:
        """Short for the publication, whose name may be as long as the id may be."""
        return zlib.crc32(f"{self.topic}\n{self.publication}".encode())


def post_parcels(rows: Rows, posting: Posting, numbers: Iterator[int]) -> bool:
    """Put parcels on the timeline, unless that was done before; tells whether it did.

    Raises InvalidTable if their numbers do not follow those before, or if others were published under them.
    """
    topic = live_topic(rows, posting.topic)
    lane = hold_lane(rows, topic.number, posting.publication, posting.lane)
    if not _follow_on(rows, posting, lane):
        touch_fanout(rows, one_fanout(rows, posting.fanout).number, posting.now_us)
        return False
    added = add_items(rows, posting.fanout, len(posting.parcels), posting.add_id, posting.now_us)
    groups = item_groups(posting.fanout, added.number, added.salt, added.count)
    items = [item for group in groups for item in group.items()]
    parcels = [parcel.altered(item=item) for parcel, item in zip(posting.parcels, items, strict=True)]
    ids = [message_id(posting.publication, posting.lane, parcel.number) for parcel in parcels]
    signed = zip(parcels, posting.contents, strict=True)
    bodies = [parcel.as_body(content, lane.secret) for parcel, content in signed]
    checked = CheckedMessages(ids, list(posting.at_ms), bodies, [0] * len(ids))
    creation = Creation(posting.topic, posting.producer_group, checked, posting.now_us)
    # A stray may have the id of a parcel to come: parcels are known by their signatures.
    outcomes = create_under_free_ids(rows, topic, rows.producer_group(posting.producer_group), creation, numbers)
    for outcome in outcomes:
        if outcome.outcome != "created":
            raise RefusedMessage(
                f"topic {posting.topic!r} does not take parcel {outcome.id}: {outcome.outcome} {outcome.reason}"
            )
    rows.write_lanes(topic.number, posting.publication, [lane._replace(published=parcels[-1].number)])
    return True


def _follow_on(rows: Rows, posting: Posting, lane: LaneRow) -> bool:
    """Whether the parcels are the next of their lane; not if they were published before."""
    first, last = posting.parcels[0].number, posting.parcels[-1].number
    if first == lane.published + 1:
        return True
    where = f"lane {posting.lane} of publication {posting.publication!r}"
    if last > lane.published:
        raise InvalidTable(
            f"parcels {first} to {last} of {where} do not follow those before, which end with {lane.published}: all "
            "parcels of a lane must be published, in order, under one name"
        )
    if rows.add_by_id(one_fanout(rows, posting.fanout).number, posting.add_id) is None:
        raise InvalidTable(
            f"other parcels were published as {first} to {last} of {where}: what is published anew needs another name"
        )
    return False
