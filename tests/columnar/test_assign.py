"""What assign_batches takes and refuses, and how its answer looks."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from batchline import BatchRules
from batchline.columnar import assign_batches
from batchline.errors import InvalidRules, InvalidTable

MOMENT = pa.timestamp("us", "UTC")
RULES = BatchRules()
NOON_US = 1_794_744_000_000_000


def good(**changes: Any) -> pa.Table:
    columns = {
        "key": pa.array(["a", "b", "a"]),
        "type": pa.array(["x", "x", "y"]),
        "event_time": pa.array([NOON_US, NOON_US, NOON_US + 10], MOMENT),
        "receive_time": pa.array([NOON_US + 5, NOON_US + 6, NOON_US + 20], MOMENT),
        "size": pa.array([1, 2, 3]),
        "payload": pa.array([b"p", None, b"q"]),
    }
    columns |= changes
    return pa.table({name: column for name, column in columns.items() if column is not None})


def test_the_input_columns_stay_and_the_answer_is_added() -> None:
    table = good()
    answer = assign_batches(table, RULES)
    assert answer.select(table.column_names) == table
    assert answer.schema.field("batch_start").type == MOMENT
    assert answer.drop_columns(table.column_names).schema.names == [
        "verdict", "batch_id", "batch_start", "batch_end", "closed_at", "close_reason",
    ]  # fmt: skip
    start = NOON_US + 5 - 400_000
    assert answer.column("batch_id").to_pylist() == [f"a@{start}", f"b@{start + 1}", f"a@{start}"]


def test_an_empty_table_gives_an_empty_answer() -> None:
    answer = assign_batches(good().slice(0, 0), RULES)
    assert answer.num_rows == 0
    assert answer.schema.field("batch_id").type == pa.string()
    no_chunks = pa.table({name: pa.chunked_array([], good().schema.field(name).type) for name in good().column_names})
    assert assign_batches(no_chunks, RULES).num_rows == 0


def test_a_rejected_row_has_no_batch() -> None:
    table = good(event_time=pa.array([NOON_US - 10**9, NOON_US, NOON_US + 10**9], MOMENT))
    rows = assign_batches(table, RULES).to_pylist()
    assert [row["verdict"] for row in rows] == ["late", "batched", "future"]
    assert rows[0]["batch_id"] is rows[0]["closed_at"] is rows[2]["close_reason"] is None


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())])
def test_every_kind_of_string_column_is_a_key(kind: pa.DataType) -> None:
    table = good(key=pa.array(["a", "b", "a"]).cast(kind), type=pa.array(["x", "x", "y"]).cast(kind))
    assert assign_batches(table, RULES).column("batch_id") == assign_batches(good(), RULES).column("batch_id")


def test_chunks_with_dictionaries_of_their_own_are_one_column() -> None:
    first = pa.DictionaryArray.from_arrays(pa.array([1, 0]), pa.array(["b", "a"]))
    second = pa.DictionaryArray.from_arrays(pa.array([0]), pa.array(["a"]))
    table = good(key=pa.chunked_array([first, second]))
    assert assign_batches(table, RULES).column("batch_id") == assign_batches(good(), RULES).column("batch_id")


def test_a_dictionary_that_repeats_a_value_is_still_one_key() -> None:
    repeated = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array(["a", "b", "a"]))
    assert (
        assign_batches(good(key=repeated), RULES).column("batch_id").to_pylist()[0::2]
        == [f"a@{NOON_US + 5 - 400_000}"] * 2
    )


def test_slices_and_chunks_are_read_where_they_are() -> None:
    twice = pa.concat_tables([good(), good(receive_time=pa.array([NOON_US + 5] * 3, MOMENT))])
    part = twice.slice(3)
    assert assign_batches(part, RULES).column("verdict").to_pylist() == ["batched", "batched", "batched"]
    assert assign_batches(twice, RULES).column("verdict").to_pylist()[3:] == ["duplicate", "duplicate", "duplicate"]


@pytest.mark.parametrize("unit", ["s", "ms", "ns"])
def test_other_units_and_time_zones_are_converted(unit: str) -> None:
    kind = pa.timestamp(unit, "Asia/Tokyo")
    noon = pa.array([NOON_US] * 3, MOMENT)
    answer = assign_batches(good(event_time=noon.cast(kind), receive_time=noon.cast(kind)), RULES)
    expected = assign_batches(good(event_time=noon, receive_time=noon), RULES)
    assert answer.column("batch_id") == expected.column("batch_id")


def test_nanoseconds_are_rounded_down_also_before_the_epoch() -> None:
    kind = pa.timestamp("ns", "UTC")
    rules = BatchRules(anchor="event")
    times = pa.array([-1, -1_001, 1_999]).cast(kind)
    answer = assign_batches(good(key=pa.array(["a", "b", "c"]), event_time=times, receive_time=times), rules)
    assert answer.column("batch_id").to_pylist() == ["a@-1", "b@-2", "c@1"]


def test_the_answer_can_be_filtered_and_grouped() -> None:
    answer = assign_batches(good(), RULES)
    batched = answer.filter(pc.field("verdict") == "batched")
    assert batched.group_by("batch_id").aggregate([("size", "sum")]).num_rows == 2


def test_the_table_given_is_not_changed() -> None:
    table = good()
    before = table.to_pydict()
    assign_batches(table, RULES)
    assert table.to_pydict() == before


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"key": None}, "missing column key; the table has type, event_time"),
        ({"receive_time": None}, "missing column receive_time"),
        ({"key": pa.array([1, 2, 3])}, "column key must hold strings, got int64"),
        ({"type": pa.array([b"x", b"y", b"z"])}, "column type must hold strings, got binary"),
        ({"key": pa.array(["a", None, "c"])}, "column key must have a value in every row; 1 are null, first row 1"),
        (
            {"type": pa.array([None] * 3, pa.string())},
            "column type must have a value in every row; 3 are",
        ),
        (
            {"event_time": pa.array([NOON_US] * 3, pa.timestamp("us"))},
            "event_time holds naive times (timestamp[us])",
        ),
        (
            {"receive_time": pa.array(["2026-11-15"] * 3)},
            "must hold timestamps with a time zone, got string",
        ),
        (
            {"event_time": pa.array([NOON_US, None, NOON_US], MOMENT)},
            "event_time must have a value in every row",
        ),
        ({"event_time": pa.array([2**62] * 3).cast(pa.timestamp("s", "UTC"))}, "column event_time must lie between"),
        ({"receive_time": pa.array([2**62] * 3).cast(MOMENT)}, "the years 1000 to 9000; row 0 has 4611686018427387904"),
        ({"size": pa.array([1, -2, 3])}, "column size must lie between 0 and 4611686018427387904; row 1 has -2"),
        ({"size": pa.array([1.0, 2.0, 3.0])}, "column size must hold whole numbers of bytes, got double"),
        ({"size": pa.array([2**63] * 3, pa.uint64())}, "column size"),
        ({"verdict": pa.array(["?"] * 3)}, "the table already has a column verdict"),
    ],
)
def test_a_wrong_table_is_refused_by_the_name_of_its_column(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidTable) as caught:
        assign_batches(good(**changes), RULES)
    assert said in str(caught.value)


def test_a_column_that_is_there_twice_is_refused() -> None:
    table = good().append_column("key", pa.array(["a", "b", "c"]))
    with pytest.raises(InvalidTable, match="more than one column key"):
        assign_batches(table, RULES)


def test_a_size_may_be_missing_where_no_rule_needs_it() -> None:
    table = good(size=pa.array([1, None, 3]))
    assert assign_batches(table, RULES).column("size") == table.column("size")
    with pytest.raises(InvalidTable, match="column size must have a value in every row; 1 are null, first row 1"):
        assign_batches(table, BatchRules(max_bytes=10))


def test_max_bytes_needs_sizes() -> None:
    with pytest.raises(InvalidTable, match="max_bytes is set, so the table needs a column size"):
        assign_batches(good(size=None), BatchRules(max_bytes=10))


@pytest.mark.parametrize("wrong", [None, {}, [1]])
def test_something_else_than_a_table_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidTable, match=r"expected a pyarrow\.Table, got"):
        assign_batches(wrong, RULES)


def test_something_else_than_rules_is_refused() -> None:
    with pytest.raises(InvalidRules, match="expected BatchRules, got None"):
        assign_batches(good(), None)  # type: ignore[arg-type]


def test_times_come_back_as_datetimes_in_utc() -> None:
    row = assign_batches(good(), RULES).to_pylist()[0]
    assert row["batch_end"] == datetime(2026, 11, 15, 12, 0, 0, 100_005, tzinfo=UTC)
