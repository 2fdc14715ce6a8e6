"""Parcels as records of a Kafka topic, in the order they come; Kafka is where they go, or the road to others.

A parcel that is sent again is in the topic again: its records have the same headers `parcel` (and `place`), by which
whoever reads them knows what has come before.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from batchline.core.consignment import Consignment
from batchline.core.kafka_address import kafka_address
from batchline.core.moment import check_span
from batchline.errors import (
    DeliveryError,
    InvalidInput,
    MissingExtra,
    RefusedParcel,
    Throttled,
    Undelivered,
    check_choice,
    shown,
)
from batchline.sinks.sink import Answer, Sink

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer

__all__ = ["KafkaSink"]

EACH: Final = ("parcel", "measurement")
TOGETHER, SINGLY = "together", "singly"
#: What is not to be set otherwise: order, and nothing lost.
FIXED: Final = {"enable.idempotence": True, "acks": "all"}
#: By the names that Kafka gives them: records that it will never take.
REFUSED: Final = (
    "MSG_SIZE_TOO_LARGE",
    "RECORD_LIST_TOO_LARGE",
    "INVALID_MSG",
    "INVALID_RECORD",
    "TOPIC_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "TOPIC_EXCEPTION",
)
THROTTLED: Final = ("_QUEUE_FULL", "THROTTLING_QUOTA_EXCEEDED")
#: How long one waits for room or for reports before one looks again, for others see them too; and how often for room.
LOOK_S: Final = 0.05
LOOKS: Final = 20
HALF_A_MINUTE: Final = timedelta(seconds=30)
log = logging.getLogger(__name__)


class Record(NamedTuple):
    """What Kafka is given."""

    key: bytes
    value: bytes
    headers: list[tuple[str, str | bytes | None]]


class KafkaSink(Sink):
    """One record for each parcel, keyed `publication/lane`, or with `each="measurement"` for each measurement of it.

    What Kafka has not confirmed within `timeout` was not delivered, as far as one knows, and is sent again.
    """

    most = 100

    def __init__(
        self,
        address: str,
        *,
        each: str = "parcel",
        key: str = "key",
        timeout: timedelta = HALF_A_MINUTE,
        settings: Mapping[str, Any] | None = None,
    ):
        check_choice("each", each, EACH, InvalidInput)
        check_span("timeout", timeout, 1_000)
        servers, self.topic = kafka_address(address)
        self._records = _whole if each == "parcel" else _singly(key)
        together = _settings(servers, timeout, settings or {})
        #: Kafka refuses a whole batch of records for the sake of one: what was refused is sent once more, each alone.
        self._settings = {TOGETHER: together, SINGLY: together | {"batch.num.messages": 1}}
        self._producers = {TOGETHER: _producer(together)}

    def send(self, parcels: Sequence[Consignment]) -> Answer:
        """Append the parcels' records, and wait until Kafka has confirmed them, or has not."""
        sendings = self._sent(parcels, TOGETHER)
        doubtful = [sending for sending in sendings if sending.is_doubtful]
        if doubtful:
            clear = [sending for sending in sendings if not sending.is_doubtful]
            sendings = [*clear, *self._sent([sending.parcel for sending in doubtful], SINGLY)]
        return _answer(sendings)

    async def close(self) -> None:
        """Wait for what is under way."""
        for producer in self._producers.values():
            await asyncio.to_thread(producer.flush)

    def _sent(self, parcels: Sequence[Consignment], way: str) -> "list[_Sending]":
        producer = self._producers.get(way) or self._producers.setdefault(way, _producer(self._settings[way]))
        sendings = [_Sending(parcel) for parcel in parcels]
        for sending in sendings:
            self._hand_over(producer, sending)
        while any(sending.is_pending for sending in sendings):
            producer.poll(LOOK_S)
        if any(sending.is_fatal for sending in sendings):
            # It does nothing any more; the next time there is a new one.
            self._producers.pop(way, None)
        return sendings

    def _hand_over(self, producer: "Producer", sending: "_Sending") -> None:
        try:
            for record in self._records(sending.parcel):
                self._produce(producer, record, sending.reports.append)
                sending.handed_over += 1
        except (DeliveryError, Throttled) as error:
            sending.refusal = error

    def _produce(self, producer: "Producer", record: Record, report: Callable[["KafkaError | None"], None]) -> None:
        from confluent_kafka import KafkaException

        for _ in range(LOOKS):
            try:
                producer.produce(
                    self.topic,
                    record.value,
                    record.key,
                    headers=record.headers,
                    on_delivery=lambda error, _record: report(error),
                )
            except BufferError:
                producer.poll(LOOK_S)
            except KafkaException as error:
                raise _translated(error.args[0]) from error
            else:
                return
        raise Throttled("the producer's queue stays full: Kafka does not take records as fast as they come")


