"""What workers put on the timeline, on any store: dead letters, what is left of parcels, and strays."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from batchline.core.message import CheckedMessages, Lease, Outcome, made_place
from batchline.core.name import reason_text
from batchline.core.topic import Topic, dead_letters_of
from batchline.stores.creating import Creation, create_under_free_ids
from batchline.stores.leasing import done_leases
from batchline.stores.rows import Rows
from batchline.stores.timeline_rows import TriedSpot
from batchline.stores.topics import known_topic

__all__ = ["Stray", "bury_strays", "dead_letter_id", "dead_letter_topic", "put_letters"]

#: How far in the future what is left of a parcel may stand, whatever its topic allows.
LONGEST_PAUSE: Final = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Stray:
    """A message on a topic of parcels that publishing did not create."""

    lease: Lease
    body: bytes
    attempts: int
    reason: str


def dead_letter_id(id: str) -> str:
    """The id of a dead letter: that of its message, unless it was made, which none can be given."""
    return id if made_place(id) is None else f"dead{id}"


def dead_letter_topic(rows: Rows, topic: Topic) -> Topic:
    """Return the topic for dead letters of a topic of parcels. It is made if it is not there."""
    name = dead_letters_of(topic.name)
    if rows.topic(name) is None:
        rows.insert_topic(Topic(name, buckets=topic.buckets, internal=True))
    return known_topic(rows, name)


def put_letters(
    rows: Rows,
    topic: Topic,
    producer_group: str,
    letters: Sequence[tuple[str, bytes]],
    at_ms: int,
    now_us: int,
    numbers: Iterator[int],
) -> list[Outcome]:
    """Put letters, each an id and a body, on a topic. One whose id another has, of this call too, gets another id."""
    ids, bodies = [id for id, _ in letters], [body for _, body in letters]
    checked = CheckedMessages(ids, [at_ms] * len(ids), bodies, [0] * len(ids))
    creation = Creation(topic.name, producer_group, checked, now_us)
    # Neither a limit for producers nor how far ahead they may look keeps it away.
    free = replace(topic, rate_limit=None, max_ahead=max(topic.max_ahead, LONGEST_PAUSE))
    owner = rows.producer_group(producer_group)
    return create_under_free_ids(rows, free, owner, creation, numbers)


def bury_strays(
    rows: Rows, topic: str, producer_group: str, strays: Sequence[Stray], now_us: int, numbers: Iterator[int]
) -> list[Outcome]:
    """Move strays to the dead letters as they are, each with its reason in its history."""
    known, now_ms = known_topic(rows, topic), now_us // 1_000
    outcomes = done_leases(rows, [one.lease for one in strays], now_ms, numbers)
    held = [stray for stray, one in zip(strays, outcomes, strict=True) if one.ok]
    if held:
        dead = dead_letter_topic(rows, known)
        letters = [(dead_letter_id(stray.lease.id), stray.body) for stray in held]
        put = put_letters(rows, dead, producer_group, letters, now_ms, now_us, numbers)
        new = {one.id: stray for one, stray in zip(put, held, strict=True) if one.outcome == "created"}
        _note_reasons(rows, dead, new, now_ms, numbers)
    return outcomes


def _note_reasons(rows: Rows, dead: Topic, strays: Mapping[str, Stray], now_ms: int, numbers: Iterator[int]) -> None:
    places = {id: place for id in strays if (place := made_place(id)) is not None}
    places |= rows.message_ids(dead.number, [id for id in strays if id not in places])
    rows.insert_attempts(
        [
            TriedSpot(
                bundle=bundle,
                number=next(numbers),
                bits=1 << place,
                version=0,
                attempt=stray.attempts,
                ended_ms=now_ms,
                consumer=stray.lease.consumer,
                ending="released",
                reason=reason_text(stray.reason),
            )
            for id, stray in strays.items()
            for bundle, place in [places[id]]
        ]
    )
