"""Streams for Spark: many keys at once, each with a history of its own, and every way to batch them."""

from __future__ import annotations

import os
import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pa_parquet

from batchline import BatchRules, EventTimeBatcher, Measurement
from batchline.columnar.assign import ADDED
from batchline.core.moment import moment_of
from tests.columnar.test_agreement import table_of
from tests.core.streams import BASE_US, us

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

#: A bit of everything: each anchor, both splits, with and without a limit of bytes.
RULES = [
    BatchRules(us(500), us(400), us(400)),
    BatchRules(us(300), us(900), us(100), 25, "lookback"),
    BatchRules(us(700), us(200), us(200), 40, "event", "midpoint"),
    BatchRules(us(400), us(600), us(0), None, "aligned"),
]


def stream(seed: int, rows: int, keys: int) -> list[Measurement]:
    """Messages in receive order, many of them at the same time; payload is their number, which is their order."""
    draw, receive_us, messages = random.Random(seed), BASE_US, []
    for number in range(rows):
        receive_us += draw.choice((0, 0, draw.randrange(60)))
        event_us = receive_us - draw.randrange(-150, 1200)
        key, kind = f"ключ-{draw.randrange(keys)}", f"type-{draw.randrange(6)}"
        messages.append(Measurement.from_us(key, kind, event_us, receive_us, number, draw.randrange(20)))
    return messages


def arriving(messages: Sequence[Measurement], seed: int, skew_us: int) -> list[Measurement]:
    """The messages as they come: out of receive order by no more than the skew."""
    draw = random.Random(seed)
    late = {message.payload: draw.randrange(skew_us + 1) for message in messages}
    return sorted(messages, key=lambda message: message.receive_us + late[message.payload])


def end_of(messages: Sequence[Measurement]) -> datetime:
    return moment_of(max(message.receive_us for message in messages))


def by_library(rules: BatchRules, messages: Sequence[Measurement]) -> list[tuple[Any, ...]]:
    """A row per message, by its number, as every way must answer."""
    batcher = EventTimeBatcher(rules)
    verdicts = {message.payload: batcher.add(message).value for message in messages}
    batcher.advance(end_of(messages))
    batcher.flush()
    batch_of = {m.payload: batch for batch in batcher.closed() for m in batch.messages}
    rows = []
    for message in sorted(messages, key=lambda one: one.payload):
        batch = batch_of.get(message.payload)
        where = (batch.id, batch.start, batch.end, batch.closed_at, batch.close_reason.value) if batch else (None,) * 5
        rows.append((message.payload, verdicts[message.payload], *where))
    return rows


def shown(table: pa.Table) -> list[tuple[Any, ...]]:
    """The same of a table."""
    names = ("number", *ADDED)
    return list(zip(*(table.sort_by("number").column(name).to_pylist() for name in names), strict=True))


def cuts_of(seed: int, count: int, pieces: int) -> list[int]:
    draw = random.Random(seed)
    return [0, *sorted(draw.randrange(count) for _ in range(pieces - 1)), count]


def land(messages: Sequence[Measurement], cuts: Sequence[int], directory: Path) -> None:
    """The messages as files, in the order of their names; a file per piece."""
    directory.mkdir()
    for number, (begin, end) in enumerate(pairwise(cuts)):
        file = directory / f"{number:04}.parquet"
        pa_parquet.write_table(table_of(list(messages[begin:end])), file)
        # Spark takes files in the order of their ages, and tells ages apart by milliseconds.
        os.utime(file, (number, number))


def landing(spark: SparkSession, directory: Path) -> DataFrame:
    """The files of a directory as a stream, one by one."""
    schema = spark.createDataFrame(table_of([])).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(directory))
