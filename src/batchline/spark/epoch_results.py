"""What the epochs of a stream leave in a directory: batched, batches and rejected, each whole or not at all."""

import secrets
import shutil
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from batchline.spark.running import Counts, replace_directory, write_parts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["BATCHED", "EpochResults", "lines_by_epoch"]

BATCHED: Final = "batched"
RESULTS: Final = (BATCHED, "batches", "rejected")
#: Of an epoch that was cut short.
STAGING: Final = ".epoch-"


class EpochResults:
    """A directory with a directory `epoch=N` for each epoch below `batched`, `batches` and `rejected`."""

    def __init__(self, out: Path, columns: pa.Schema, always: Collection[str] = ()) -> None:
        """What a killed run has left half-written is removed. Some results are `always` there, if without rows."""
        self.out, self.columns, self.always = out, columns, always
        for left in out.glob(f"{STAGING}*"):
            shutil.rmtree(left)

    def write(self, rows: "DataFrame", epoch: int) -> Counts:
        """Write what an epoch hands out, whole, in the place of what it wrote before it was replayed."""
        staging = self.out / f"{STAGING}{epoch}-{secrets.token_hex(4)}"
        counts = write_parts(rows, self.columns, staging, RESULTS)
        batched = counts.verdicts["batched"]
        for name, there in zip(RESULTS, (batched, batched, counts.verdicts.total() - batched), strict=True):
            if there or name in self.always:
                (self.out / name).mkdir(parents=True, exist_ok=True)
                replace_directory(staging / name, self.of(name, epoch), staging / f"{name}-before")
        shutil.rmtree(staging)
        return counts

    def of(self, name: str, epoch: int) -> Path:
        """Where an epoch's results are, if it has any."""
        return self.out / name / f"epoch={epoch}"

    def forget(self, name: str, epochs: Iterable[int]) -> None:
        """Remove results of epochs that nobody needs any more."""
        for epoch in epochs:
            shutil.rmtree(self.of(name, epoch), ignore_errors=True)


def lines_by_epoch(directory: Path, epoch: int | None = None) -> dict[str, int]:
    """How many lines the epochs below a directory, or one of them, have in their files."""
    pattern = "epoch=*" if epoch is None else f"epoch={epoch}"
    return {found.name: _lines_in(found) for found in directory.glob(pattern)}


def _lines_in(directory: Path) -> int:
    return sum(file.read_bytes().count(b"\n") for file in directory.glob("[!.]*.json*"))
