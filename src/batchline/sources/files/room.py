"""Whether files fit into memory as tables: a Parquet file of a few megabytes may hold gigabytes of repeated values.

This is known before they are read: repetitions are counted, and not made, or few at once.
"""

import resource
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pa_parquet

from batchline.errors import InvalidFile

__all__ = ["check_malformed", "check_room", "free_bytes", "table_bytes"]

#: The part of the free memory that may be used.
PART: Final = 0.75
#: Values that are counted at once.
AT_ONCE: Final = 1 << 18
#: As many, where counting makes repetitions.
FEW_AT_ONCE: Final = 1 << 10
#: Bytes of a text, or a list, beside what is in it: where it begins.
OFFSET: Final = 4
#: Bytes of a value, by how the file has it.
WIDTHS: Final = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4}
#: Encodings by which a file holds a text once, and rows repeat it; or its beginning, and then repetitions are made.
PREFIXES: Final = "DELTA_BYTE_ARRAY"
REPEATING: Final = {"PLAIN_DICTIONARY", "RLE_DICTIONARY", PREFIXES}
#: Bytes of memory beside a table, by row, while it is sorted and batched.
BESIDE: Final = 100
#: Where the kernel says how much memory a group of processes may have, and has, files it has read included; and how
#: much is of these, which it gives back: of its versions 2 and 1.
GROUPS: Final = (
    ("/sys/fs/cgroup", "memory.max", "memory.current", ("active_file", "inactive_file")),
    (
        "/sys/fs/cgroup/memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_active_file", "total_inactive_file"),
    ),
)


def check_room(files: Sequence[Path], times: float, free: int | None) -> None:
    """Raise InvalidFile if files take more than most of the `free` memory: `times` as much as their tables."""
    if free is None:
        return
    free, needed = int(PART * free), 0.0
    for file in files:
        if file.suffix.lower() != ".parquet":
            needed += times * file.stat().st_size
            continue
        size, rows = table_bytes(file, int((free - needed) / times))
        needed += times * size + (BESIDE * rows if times > 1 else 0)
        if needed > free:
            other = "use --engine spark, which holds one file at a time, or " if times > 1 else ""
            raise InvalidFile(
                f"{file}: its {rows:,} rows take at least {needed / 1e9:,.1f} GB of memory here, expected at most the "
                f"{free / 1e9:,.1f} GB that are three quarters of what is free: {other}divide the file"
            )


def check_malformed(file: Path, rows: int, size: int, free: int | None) -> None:
    """Raise InvalidFile if the malformed lines of a file, as a table, take more than most of the `free` memory."""
    if free is not None and size > PART * free:
        raise InvalidFile(
            f"{file}: {rows:,} lines are malformed so far, and take {size / 1e9:,.1f} GB of memory here, expected at "
            f"most the {PART * free / 1e9:,.1f} GB that are three quarters of what is free: correct or divide the file"
        )


def table_bytes(path: Path, most: int) -> tuple[int, int]:
    """Return how many bytes a Parquet file has as a table, and rows; it stops counting above `most` bytes."""
    try:
        with pa_parquet.ParquetFile(path) as file:
            told = sum(_told(file))
            size = told if told > most else max(told, _counted(file, path, most))
            return size, int(file.metadata.num_rows)
    except (OSError, pa.ArrowException) as error:
        raise InvalidFile(f"{path} cannot be read: {error}") from error


def _told(file: pa_parquet.ParquetFile) -> Iterator[int]:
    """What the file says of its columns: repeated values are counted once."""
    for group in range(file.num_row_groups):
        row_group = file.metadata.row_group(group)
        for column in range(row_group.num_columns):
            yield row_group.column(column).total_uncompressed_size


