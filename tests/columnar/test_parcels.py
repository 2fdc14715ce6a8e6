"""Plain, columnar and chunk by chunk, the packer gives the same answer to every input."""

import random
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline import Batch, BatchRules, Measurement, PackRules, pack
from batchline.columnar import assign_batches, assign_parcels, pack_kernel, pack_keys, pack_rows
from batchline.core import subset, time_order
from batchline.core.group import subject_of
from batchline.core.subject_order import LOOK_AHEAD
from batchline.errors import InvalidInput, InvalidRules, InvalidTable
from tests.columnar.test_agreement import table_of
from tests.core.packing import batches_of, measurements, pack_rules

SORTED_BY = ("group_time", "subject", "batch_id", "event_time", "type", "key", "receive_time", "size")


def table_of_batches(batches: list[Batch]) -> pa.Table:
    table = table_of([m for batch in batches for m in batch.messages])
    return table.append_column("batch_id", pa.array([b.id for b in batches for _ in b.messages], pa.string()))


def by_library(things: Any, rules: PackRules) -> list[tuple[int, str, int]]:
    """Row after row as the parcels are sent: the row's place on arrival, the parcel's id and its number."""
    return [(m.payload, parcel.id, parcel.number) for parcel in pack(things, rules) for m in parcel.measurements]


def answers(table: pa.Table) -> list[tuple[int, str, int]]:
    return list(
        zip(*(table.column(name).to_pylist() for name in ("number", "parcel_id", "parcel_number")), strict=True)
    )


def by_columns(table: pa.Table, rules: PackRules) -> set[tuple[int, str, int]]:
    assigned = assign_parcels(table, rules)
    assert assigned.drop_columns(["parcel_id", "parcel_number", "lane"]) == table
    return set(answers(assigned.filter(assigned.column("parcel_id").is_valid())))


def sorted_by_arrow(table: pa.Table, rules: PackRules) -> pa.Table:
    """In pack order as somebody else sorts it: by the keys we give and the columns we name."""
    for name, column in zip(("subject", "group_time"), pack_keys(table, rules).columns, strict=True):
        table = table.append_column(name, column)
    return table.sort_by([(name, "ascending") for name in SORTED_BY if name in table.column_names])


def chunks_of(table: pa.Table, rules: PackRules, draw: random.Random) -> list[pa.Table]:
    """The rows in pack order, cut here and there between two group times."""
    rows = sorted_by_arrow(table, rules)
    times = rows.column("group_time").to_pylist()
    cuts = [at for at in range(1, len(times)) if times[at] != times[at - 1] and draw.random() < 0.4]
    return [rows.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, rows.num_rows], strict=True)]


def by_chunks(chunks: list[pa.Table], rules: PackRules) -> list[tuple[int, str, int]]:
    packed, carried, number = [], None, 1
    for at, chunk in enumerate(chunks):
        step = pack_rows(chunk, rules, carried, number, end=at == len(chunks) - 1)
        packed.append(step.packed)
        carried, number = step.carried, step.next_number
    assert carried is not None
    assert carried.num_rows == 0
    return answers(pa.concat_tables(packed))


@given(pack_rules(), measurements(), st.randoms())
def test_three_forms_agree(rules: PackRules, given: list[Measurement], draw: random.Random) -> None:
    expected, table = by_library(given, rules), table_of(given)
    assert by_columns(table, rules) == set(expected)
    assert by_chunks(chunks_of(table, rules, draw), rules) == expected


@given(pack_rules(together="batch"), measurements(), st.randoms())
def test_three_forms_agree_on_batches(rules: PackRules, given: list[Measurement], draw: random.Random) -> None:
    batches = batches_of(given)
    expected, table = by_library(batches, rules), table_of_batches(batches)
    assert by_columns(table, rules) == set(expected)
    assert by_chunks(chunks_of(table, rules, draw), rules) == expected


def many(seed: int, groups: int, subjects: int, times: int, largest: int) -> list[Measurement]:
    """More groups than candidates, and of all sizes."""
    draw, found = random.Random(seed), []
    for number in range(groups):
        subject, time_us = f"subject-{draw.randrange(subjects)}", draw.randrange(times)
        weight = draw.choice([1, 3, 50])
        found += [
            (subject, f"{number}-{n}", time_us, draw.randrange(1, weight + 1)) for n in range(draw.randint(1, largest))
        ]
    draw.shuffle(found)
    return [Measurement.from_us(*row[:3], 0, place, row[3]) for place, row in enumerate(found)]


