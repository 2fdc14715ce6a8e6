"""Both forms of the batcher give the same answer to every input."""

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from batchline import BatchRules, EventTimeBatcher, Measurement
from batchline.columnar import assign_batches
from tests.core.streams import BASE_US, batch_rules, streams, us

MOMENT = pa.timestamp("us", "UTC")


def table_of(messages: list[Measurement]) -> pa.Table:
    columns = {
        "key": pa.array([m.key for m in messages], pa.string()),
        "type": pa.array([m.type for m in messages], pa.string()),
        "event_time": pa.array([m.event_us for m in messages], pa.int64()).cast(MOMENT),
        "receive_time": pa.array([m.receive_us for m in messages], pa.int64()).cast(MOMENT),
        "size": pa.array([m.size for m in messages], pa.int64()),
        "number": pa.array([m.payload for m in messages], pa.int64()),
    }
    return pa.table(columns)


def by_library(rules: BatchRules, messages: list[Measurement]) -> list[tuple[Any, ...]]:
    """A row per message, as the columnar form would answer."""
    batcher = EventTimeBatcher(rules)
    verdicts = [batcher.add(m).value for m in messages]
    batcher.flush()
    batch_of = {m.payload: batch for batch in batcher.closed() for m in batch.messages}
    rows = []
    for message, verdict in zip(messages, verdicts, strict=True):
        batch = batch_of.get(message.payload)
        where = (batch.id, batch.start, batch.end, batch.closed_at, batch.close_reason.value) if batch else (None,) * 5
        rows.append((verdict, *where))
    return rows


def by_columns(rules: BatchRules, messages: list[Measurement]) -> list[tuple[Any, ...]]:
    answer = assign_batches(table_of(messages), rules)
    names = ("verdict", "batch_id", "batch_start", "batch_end", "closed_at", "close_reason")
    return list(zip(*(answer.column(name).to_pylist() for name in names), strict=True))


@given(batch_rules(), streams(keys="ABCDE"))
def test_both_forms_agree_on_generated_streams_of_many_keys(rules: BatchRules, messages: list[Measurement]) -> None:
    assert by_columns(rules, messages) == by_library(rules, messages)


def long_stream(seed: int, rows: int, keys: int, types: int, spread_us: int, step_us: int) -> list[Measurement]:
    """Long enough that the kernel's tables are renewed and grow, which short streams never reach."""
    draw, receive_us, messages = random.Random(seed), BASE_US, []
    for number in range(rows):
        receive_us += draw.randrange(step_us)
        event_us = receive_us - draw.randrange(spread_us) + spread_us // 8
        key, kind = f"key-{draw.randrange(keys)}", f"type-{draw.randrange(types)}"
        messages.append(Measurement.from_us(key, kind, event_us, receive_us, number, draw.randrange(20)))
    return messages


@pytest.mark.parametrize("max_bytes", [None, 25, 400])
@pytest.mark.parametrize(
    ("anchor", "split"),
    [("arrival", "later"), ("lookback", "later"), ("event", "later"), ("event", "midpoint"), ("aligned", "later")],
)
@pytest.mark.parametrize(
    ("keys", "types", "window_us", "delay_us"),
    [(1, 3_000, 5_000, 2_000), (1, 12, 300, 20_000), (50, 40, 800, 700), (1, 4, 7, 3_000)],
)
def test_both_forms_agree_on_long_streams(
    keys: int, types: int, window_us: int, delay_us: int, anchor: str, split: str, max_bytes: int | None
) -> None:
    rules = BatchRules(us(window_us), us(delay_us), us(delay_us // 4), max_bytes, anchor, split)
    messages = long_stream(window_us, 6_000, keys, types, delay_us * 2, 12)
    assert by_columns(rules, messages) == by_library(rules, messages)
