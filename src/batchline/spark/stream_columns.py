"""The columns of a stream of files: those of the files that were there when it began, written down then."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from batchline.sources.files import files_of
from batchline.spark.epoch_files import Directory
from batchline.spark.landing import look_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["columns_of", "note_columns"]

COLUMNS: Final = "columns.arrow"


def columns_of(spark: "SparkSession", path: Path, names: Mapping[str, str], checkpoint: str) -> pa.Schema:
    """The columns of the files in a directory, or, of a stream that began before, those of then."""
    state = Directory(f"{Directory(checkpoint).uri}/batchline")
    if COLUMNS in state.names(""):
        return state.read_table(COLUMNS).schema
    return look_at(spark, files_of(path), names)


def note_columns(state: Directory, columns: pa.Schema) -> None:
    """Write the columns of a stream down, where its other settings are."""
    if COLUMNS not in state.names(""):
        state.write_table(COLUMNS, columns.empty_table())