@pytest.mark.parametrize("order", ["time", "subject"])
@pytest.mark.parametrize(
    ("max_items", "max_bytes"), [(500, None), (40, None), (3_000, None), (500, 1_500), (90, 2_500)]
)
@pytest.mark.parametrize(
    ("groups", "subjects", "times", "largest"),
    [(900, 300, 1, 9), (400, 30, 40, 30), (150, 5, 30, 60), (60, 60, 3, 120)],
)
def test_three_forms_agree_on_many_groups(
    groups: int, subjects: int, times: int, largest: int, max_items: int, max_bytes: int | None, order: str
) -> None:
    rules = PackRules(max_items, max_bytes, order)
    given = many(groups, groups, subjects, times, largest)
    expected, table = by_library(given, rules), table_of(given)
    assert by_columns(table, rules) == set(expected)
    assert by_chunks(chunks_of(table, rules, random.Random(1)), rules) == expected


def test_the_kernel_has_the_numbers_of_the_rule() -> None:
    for name in ("CANDIDATES", "NEAR", "RESERVE", "RESOLUTION"):
        assert getattr(pack_kernel, name) == getattr(subset, name)
    for name in ("FREE", "LARGEST", "SMALLEST"):
        assert getattr(pack_kernel, name) == getattr(time_order, name)


@given(pack_rules(), measurements(), st.sampled_from([1, 2, 5]))
def test_each_lane_is_packed_on_its_own(rules: PackRules, given: list[Measurement], lanes: int) -> None:
    assigned = assign_parcels(table_of(given), rules, lanes)
    crcs = [zlib.crc32(subject_of(m, rules.split).encode()) for m in given]
    assert assigned.column("lane").to_pylist() == [crc % lanes for crc in crcs]
    for lane in range(lanes):
        mine = assigned.filter(
            pc.and_(pc.equal(assigned.column("lane"), lane), assigned.column("parcel_id").is_valid())
        )
        expected = by_library([m for m, crc in zip(given, crcs, strict=True) if crc % lanes == lane], rules)
        assert set(answers(mine)) == set(expected)


def test_what_carries_over_is_bounded() -> None:
    for order, bound in (("time", 50), ("subject", LOOK_AHEAD * 50 + 20)):
        rules = PackRules(50, order=order)
        chunks = chunks_of(table_of(many(3, 2_000, 40, 500, 20)), rules, random.Random(2))
        carried, number, most = None, 1, 0
        for chunk in chunks:
            step = pack_rows(chunk, rules, carried, number)
            carried, number, most = step.carried, step.next_number, max(most, step.carried.num_rows)
        assert 0 < most <= bound


def test_carried_rows_go_through_a_file_and_every_column_is_kept(tmp_path: Path) -> None:
    given = many(4, 60, 6, 20, 15)
    rules = PackRules(20, 300, order="time")
    payloads = pa.array([{"value": [n, n + 1], "text": f"{n}"} for n in range(len(given))])
    table = table_of(given).append_column("payload", payloads).append_column("nothing", pa.nulls(len(given)))
    packed, carried, number = [], None, 1
    for chunk in chunks_of(table, rules, random.Random(3)):
        step = pack_rows(chunk, rules, carried, number)
        pq.write_table(step.carried, tmp_path / "carried.parquet")
        carried, number = pq.read_table(tmp_path / "carried.parquet"), step.next_number
        packed.append(step.packed)
    last = pack_rows(chunk.slice(0, 0), rules, carried, number, end=True)
    rows = pa.concat_tables([*packed, last.packed])
    assert answers(rows) == by_library(given, rules)
    assert rows.column("payload").to_pylist() == [payloads[n].as_py() for n in rows.column("number").to_pylist()]
    assert rows.schema.names == [*chunk.schema.names, "parcel_id", "parcel_number"]


