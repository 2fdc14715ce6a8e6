"""Stages 3 and 4 on a DataFrame of parcels: from the executors, in bulk, straight into the store.

    parcels ──► measurements as JSON, in Java ──► up to 64 of a lane, with their items, in one transaction each
                                                        └──► counts ──► the driver seals the fanout

What is published once is not published twice: each lane knows up to which number its parcels are on the timeline.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from batchline.core.consignment import Consignment
from batchline.core.message import NewMessage
from batchline.core.moment import moment_of, span_us
from batchline.core.name import check_name
from batchline.core.on_complete import OnComplete
from batchline.core.stray import OVERSIZE_GROUP
from batchline.core.topic import dead_letters_of
from batchline.errors import InvalidInput, InvalidTable, UnknownFanout, did_you_mean
from batchline.runtime.broker_clock import clock_on
from batchline.runtime.clock import now_us
from batchline.runtime.publisher import AT_ONCE, Publisher, make_topics
from batchline.runtime.timeline import Timeline
from batchline.runtime.tracker import Tracker
from batchline.spark.epoch_files import LAST_EPOCH, Directory, EpochFiles
from batchline.spark.frames import check_span, quoted
from batchline.spark.store_address import store_address
from batchline.stores import Store, open_store

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["Published", "Publishing", "publish_frame"]

#: What a task tells of what it did.
TOLD: Final = "parcels long, measurements long, repeated long, oversize long"
#: How moments stand in the JSON of measurements.
JSON_OPTIONS: Final = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timeZone": "UTC"}
PARCEL: Final = ("parcel_id", "parcel_number", "lane", "items", "first_time", "last_time", "measurements")
OVERSIZE: Final = "oversize: larger than max_bytes alone, so in no parcel"
FANOUTS: Final = "fanouts"
PUBLISHED: Final = "published"


class Published(NamedTuple):
    """What was published."""

    parcels: int = 0
    measurements: int = 0
    #: Parcels that an earlier attempt had published.
    repeated: int = 0
    #: Measurements that fit in no parcel: they are among the dead letters.
    oversize: int = 0

    def plus(self, other: "Published") -> "Published":
        """Both together."""
        return Published(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


class Opening(NamedTuple):
    """How fanouts are opened."""

    tolerate: int | None = 0
    labels: Mapping[str, str] | None = None
    on_complete: OnComplete | None = None

    def open(self, tracker: Tracker, fanout: str) -> None:
        """Open one, unless it is."""
        tracker.open(fanout, labels=self.labels, tolerate=self.tolerate, on_complete=self.on_complete)


class Due(NamedTuple):
    """When parcels are due: at the moment in a column, or at once; and so much later."""

    at: str | None = None
    delay_us: int = 0


def publish_frame(
    parcels: "DataFrame",
    store: Store | str,
    topic: str,
    fanout: str,
    due: Due,
    opening: Opening,
    fields: Mapping[str, str] | None,
) -> Published:
    """Publish the parcels of a batch DataFrame into one fanout; runs a job, and seals the fanout."""
    address = store_address(store)
    rows = _as_json(parcels, due, fields)
    with open_store(address) as opened:
        make_topics(Timeline(opened), topic)
        tracker = Tracker(opened)
        opening.open(tracker, fanout)
        published = _run(rows, PublishTask(address, topic, fanout, fanout, due.delay_us))
        tracker.seal(fanout)
    return published


class Publishing:
    """Publishes the parcels of a stream, epoch by epoch, into a fanout per epoch or per period.

    To be given to `follow` as `each`, or to `foreachBatch`. An epoch that is repeated publishes nothing twice.
    """

    def __init__(
        self,
        store: Store | str,
        topic: str,
        fanout: str,
        state: str,
        *,
        period: timedelta | None = None,
        due: Due | None = None,
        opening: Opening | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> None:
        """Publishes under the name `fanout`; which fanout an epoch belongs to is written down in `state`."""
        if period is not None:
            check_span("period", period)
            if period < timedelta(seconds=1):
                raise InvalidInput(f"period must be a second or longer, got {period!r}")
        self.address, self.topic = store_address(store), check_name("the name of a topic", topic)
        self.name = check_name("the name of a publication", fanout)
        self.period_us = None if period is None else span_us(period)
        self.due, self.opening, self.fields = due or Due(), opening or Opening(), fields
        self.state = Directory(state)
        #: All that was published since the stream began.
        self.published = self._published_before(LAST_EPOCH)
        with open_store(self.address) as opened:
            make_topics(Timeline(opened), topic)

    def __call__(self, parcels: "DataFrame", epoch: int) -> None:
        """Publish the parcels of an epoch."""
        before = self._noted(epoch - 1)
        fanout = self._fanout_of(epoch)
        if before is not None and before != fanout:
            self._seal(before)
        rows = _as_json(parcels, self.due, self.fields)
        task = PublishTask(self.address, self.topic, self.name, fanout, self.due.delay_us, self.opening)
        told = _run(rows, task)
        self.published = self._published_before(epoch).plus(told)
        EpochFiles(self.state, PUBLISHED, epoch).write({}, {"published": list(self.published)})
        if self.period_us is None:
            self._seal(fanout)

    def finish(self, epoch: int) -> None:
        """Seal what is open: the stream has ended with this epoch."""
        fanout = self._noted(epoch)
        if fanout is not None:
            self._seal(fanout)

    def _published_before(self, epoch: int) -> Published:
        return Published(*EpochFiles(self.state, PUBLISHED, epoch).notes.get("published", ()))

    def _fanout_of(self, epoch: int) -> str:
        """The fanout of an epoch, decided once: a period may be over by the time the epoch is repeated."""
        if self.period_us is None:
            return f"{self.name}/{epoch}"
        noted = self._noted(epoch)
        if noted is None:
            # The note stays when the clock is right again: it is not written by one that is off.
            with open_store(self.address) as store:
                begin_us = clock_on(store).checked_us() // self.period_us * self.period_us
            noted = f"{self.name}/{moment_of(begin_us):%Y-%m-%dT%H:%M:%SZ}"
            self.state.write_text(_note_of(epoch), json.dumps({"fanout": noted}))
            self.state.delete(_note_of(epoch - 3))
        return noted

    def _noted(self, epoch: int) -> str | None:
        text = None if self.period_us is None or epoch < 0 else self.state.read_text(_note_of(epoch))
        return None if text is None else str(json.loads(text)["fanout"])

    def _seal(self, fanout: str) -> None:
        """Seal a fanout, if there is one: it is opened with its first parcel."""
        with open_store(self.address) as store:
            try:
                Tracker(store).seal(fanout)
            except UnknownFanout:
                return


def _note_of(epoch: int) -> str:
    return f"{FANOUTS}/{epoch:06}.json"


def _as_json(parcels: "DataFrame", due: Due, fields: Mapping[str, str] | None) -> "DataFrame":
    """A row per parcel with its measurements as JSON, made by Java."""
    from pyspark.sql import functions as sf

    missing = [name for name in (*PARCEL, *([due.at] if due.at else [])) if name not in parcels.columns]
    if missing:
        raise InvalidTable(
            f"publish expects what pack_parcels gives; the DataFrame has no column {', '.join(missing)}"
            + did_you_mean(missing[0], parcels.columns)
        )
    at = sf.unix_micros(quoted(due.at)) if due.at else sf.lit(None).cast("long")
    measurements = sf.col("measurements") if fields is None else _only(fields)
    return parcels.select(
        "lane",
        "parcel_number",
        "parcel_id",
        "items",
        *(sf.unix_micros(name).alias(name) for name in ("first_time", "last_time")),
        at.alias("at_us"),
        sf.to_json(measurements, JSON_OPTIONS).alias("payload"),
    )


def _only(fields: Mapping[str, str]) -> "Column":
    """The measurements with these fields of theirs only, under these names."""
    from pyspark.sql import functions as sf

    def project(one: "Column") -> "Column":
        return sf.struct(*(one[theirs].alias(name) for name, theirs in fields.items()))

    return sf.transform("measurements", project)


def _run(rows: "DataFrame", task: "PublishTask") -> Published:
    told = Published()
    for row in rows.mapInArrow(task.__call__, TOLD).collect():
        told = told.plus(Published(*row))
    return told


class PublishTask(NamedTuple):
    """What runs in a worker: parcels in, counts out."""

    store: str
    topic: str
    publication: str
    fanout: str
    delay_us: int
    #: How the fanout is opened; None if it is open.
    opening: Opening | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Publish the parcels of a partition, a block of 64 numbers at a time; a task that is repeated skips them."""
        told, publisher = Published(), None
        with open_store(self.store, migrate=False) as store:
            for block in _blocks(batches):
                if not block.parcels:
                    self._bury(store, block)
                    told = told.plus(Published(oversize=len(block.oversize)))
                    continue
                if publisher is None:
                    publisher = self._publisher(store)
                new = publisher.post(self._consignments(block), self._moments(block))
                count, measurements = len(block.parcels), sum(row["items"] for row in block.parcels)
                told = told.plus(Published(count, measurements, 0 if new else count))
        yield pa.RecordBatch.from_pydict({name: [value] for name, value in told._asdict().items()})

    def _publisher(self, store: Store) -> Publisher:
        if self.opening is not None:
            self.opening.open(Tracker(store), self.fanout)
        return Publisher(store, self.topic, self.fanout)

    def _consignments(self, block: "_Block") -> list[Consignment]:
        return [
            Consignment(
                id=row["parcel_id"],
                publication=self.publication,
                lane=row["lane"],
                number=row["parcel_number"],
                item=None,
                count=row["items"],
                first_time=_iso(row["first_time"]),
                last_time=_iso(row["last_time"]),
                payload=row["payload"].encode(),
            )
            for row in block.parcels
        ]

    def _moments(self, block: "_Block") -> Sequence[int | None]:
        """When they are due: nothing is early, so up to the next whole millisecond."""
        if not self.delay_us and all(row["at_us"] is None for row in block.parcels):
            return [None] * len(block.parcels)
        from_us = now_us()
        moments = (from_us if row["at_us"] is None else row["at_us"] for row in block.parcels)
        return [max(-(-(moment + self.delay_us) // 1_000), 0) for moment in moments]

    def _bury(self, store: Store, block: "_Block") -> None:
        """Measurements that fit in no parcel are kept among the dead letters, by what they are."""
        dead = []
        for row in block.oversize:
            payload = row["payload"].encode()
            name = f"oversize-{hashlib.blake2b(payload, digest_size=12).hexdigest()}"
            times = _iso(row["first_time"]), _iso(row["last_time"])
            kept = Consignment(name, self.publication, row["lane"], 1, None, 1, *times, payload, OVERSIZE)
            dead.append(NewMessage(kept.as_body(), id=name))
        Timeline(store).create(dead_letters_of(self.topic), dead, producer_group=OVERSIZE_GROUP)


class _Block(NamedTuple):
    """Parcels of a lane that are published together; or measurements that are in none."""

    parcels: list[dict[str, Any]]
    oversize: list[dict[str, Any]]


def _blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[_Block]:
    """The rows of a partition in blocks: a parcel's number says to which it belongs, however the rows are cut."""
    held: list[dict[str, Any]] = []
    for batch in batches:
        for row in batch.to_pylist():
            if row["parcel_id"] is None:
                yield _Block([], [row])
                continue
            if held and _block_of(held[0]) != _block_of(row):
                yield _Block(held, [])
                held = []
            held.append(row)
    if held:
        yield _Block(held, [])


def _block_of(row: Mapping[str, Any]) -> tuple[int, int]:
    return row["lane"], (row["parcel_number"] - 1) // AT_ONCE


def _iso(us: int) -> str:
    return moment_of(us).isoformat()
