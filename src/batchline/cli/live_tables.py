"""The tables of `batchline serve --demo`: as a stream leaves them, but only of the last minutes."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from batchline.columnar.columns import MOMENT
from batchline.core.batch import Batch, Verdict
from batchline.sinks.files import write_table

__all__ = ["LiveTables"]

#: A file is written anew for so long, and so many are kept.
SPAN_US: Final = 30_000_000
KEPT: Final = 20
TEXT: Final = pa.string()
SCHEMAS: Final = {
    "batches": pa.schema(
        {
            "batch_id": TEXT,
            "key": TEXT,
            "batch_start": MOMENT,
            "batch_end": MOMENT,
            "closed_at": MOMENT,
            "close_reason": TEXT,
            "messages": pa.int64(),
        }
    ),
    "batched": pa.schema(
        {"batch_id": TEXT, "key": TEXT, "type": TEXT, "event_time": MOMENT, "receive_time": MOMENT},
    ),
    "rejected": pa.schema(
        {"key": TEXT, "type": TEXT, "event_time": MOMENT, "receive_time": MOMENT, "verdict": TEXT},
    ),
}


class LiveTables:
    """Tables that grow, and forget."""

    def __init__(self, out: Path):
        self._out = out
        self._place = -1
        self._rows: dict[str, list[dict[str, Any]]] = {}

    def write(
        self, closed: Sequence[Batch], rejected: Sequence[tuple[dict[str, Any], Verdict]], moment_us: int
    ) -> None:
        """Add what an epoch has led to."""
        if moment_us // SPAN_US != self._place:
            self._place, self._rows = moment_us // SPAN_US, {name: [] for name in SCHEMAS}
            for name in SCHEMAS:
                shutil.rmtree(self._file(name, self._place - KEPT).parent, ignore_errors=True)
        self._rows["batches"] += [_batch(batch) for batch in closed]
        self._rows["batched"] += [_member(batch, one) for batch in closed for one in batch.messages]
        self._rows["rejected"] += [row | {"verdict": verdict.value} for row, verdict in rejected]
        for name, rows in self._rows.items():
            write_table(pa.Table.from_pylist(rows, SCHEMAS[name]), self._file(name, self._place))

    def _file(self, name: str, place: int) -> Path:
        return self._out / name / f"epoch={place}" / "rows.parquet"


def _batch(batch: Batch) -> dict[str, Any]:
    return {
        "batch_id": batch.id,
        "key": batch.key,
        "batch_start": batch.start_us,
        "batch_end": batch.end_us,
        "closed_at": batch.closed_at_us,
        "close_reason": batch.close_reason.value,
        "messages": len(batch.messages),
    }


def _member(batch: Batch, one: Any) -> dict[str, Any]:
    return {
        "batch_id": batch.id,
        "key": one.key,
        "type": one.type,
        "event_time": one.event_us,
        "receive_time": one.receive_us,
    }