def test_oversize_rows_have_no_parcel_and_come_out_on_their_own() -> None:
    given = [Measurement.from_us("a", f"{n}", n // 2, 0, n, size) for n, size in enumerate([5, 11, 5, 12, 10])]
    rules = PackRules(max_bytes=10)
    assert assign_parcels(table_of(given), rules).column("parcel_number").to_pylist() == [1, None, 1, None, 2]
    step = pack_rows(sorted_by_arrow(table_of(given), rules), rules, end=True)
    assert step.oversize.column("number").to_pylist() == [1, 3]
    assert step.packed.column("number").to_pylist() == [0, 2, 4]
    assert step.next_number == 3


def test_rows_that_stage_1_rejected_have_no_parcel() -> None:
    given = [Measurement.from_us("a", "x", event, 1_000_000, event) for event in (1_000_000, 1_000_000, 0)]
    batched = assign_batches(table_of(given), BatchRules())
    assert batched.column("verdict").to_pylist() == ["batched", "duplicate", "late"]
    for together in ("timestamp", "batch"):
        assigned = assign_parcels(batched, PackRules(together=together))
        assert assigned.column("parcel_number").to_pylist() == [1, None, None]
    assert assigned.column("parcel_id")[0] == batched.column("batch_id")[0]


def test_pack_keys_give_the_subject_and_the_first_time_of_the_group() -> None:
    given = [Measurement.from_us("k", kind, 5, 0, n) for n, kind in enumerate(["s$x", "y"])]
    keys = pack_keys(table_of(given), PackRules(split="$"))
    assert keys.column("subject").to_pylist() == ["s", ""]
    batches = batches_of([Measurement.from_us("k", kind, event, 0, 0, 1) for kind, event in (("a", 7), ("b", 9))])
    keys = pack_keys(table_of_batches(batches), PackRules(together="batch"))
    assert keys.column("group_time").cast(pa.int64()).to_pylist() == [7, 7]


def test_an_empty_table_gives_an_empty_one() -> None:
    for rules in (PackRules(), PackRules(order="subject"), PackRules(max_bytes=5, split="$")):
        assigned = assign_parcels(table_of([]), rules)
        assert assigned.num_rows == 0
        assert assigned.column_names[-3:] == ["parcel_id", "parcel_number", "lane"]
        step = pack_rows(table_of([]), rules, end=True)
        assert (step.packed.num_rows, step.carried.num_rows, step.next_number) == (0, 0, 1)


def small_table() -> pa.Table:
    return table_of([Measurement.from_us("b", "x", 1, 0, 0, 3), Measurement.from_us("a", "x", 1, 0, 1, 3)])


def test_what_is_wrong_is_named() -> None:
    table, rules = small_table(), PackRules()
    with pytest.raises(InvalidTable, match="missing column type"):
        assign_parcels(table.drop_columns(["type"]), rules)
    with pytest.raises(InvalidTable, match="missing column batch_id"):
        assign_parcels(table, PackRules(together="batch"))
    with pytest.raises(InvalidTable, match="max_bytes is set, so the table needs a column size"):
        assign_parcels(table.drop_columns(["size"]), PackRules(max_bytes=5))
    with pytest.raises(InvalidTable, match="already has a column parcel_id"):
        assign_parcels(assign_parcels(table, rules), rules)
    with pytest.raises(InvalidTable, match=r"expected a pyarrow\.Table, got list"):
        assign_parcels([], rules)
    with pytest.raises(InvalidRules, match="expected PackRules, got None"):
        assign_parcels(table, None)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="lanes must be a whole number from 1 on, got 0"):
        assign_parcels(table, rules, 0)


def test_rows_out_of_order_and_foreign_carried_rows_are_refused() -> None:
    table, rules = small_table(), PackRules()
    with pytest.raises(InvalidTable, match="rows must come in pack order, by group time and subject; row 1 is before"):
        pack_rows(table, rules)
    with pytest.raises(InvalidTable, match="missing column carried_group_time, carried_piece"):
        pack_rows(table.slice(1), rules, table)
    carried = pack_rows(table.slice(0, 1), rules).carried
    with pytest.raises(InvalidTable, match="carried rows have columns"):
        pack_rows(table.slice(1).drop_columns(["number"]), rules, carried)
