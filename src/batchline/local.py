"""Stage 1 on files in the memory of one process.

    files ──► read ──► receive order ──► batcher ──► batched, rejected, malformed

Every line that is not blank ends in exactly one of the three.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from batchline.columnar import assign_batches
from batchline.columnar.assign import ADDED
from batchline.columnar.batches import batches_of, counts_of
from batchline.columnar.order import in_receive_order
from batchline.core.batch_rules import BatchRules
from batchline.core.watch import Watch, unwatched
from batchline.sinks.files import remove_file, write_table, write_text
from batchline.sources.files import MALFORMED, Reading, files_of, read_measurements
from batchline.sources.files.room import check_room, free_bytes

__all__ = ["Batched", "batch_reading", "batch_table", "read_files", "write_batched"]

#: How many times the memory of a table batching it takes.
TIMES: Final = 3.0


@dataclass(frozen=True, slots=True)
class Batched:
    """What became of everything that was read."""

    rules: BatchRules
    #: Every measurement with its verdict, in receive order.
    assigned: pa.Table
    #: A row per batch.
    batches: pa.Table
    #: The lines that are no measurements: file, line, reason, text.
    malformed: pa.Table

    @property
    def accepted(self) -> pa.Table:
        """The measurements that are in a batch."""
        return self.assigned.filter(pc.equal(self.assigned.column("verdict"), "batched"))

    @property
    def rejected(self) -> pa.Table:
        """The measurements that are in none, with the reason as their verdict."""
        rejected = self.assigned.filter(pc.not_equal(self.assigned.column("verdict"), "batched"))
        return rejected.drop_columns([name for name in ADDED if name != "verdict"])

    def summary(self) -> dict[str, Any]:
        """The figures of the run, as plain data."""
        verdicts = counts_of(self.assigned.column("verdict"))
        batched = verdicts.pop("batched", 0)
        rejected = verdicts | ({"malformed": self.malformed.num_rows} if self.malformed.num_rows else {})
        return {
            "read": self.assigned.num_rows + self.malformed.num_rows,
            "batched": batched,
            "rejected": rejected,
            "batches": self.batches.num_rows,
            "closed": counts_of(self.batches.column("close_reason")),
            "keys": pc.count_distinct(self.assigned.column("key")).as_py(),
            "types": pc.count_distinct(self.assigned.column("type")).as_py(),
            "rules": self.rules.as_data(),
        }


def read_files(path: Path, names: Mapping[str, str], watch: Watch = unwatched) -> Reading:
    """Read the measurements of a file or directory, and the lines that are none.

    Raises InvalidFile, before it reads them, if Parquet files would take more memory than is free.
    """
    files = files_of(path)
    check_room(files, TIMES, free_bytes())
    total = sum(file.stat().st_size for file in files)
    done = 0

    def on_bytes(count: int) -> None:
        nonlocal done
        done += count
        watch("reading", done, total)

    return read_measurements(files, names, on_bytes)


def batch_reading(reading: Reading, rules: BatchRules, order: Sequence[str] = (), watch: Watch = unwatched) -> Batched:
    """Measurements, in any order, through the batcher."""
    watch("ordering", 0, 1)
    ordered = in_receive_order(reading.table, order)
    watch("ordering", 1, 1)
    watch("batching", 0, 1)
    assigned = assign_batches(ordered, rules)
    batches = batches_of(assigned)
    watch("batching", 1, 1)
    return Batched(rules, assigned, batches, reading.malformed)


def batch_table(table: pa.Table, rules: BatchRules) -> Batched:
    """A table of measurements through the batcher."""
    return batch_reading(Reading(table, MALFORMED.empty_table()), rules)


def write_batched(batched: Batched, summary: Mapping[str, Any], directory: Path, watch: Watch = unwatched) -> None:
    """Write the results into a directory; its summary is removed first and written last: where it is, all is."""
    remove_file(directory / "summary.json")
    tables = {
        "batched.parquet": batched.accepted,
        "batches.parquet": batched.batches,
        "rejected.parquet": batched.rejected,
        "malformed.jsonl": batched.malformed,
    }
    for done, (name, table) in enumerate(tables.items()):
        watch("writing", done, len(tables))
        write_table(table, directory / name)
    write_text(json.dumps(summary, indent=2), directory / "summary.json")
    watch("writing", len(tables), len(tables))
