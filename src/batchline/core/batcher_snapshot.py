"""The batcher's state as plain data, and back."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from batchline.core.batch import Batch, CloseReason
from batchline.core.batch_rules import BatchRules
from batchline.core.measurement import Measurement
from batchline.core.open_batches import OpenBatch, OpenBatches, RuleNumbers
from batchline.errors import BatchlineError, InvalidSnapshot

__all__ = ["read", "take"]

VERSION = 1


def take(
    rules: BatchRules, clock_us: int, streams: Mapping[str, OpenBatches], closed: Iterable[Batch]
) -> dict[str, Any]:
    """All state as plain data; the same state gives the same data."""
    return {
        "version": VERSION,
        "rules": rules.as_data(),
        "clock_us": clock_us,
        "keys": [_stream_data(streams[key]) for key in sorted(streams)],
        "closed": [_closed_data(batch) for batch in closed],
    }


def read(
    data: dict[str, Any], rules: BatchRules, numbers: RuleNumbers, closed: list[Batch]
) -> tuple[int, list[OpenBatches]]:
    """The clock and every key's open batches; what had closed is put into `closed`, where later ones will go too."""
    try:
        _check_header(data, rules)
        streams = [_read_stream(row, numbers, closed) for row in data["keys"]]
        closed.extend(_read_closed(row, numbers) for row in data["closed"])
        return int(data["clock_us"]), streams
    except (KeyError, TypeError, ValueError, AttributeError, BatchlineError) as error:
        if isinstance(error, InvalidSnapshot):
            raise
        raise InvalidSnapshot(f"the snapshot is damaged: {type(error).__name__}: {error}") from error


def _check_header(data: dict[str, Any], rules: BatchRules) -> None:
    if not isinstance(data, dict):
        raise InvalidSnapshot(f"a snapshot is a dict, got {data!r} ({type(data).__name__})")
    if data["version"] != VERSION:
        raise InvalidSnapshot(f"expected a snapshot of version {VERSION}, got version {data['version']!r}")
    ours, theirs = rules.as_data(), data["rules"]
    other = [f"{name} {theirs.get(name)!r}, now {ours[name]!r}" for name in ours if theirs.get(name) != ours[name]]
    if other:
        raise InvalidSnapshot(f"the snapshot was taken under other rules: {'; '.join(other)}")


def _stream_data(stream: OpenBatches) -> dict[str, Any]:
    return {
        "key": stream.key,
        "clock_us": stream.clock_us,
        "used": sorted(stream.used.items()),
        "batches": [_open_data(batch) for batch in stream.batches],
    }


def _open_data(batch: OpenBatch) -> dict[str, Any]:
    return {
        "start_us": batch.start_us,
        "end_us": batch.end_us,
        "ordinal": batch.ordinal,
        "messages": [_message_data(message) for message in batch.members.values()],
    }


def _closed_data(batch: Batch) -> dict[str, Any]:
    return {
        "key": batch.key,
        "start_us": batch.start_us,
        "end_us": batch.end_us,
        "ordinal": batch.ordinal,
        "closed_at_us": batch.closed_at_us,
        "close_reason": batch.close_reason.value,
        "messages": [_message_data(message) for message in batch.messages],
    }


def _message_data(message: Measurement) -> list[Any]:
    return [message.type, message.event_us, message.receive_us, message.payload, message.size]


def _read_message(key: str, row: list[Any]) -> Measurement:
    kind, event_us, receive_us, payload, size = row
    return Measurement.from_us(key, kind, event_us, receive_us, payload, size)


def _read_closed(row: dict[str, Any], numbers: RuleNumbers) -> Batch:
    return Batch(
        key=row["key"],
        start_us=row["start_us"],
        end_us=row["end_us"],
        timeout_us=row["end_us"] + numbers.max_delay_us,
        closed_at_us=row["closed_at_us"],
        close_reason=CloseReason(row["close_reason"]),
        ordinal=row["ordinal"],
        messages=tuple(_read_message(row["key"], message) for message in row["messages"]),
    )


def _read_stream(row: dict[str, Any], numbers: RuleNumbers, closed: list[Batch]) -> OpenBatches:
    stream = OpenBatches(row["key"], numbers, closed)
    stream.clock_us = row["clock_us"]
    stream.used = dict(row["used"])
    stream.batches = [_read_open(stream.key, batch, numbers) for batch in row["batches"]]
    stream.starts = [batch.start_us for batch in stream.batches]
    if any(a.end_us > b.start_us for a, b in pairwise(stream.batches)):
        raise InvalidSnapshot(f"the snapshot is damaged: open batches of key {stream.key!r} overlap")
    stream.timeout_us = stream.batches[0].end_us + numbers.max_delay_us
    return stream


def _read_open(key: str, row: dict[str, Any], numbers: RuleNumbers) -> OpenBatch:
    batch = OpenBatch(row["start_us"], row["end_us"], row["ordinal"])
    if not 0 < batch.end_us - batch.start_us <= numbers.window_us:
        raise InvalidSnapshot(f"the snapshot is damaged: a window [{batch.start_us}, {batch.end_us}) of key {key!r}")
    for message in (_read_message(key, row) for row in row["messages"]):
        if message.type in batch.members or not batch.start_us <= message.event_us < batch.end_us:
            raise InvalidSnapshot(
                f"the snapshot is damaged: {message!r} cannot be in [{batch.start_us}, {batch.end_us})"
            )
        batch.put(message)
    return batch