class _Sending:
    """A parcel under way. Reports come in any thread that looks for them: they are only ever appended."""

    def __init__(self, parcel: Consignment):
        self.parcel = parcel
        self.handed_over = 0
        self.reports: list[KafkaError | None] = []
        #: Why no more of its records were handed over.
        self.refusal: DeliveryError | Throttled | None = None

    @property
    def is_pending(self) -> bool:
        return len(self.reports) < self.handed_over

    @property
    def is_fatal(self) -> bool:
        return any(error is not None and error.fatal() for error in self.reports)

    @property
    def is_doubtful(self) -> bool:
        """Whether Kafka has refused it, or another that was in a batch with it."""
        return any(error is not None and error.name() in REFUSED for error in self.reports)

    @property
    def failure(self) -> DeliveryError | Throttled | None:
        """What became of it as a whole: it was refused, or one of its records did not arrive."""
        errors = [_translated(error) for error in self.reports if error is not None]
        # A refusal is for ever, whatever happened to the other records.
        found = [*([self.refusal] if self.refusal else []), *errors]
        return next((error for error in found if isinstance(error, RefusedParcel)), found[0] if found else None)


def _answer(sendings: Sequence[_Sending]) -> Answer:
    failures = {sending.parcel.id: sending.failure for sending in sendings}
    for failure in failures.values():
        if isinstance(failure, Throttled):
            raise failure
    return {id: failure for id, failure in failures.items() if isinstance(failure, DeliveryError)}


def _translated(error: "KafkaError") -> DeliveryError | Throttled:
    said = f"Kafka: {error.str()} ({error.name()})"
    if error.name() in REFUSED:
        return RefusedParcel(said)
    if error.name() in THROTTLED:
        return Throttled(said)
    return Undelivered(said)


def _whole(parcel: Consignment) -> list[Record]:
    return [Record(f"{parcel.publication}/{parcel.lane}".encode(), parcel.as_json(), _headers(parcel))]


def _singly(key: str) -> Callable[[Consignment], list[Record]]:
    def records(parcel: Consignment) -> list[Record]:
        return [_record(parcel, place, one, key) for place, one in enumerate(parcel.measurements)]

    return records


def _record(parcel: Consignment, place: int, measurement: Mapping[str, Any], key: str) -> Record:
    if not isinstance(measurement.get(key), str):
        raise RefusedParcel(
            f"measurement {place} of the parcel has no text {key!r} to be its key: {shown(measurement)}"
        )
    value = json.dumps(measurement, separators=(",", ":"), ensure_ascii=False).encode()
    return Record(measurement[key].encode(), value, [*_headers(parcel), ("place", b"%d" % place)])


def _headers(parcel: Consignment) -> list[tuple[str, str | bytes | None]]:
    return [("parcel", parcel.id.encode()), ("number", b"%d" % parcel.number)]


def _settings(servers: str, timeout: timedelta, given: Mapping[str, Any]) -> dict[str, Any]:
    ours = {"bootstrap.servers": servers, "message.timeout.ms": timeout // timedelta(milliseconds=1), **FIXED}
    for name, value in given.items():
        if name in ours and value != ours[name]:
            raise InvalidInput(f"the setting {name} is {ours[name]!r} in a Kafka sink, got {shown(value)}")
    # The same partition for a key as Java's clients choose.
    return {"partitioner": "murmur2_random", **given, **ours}


def _producer(settings: Mapping[str, Any]) -> "Producer":
    try:
        from confluent_kafka import KafkaException, Producer
    except ModuleNotFoundError as error:
        raise MissingExtra("a Kafka sink needs confluent-kafka: pip install 'batchline[kafka]'") from error
    try:
        return Producer(dict(settings), logger=log)
    except (KafkaException, ValueError, TypeError) as error:
        raise InvalidInput(f"the settings of a Kafka sink: {error}") from error
