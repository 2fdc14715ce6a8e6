"""Publishes parcels: puts them on the timeline, together with the items that track them, once, lane by lane."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Final

from batchline.core.consignment import Consignment, Content, check_head, check_size, message_id
from batchline.core.message import LARGEST_BODY
from batchline.core.name import check_name
from batchline.core.topic import dead_letters_of
from batchline.errors import InvalidMessage, InvalidTable, StoreUnavailable, UnknownTopic
from batchline.runtime.broker_clock import clock_on
from batchline.runtime.clock import now_us
from batchline.runtime.timeline import Timeline
from batchline.stores.creating import NumbersTaken
from batchline.stores.fresh_numbers import fresh_number
from batchline.stores.posting import Posting, post_parcels
from batchline.stores.rows import Rows
from batchline.stores.store import Store

__all__ = ["AT_ONCE", "Publisher", "make_topic", "make_topics"]

#: Parcels that one transaction takes on: as many as a group has items.
AT_ONCE: Final = 64
TRIES: Final = 100
PRODUCER_GROUP: Final = "parcels"
#: What the line about a parcel may need of a body, beside its measurements.
LONGEST_HEAD: Final = 4_096
#: What the message for the rest of a parcel adds to its id.
ROOM_FOR_RESTS: Final = "~000000"


class Publisher:
    """A publication on a topic. Any number of processes publish its lanes, each of them one lane at a time."""

    def __init__(
        self,
        store: Store,
        topic: str,
        fanout: str,
        *,
        producer_group: str = PRODUCER_GROUP,
        clock: Callable[[], int] = now_us,
    ):
        """Publishes to a topic that is there, into a fanout that is open."""
        self._store = store
        self._topic = check_name("the name of a topic", topic)
        self._fanout = check_name("the id of a fanout", fanout)
        self._producer_group = check_name("the producer group", producer_group)
        self._clock = clock_on(store, clock)

    def post(self, parcels: Sequence[Consignment], at_ms: Sequence[int | None] | None = None) -> bool:
        """Publish up to 64 parcels of one lane, in order; tells whether they were not published before.

        They are due at their moments, or at once. Either all of them are published, with their items, or none.
        """
        _check_parcels(parcels, at_ms)
        contents = [parcel.content() for parcel in parcels]
        _check_sizes(parcels, contents)
        moment_us = self._clock.checked_us()
        moments = [moment_us // 1_000 if at is None else at for at in at_ms or [None] * len(parcels)]
        posting = Posting(self._topic, self._producer_group, self._fanout, parcels, moments, moment_us, contents)
        for _ in range(TRIES):
            first = fresh_number(moment_us // 1_000, 4 * len(parcels))

            def post(rows: Rows, first: int = first) -> bool:
                return post_parcels(rows, posting, count(first))

            try:
                return self._store.transact(post)
            except NumbersTaken:
                continue
        raise StoreUnavailable(f"no free numbers were found in {TRIES} tries")


def make_topics(timeline: Timeline, topic: str) -> None:
    """Make the topic of parcels and that of its dead letters, where they are not there. Both become internal."""
    for name in (topic, dead_letters_of(topic)):
        make_topic(timeline, name, internal=True)


def make_topic(timeline: Timeline, name: str, *, internal: bool = False) -> None:
    """Make a topic, where it is not there; one that is there becomes internal, if it is to be."""
    try:
        found = timeline.topic(name)
    except UnknownTopic:
        timeline.create_topic(name, internal=internal)
    else:
        if internal and not (found.internal or found.deleted):
            timeline.update_topic(name, internal=True)


def _check_parcels(parcels: Sequence[Consignment], at_ms: Sequence[int | None] | None) -> None:
    """They are of one lane, none is missing between them, and each can be read again."""
    if not 1 <= len(parcels) <= AT_ONCE or len(at_ms or parcels) != len(parcels):
        moments = f"{len(at_ms):,}" if at_ms else "no"
        raise InvalidTable(f"expected 1 to {AT_ONCE} parcels, each with a moment, got {len(parcels):,} and {moments}")
    first = parcels[0]
    for place, parcel in enumerate(parcels):
        check_head(parcel.head())
        id = message_id(parcel.publication, parcel.lane, parcel.number)
        check_name("the id of a parcel's message", f"{id}{ROOM_FOR_RESTS}")
        if (parcel.publication, parcel.lane, parcel.number) != (first.publication, first.lane, first.number + place):
            raise InvalidTable(
                f"expected the parcels of one lane, in order, got number {parcel.number} of lane {parcel.lane} of "
                f"{parcel.publication!r} {place} after number {first.number} of lane {first.lane}"
            )


def _check_sizes(parcels: Sequence[Consignment], contents: Sequence[Content]) -> None:
    """A parcel that no message can hold is refused before anything is written."""
    for parcel, content in zip(parcels, contents, strict=True):
        check_size(parcel.id, content)
        if len(content.payload) > LARGEST_BODY - LONGEST_HEAD:
            raise InvalidMessage(
                f"parcel {parcel.id!r} has {parcel.count:,} measurements of {len(content.payload):,} bytes, gzipped; "
                f"a message holds {LARGEST_BODY:,}: pack with a smaller max_items or max_bytes"
            )
