"""A read that leases once, whoever computes it and how often.

Spark computes a DataFrame anew for every action, and a task anew when it failed. Were each of these to lease, the rows
that a job has written and those that it calls done would not be the same. So a read has a name, and each of its parts
a note of who leased for it:

    is there a note? ──yes──► what the one it names still holds
          │ no
          ▼
    lease under a name of one's own ──► leave the note ──► there already ──► give it all back; what that one holds
                                             │ left
                                             ▼
                                       what was leased

The note is left when all is leased and before a row is handed out: so a later computation gives the same rows, or, when
leases have ended, fewer of them, and never one more. Notes are messages on a topic of their own, due when they can be
forgotten.
"""

import hashlib
import secrets
from datetime import timedelta
from typing import Final, NamedTuple

from batchline.core.message import Lease, LeasedMessage, NewMessage
from batchline.core.spot import SEGMENTS
from batchline.core.topic import Topic, span_ms
from batchline.errors import UnknownMessage, UnknownTopic
from batchline.runtime.timeline import Timeline

__all__ = ["FINISHED_AT_ONCE", "NOTES", "Part", "finish_part", "forget_parts", "lease_part", "parts_of", "tidy_notes"]

#: The topic of the notes, and who puts them there.
NOTES: Final = "batchline.spark.reads"
OWNER: Final = "batchline.spark"
REMEMBERED_MS: Final = span_ms(timedelta(days=7))
LEASED_AT_ONCE: Final = 2_000
FINISHED_AT_ONCE: Final = 5_000
TIDIED_AT_ONCE: Final = 1_000
#: A part leases no more when it has so many bytes: it holds them all.
MOST_BYTES: Final = 256 << 20


class Part(NamedTuple):
    """A part of a read: the messages of some buckets."""

    topic: str
    consumer: str
    #: The name of the read, and when it began.
    read: str
    born_ms: int
    #: Which part it is, and of how many.
    number: int
    parts: int
    buckets: range
    limit: int
    duration: timedelta | None

    @property
    def note_id(self) -> str:
        """The id of its note: as short as any, however long the names are."""
        names = "\n".join((self.topic, self.consumer, self.read, f"{self.number} of {self.parts}"))
        return hashlib.blake2b(names.encode(), digest_size=16).hexdigest()


class Note(NamedTuple):
    """Who leased for a part, and the moments at which the messages were due, by bundle and place."""

    holder: str
    due_ms: dict[tuple[int, int], int]


def parts_of(
    topic: Topic, consumer: str, read: str, born_ms: int, count: int, limit: int, duration: timedelta | None
) -> list[Part]:
    """The parts of a read: whole segments of the line each, so that no two tasks want the same rows of the store."""
    bounds = [-(-(SEGMENTS * number // count) * topic.buckets // SEGMENTS) for number in range(count + 1)]
    return [
        Part(topic.name, consumer, read, born_ms, number, count, range(*bounds[number : number + 2]), limit, duration)
        for number in range(count)
        if bounds[number] < bounds[number + 1]
    ]


def lease_part(timeline: Timeline, part: Part) -> list[LeasedMessage]:
    """The messages of a part: leased, the first time; what is still held of them, ever after."""
    note = _note_of(timeline, part)
    if note is None:
        if timeline.now_ms() - part.born_ms >= REMEMBERED_MS:
            return []  # a note may have been forgotten
        holder = f"{part.consumer[:200]}-{part.number}-{secrets.token_hex(8)}"
        leased = _lease(timeline, part, holder)
        if _leave_note(timeline, part, holder, leased):
            return leased
        _give_back(timeline, [message.lease for message in leased])
        note = _note_of(timeline, part)
    return [] if note is None else _held(timeline, part, note)


def finish_part(timeline: Timeline, part: Part) -> None:
    """Finish what a part still holds."""
    note = _note_of(timeline, part)
    leases = [] if note is None else [message.lease for message in _held(timeline, part, note)]
    for begin in range(0, len(leases), FINISHED_AT_ONCE):
        timeline.done(leases[begin : begin + FINISHED_AT_ONCE])


def forget_parts(timeline: Timeline, parts: list[Part]) -> None:
    """Let the notes of parts be removed: nobody will compute them again."""
    timeline.cancel(NOTES, [part.note_id for part in parts], producer_group=OWNER)


def tidy_notes(timeline: Timeline) -> None:
    """See that there is a topic for notes, and remove some of those whose time has come."""
    try:
        timeline.topic(NOTES)
    except UnknownTopic:
        timeline.create_topic(NOTES)
    old = timeline.lease(NOTES, OWNER, limit=TIDIED_AT_ONCE)
    timeline.done([message.lease for message in old])


def _lease(timeline: Timeline, part: Part, holder: str) -> list[LeasedMessage]:
    leased: list[LeasedMessage] = []
    size = 0
    while len(leased) < part.limit and size < MOST_BYTES:
        wanted = min(part.limit - len(leased), LEASED_AT_ONCE)
        found = timeline.lease(part.topic, holder, limit=wanted, duration=part.duration, buckets=part.buckets)
        leased += found
        size += sum(len(message.body) for message in found)
        if not found:
            break
    return leased


def _give_back(timeline: Timeline, leases: list[Lease]) -> None:
    for begin in range(0, len(leases), FINISHED_AT_ONCE):
        timeline.release(leases[begin : begin + FINISHED_AT_ONCE], reason="another task leased for this read")


def _held(timeline: Timeline, part: Part, note: Note) -> list[LeasedMessage]:
    """What a holder still has; the moments are those of the note, for a lease has moved the messages to its end."""
    held = timeline.my_leases(note.holder, topic=part.topic)
    places = (((message.lease.bundle, message.lease.place), message) for message in held)
    return [message._replace(at_ms=note.due_ms[place]) for place, message in places if place in note.due_ms]


# --- notes ------------------------------------------------------------------------------------------------------------


def _note_of(timeline: Timeline, part: Part) -> Note | None:
    import pyarrow as pa

    try:
        body = timeline.read(NOTES, part.note_id, producer_group=OWNER).body
    except UnknownMessage:
        return None
    with pa.ipc.open_stream(body) as stream:
        holder = stream.schema.metadata[b"holder"].decode()
        bundles, places, moments = (column.to_pylist() for column in stream.read_all().columns)
    return Note(holder, dict(zip(zip(bundles, places, strict=True), moments, strict=True)))


def _leave_note(timeline: Timeline, part: Part, holder: str, leased: list[LeasedMessage]) -> bool:
    """Leave the note; False if there is another's."""
    at_ms = timeline.now_ms() + REMEMBERED_MS
    note = NewMessage(_note_body(holder, leased), at_ms, part.note_id)
    (outcome,) = timeline.create(NOTES, [note], producer_group=OWNER)
    return outcome.ok


def _note_body(holder: str, leased: list[LeasedMessage]) -> bytes:
    import pyarrow as pa

    columns = {
        "bundle": pa.array((message.lease.bundle for message in leased), pa.int64()),
        "place": pa.array((message.lease.place for message in leased), pa.int8()),
        "due_ms": pa.array((message.at_ms for message in leased), pa.int64()),
    }
    batch: pa.RecordBatch = pa.record_batch(columns, metadata={"holder": holder})
    buffer = pa.BufferOutputStream()
    with pa.ipc.new_stream(buffer, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_batch(batch)
    body: bytes = buffer.getvalue().to_pybytes()
    return body
