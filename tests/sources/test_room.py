"""Parquet files that are small on disk and large in memory are refused before they are read."""

from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

from batchline.columnar.columns import MOMENT
from batchline.errors import InvalidFile
from batchline.sources.files import read_measurements, reading, room
from batchline.sources.files.blocks import BLOCK_LINES, blocks
from batchline.sources.files.room import check_room, free_bytes, table_bytes
from tests.memory import MIB, measured

ROWS: Final = 20_000
COLUMNS: Final[dict[str, Any]] = {
    "one text": pa.array(["x" * 500] * ROWS),
    "texts": pa.array([f"device-{number}" for number in range(ROWS)]),
    "missing texts": pa.array([None, "x" * 100] * (ROWS // 2)),
    "bytes": pa.array([b"x" * 100] * ROWS),
    "moments": pa.array([0] * ROWS, MOMENT),
    "numbers": pa.array([1.5] * ROWS),
    "lists": pa.array([[1, 2, 3]] * ROWS),
    "texts in fields": pa.array([{"a": "x" * 100}] * ROWS),
    "texts in lists": pa.array([["x" * 100, "y"]] * ROWS),
}
#: One text of 20 kB, 40,000 times.
ONE_TEXT: Final = pa.DictionaryArray.from_arrays(pa.array(np.zeros(40_000, np.int32)), pa.array(["x" * 20_000]))
NESTED: Final[dict[str, Any]] = {
    "fields": pa.StructArray.from_arrays([ONE_TEXT], ["a"]),
    "lists": pa.ListArray.from_arrays(pa.array(np.arange(40_001), pa.int32()), ONE_TEXT),
    "one long list": pa.ListArray.from_arrays(pa.array([0, 40_000], pa.int32()), ONE_TEXT),
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_the_size_of_a_column_is_known_without_its_repetitions_being_made(tmp_path: Path, column: Any) -> None:
    path = tmp_path / "a.parquet"
    pa_parquet.write_table(pa.table({"a": column}), path)
    size, rows = table_bytes(path, 1 << 40)
    assert rows == ROWS
    assert 0.9 * column.nbytes <= size <= 1.25 * column.nbytes
    with pytest.raises(InvalidFile, match=r"20,000 rows take at least .* GB of memory here, .*--engine spark"):
        check_room([path], 3.0, size)
    check_room([path], 1.0, 2 * size)


@pytest.mark.parametrize("size", [100, 20_000])
def test_texts_that_repeat_the_beginning_of_the_one_before_are_counted(tmp_path: Path, size: int) -> None:
    path, column = tmp_path / "a.parquet", pa.array([f"{'x' * size}{number}" for number in range(2_000)])
    pa_parquet.write_table(pa.table({"a": column}), path, use_dictionary=False, column_encoding="DELTA_BYTE_ARRAY")
    counted, _ = table_bytes(path, 1 << 40)
    assert 0.9 * column.nbytes <= counted <= 1.25 * column.nbytes


#: Counts a file; tells its bytes.
COUNTS: Final = """
from batchline.sources.files.room import table_bytes

begin()
end(table_bytes(Path(sys.argv[1]), 1 << 40)[0])
"""


@pytest.mark.parametrize("column", NESTED.values(), ids=NESTED)
def test_repetitions_inside_of_lists_and_fields_are_not_made(tmp_path: Path, column: Any) -> None:
    path = tmp_path / "a.parquet"
    pa_parquet.write_table(pa.table({"a": column}), path, store_schema=False)
    counting = measured(COUNTS, [path])
    assert counting.told >= 40_000 * 20_000
    assert counting.grown < 150 * MIB


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1 and nothing more")
    with pytest.raises(InvalidFile, match=r"a\.parquet cannot be read"):
        table_bytes(path, 1)


def test_what_is_free_is_known() -> None:
    assert (free_bytes() or 0) > MIB


def test_files_that_the_kernel_keeps_in_memory_take_none_of_a_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container that has read files is as full of them as it may be: they give way."""
    monkeypatch.setattr(room, "GROUPS", [(str(tmp_path), "max", "current", ("active_file", "inactive_file"))])
    (tmp_path / "max").write_text("1000000\n")
    (tmp_path / "current").write_text("990000\n")
    (tmp_path / "memory.stat").write_text("anon 80000\nactive_file 500000\ninactive_file 400000\nshmem 7\n")
    assert free_bytes() == 910_000


#: Batches a file in this process, which may have 3 GiB; tells the error.
BATCHES: Final = """
import resource
from batchline import BatchRules
from batchline.cli.batch import in_this_process
from batchline.errors import InvalidFile
from batchline.local import read_files

resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
begin()
try:
    in_this_process(Path(sys.argv[1]), {}, BatchRules(), [], Path(sys.argv[2]))
except InvalidFile as error:
    end(str(error))
"""


def test_a_file_of_repeated_values_that_would_not_fit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """2 GB of keys in less than 1 MiB."""
    rows, path = 1_000_000, tmp_path / "a.parquet"
    once = pa.array(np.zeros(rows, np.int32))
    columns = {name: pa.DictionaryArray.from_arrays(once, pa.array(["x" * 2_000])) for name in ("key", "type")}
    moments = {name: pa.array(np.zeros(rows, np.int64)).cast(MOMENT) for name in ("event_time", "receive_time")}
    pa_parquet.write_table(pa.table(columns | moments), path, row_group_size=1 << 18)
    assert path.stat().st_size < MIB
    batching = measured(BATCHES, [path, tmp_path / "out"])
    assert "1,000,000 rows take at least" in batching.told
    assert "--engine spark" in batching.told
    assert batching.grown < 150 * MIB
    assert not (tmp_path / "out").exists()


def test_a_block_has_a_bounded_number_of_lines_however_short_they_are(tmp_path: Path) -> None:
    """Each malformed line of a block takes about 1,000 bytes, until the block is a table."""
    path, lines, told = tmp_path / "a.jsonl", 2 * BLOCK_LINES + 5, list[int]()
    path.write_bytes(b"1\n" * lines)
    found = [(first, block.count(b"\n") + 1) for first, block in blocks(path, told.append)]
    assert found == [(1, BLOCK_LINES), (BLOCK_LINES + 1, BLOCK_LINES), (2 * BLOCK_LINES + 1, 5)]
    assert sum(told) == 2 * lines


def test_a_file_of_malformed_lines_that_would_not_fit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"1\n" * 20_000)
    monkeypatch.setattr(reading, "free_bytes", lambda: 4_000_000)
    assert read_measurements([path]).malformed.num_rows == 20_000
    monkeypatch.setattr(reading, "free_bytes", lambda: 1_000_000)
    with pytest.raises(InvalidFile, match=r"a\.jsonl: 20,000 lines are malformed so far, and take 0\.0 GB"):
        read_measurements([path])
