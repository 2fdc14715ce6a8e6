"""Dead letters back onto a topic, on any store: gone from the one and on the other in one transaction."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress

from batchline.core.consignment import Consignment, Content
from batchline.core.message import Lease
from batchline.stores.creating import Creation, create_under_free_ids
from batchline.stores.lane_rows import hold_lane
from batchline.stores.leasing import done_leases, is_active
from batchline.stores.posting import Posting, post_parcels
from batchline.stores.rows import Rows
from batchline.stores.topics import live_topic

__all__ = ["Parcels", "resend_messages", "resend_parcels"]


@dataclass(frozen=True, slots=True)
class Parcels:
    """Dead parcels of one lane, in order, and what tells when they have arrived."""

    fanout: str
    #: A name of its own: in it lanes are numbered from 1 on, so that workers take them as they take any other parcels.
    publication: str
    leases: Sequence[Lease]
    parcels: Sequence[Consignment]
    contents: Sequence[Content]


def resend_messages(rows: Rows, creation: Creation, leases: Sequence[Lease], numbers: Iterator[int]) -> list[bool]:
    """Put dead letters of one owner on a topic; tells of each whether its lease still held, and it is there."""
    topic, owner = live_topic(rows, creation.topic), rows.producer_group(creation.producer_group)
    held = [is_active(rows, lease, creation.now_ms) for lease in leases]
    messages = creation.messages._replace(turns=_turns(rows, leases))
    wanted = messages.chosen([place for place, is_held in enumerate(held) if is_held])
    done_leases(rows, list(compress(leases, held)), creation.now_ms, numbers)
    # They were allowed once: no limit for producers keeps them away.
    free = replace(topic, rate_limit=None)
    create_under_free_ids(rows, free, owner, replace(creation, messages=wanted), numbers)
    return held


def _turns(rows: Rows, leases: Sequence[Lease]) -> list[int]:
    """The priorities that messages have, by where they stand: an id may have been used again since."""
    turns = {spot.key: spot.turn for spot in rows.spots_of({lease.bundle for lease in leases})}
    return [turns.get((lease.bundle, lease.spot), 0) for lease in leases]


def resend_parcels(
    rows: Rows, topic: str, producer_group: str, resent: Parcels, now_us: int, numbers: Iterator[int]
) -> list[bool]:
    """Publish dead parcels anew, as the next of their lane; tells of each whether its lease still held, and it is."""
    held = [is_active(rows, lease, now_us // 1_000) for lease in resent.leases]
    number, lane = live_topic(rows, topic).number, resent.parcels[0].lane
    row = hold_lane(rows, number, resent.publication, lane)
    parcels = [
        parcel.altered(publication=resent.publication, number=row.published + place, item=None, reason="")
        for place, parcel in enumerate(compress(resent.parcels, held), 1)
    ]
    if parcels:
        contents = list(compress(resent.contents, held))
        at_ms = [now_us // 1_000] * len(parcels)
        post_parcels(rows, Posting(topic, producer_group, resent.fanout, parcels, at_ms, now_us, contents), numbers)
        done_leases(rows, list(compress(resent.leases, held)), now_us // 1_000, numbers)
    return held