def _counted(file: pa_parquet.ParquetFile, path: Path, most: int) -> int:
    """Count column by column, those in lists and fields as well: by their widths, or by the lengths of their texts."""
    kinds = {field.name: field.type for field in file.schema_arrow}
    leaves = [file.schema.column(index) for index in range(len(file.schema))]
    counts = [_values(file, index) for index in range(len(leaves))]
    widths = [OFFSET if _is_text(leaf) else _width(leaf, kinds.get(leaf.path)) for leaf in leaves]
    lists = sum(leaf.max_repetition_level > 0 for leaf in leaves)
    total: int = sum(width * sum(some) for width, some in zip(widths, counts, strict=True))
    total += OFFSET * lists * file.metadata.num_rows
    texts = [index for index, leaf in enumerate(leaves) if _is_text(leaf)]
    with pa_parquet.ParquetFile(path, read_dictionary=[leaves[index].path for index in texts]) as packed:
        for index in texts:
            for group, values in enumerate(counts[index]):
                if total <= most:
                    encodings = file.metadata.row_group(group).column(index).encodings
                    opened, at_once = (file, FEW_AT_ONCE) if PREFIXES in encodings else (packed, AT_ONCE)
                    total += _text_bytes(opened, group, index, values, at_once, most - total)
    return total


def _values(file: pa_parquet.ParquetFile, index: int) -> list[int]:
    groups = (file.metadata.row_group(group) for group in range(file.num_row_groups))
    return [group.column(index).num_values for group in groups]


def _is_text(leaf: Any) -> bool:
    return bool(leaf.physical_type == "BYTE_ARRAY")


def _width(leaf: Any, kind: pa.DataType | None) -> int:
    if kind is None or pa.types.is_nested(kind):
        return leaf.length or WIDTHS.get(leaf.physical_type, 8)
    try:
        return max(int(kind.bit_width) // 8, 1)
    except ValueError:
        return 8


def _text_bytes(file: pa_parquet.ParquetFile, group: int, index: int, values: int, at_once: int, most: int) -> int:
    """Return how many bytes the texts of a column in a group of rows have; it stops counting above `most` bytes."""
    column, rows = file.metadata.row_group(group).column(index), file.metadata.row_group(group).num_rows
    if not REPEATING.intersection(column.encodings):
        return 0  # the file holds each of them, and what it holds was counted before
    # A row may hold a list of any length: about as many values at once, however few rows they are.
    rows_at_once, total = max(min(at_once * rows // max(values, 1), at_once), 1), 0
    with suppress(pa.ArrowNotImplementedError):  # a file that holds gigabytes of lists of texts
        for batch in file.iter_batches(rows_at_once, [group], [column.path_in_schema]):
            total += _lengths(batch.column(0))
            if total > most:
                break
    return total


def _lengths(column: Any) -> int:
    while not pa.types.is_dictionary(column.type):
        if not pa.types.is_nested(column.type):
            return int(column.nbytes)
        column = column.flatten()[0] if pa.types.is_struct(column.type) else column.flatten()
    places = column.indices.drop_null().to_numpy(zero_copy_only=False)
    lengths = pc.fill_null(pc.binary_length(column.dictionary), 0).to_numpy(zero_copy_only=False)
    return int(np.sum(lengths[places], dtype=np.int64))


def free_bytes() -> int | None:
    """Return how much memory this process may still take: of the machine, of its group, of its own limit."""
    found = [*_machine(), *_group(), *_own()]
    return max(min(found), 0) if found else None


def _machine() -> Iterator[int]:
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                yield int(line.split()[1]) << 10


def _group() -> Iterator[int]:
    for directory, most, used, cached in GROUPS:
        with suppress(OSError, ValueError):
            held = int(Path(directory, used).read_text()) - _sum_of(Path(directory, "memory.stat"), cached)
            yield int(Path(directory, most).read_text()) - held


def _sum_of(stat: Path, names: Sequence[str]) -> int:
    pairs = (line.split() for line in stat.read_text().splitlines())
    return sum(int(pair[1]) for pair in pairs if len(pair) > 1 and pair[0] in names)


def _own() -> Iterator[int]:
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most != resource.RLIM_INFINITY:
        with suppress(OSError, ValueError, IndexError):
            yield most - int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
