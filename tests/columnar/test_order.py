"""Receive order: how rows are spread over files decides only between copies of one measurement."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline import BatchRules
from batchline.columnar.order import in_receive_order
from batchline.local import Batched, batch_reading, read_files
from batchline.sources.sample import Fleet, sample_fleet

FLEET = sample_fleet(Fleet(devices=3, minutes=0.2)).to_pylist()


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, default=lambda moment: moment.isoformat()) + "\n" for row in rows)


def batched(directory: Path, files: dict[str, list[dict[str, Any]]], order: tuple[str, ...] = ()) -> Batched:
    directory.mkdir()
    for name, rows in files.items():
        (directory / name).write_text(lines(rows))
    return batch_reading(read_files(directory, {}), BatchRules(), order)


@given(st.lists(st.integers(0, 2), min_size=len(FLEET), max_size=len(FLEET)), st.permutations(["a", "b", "c"]))
def test_rows_that_do_not_tie_may_be_spread_over_files_in_any_way(
    tmp_path_factory: pytest.TempPathFactory, places: list[int], names: list[str]
) -> None:
    directory = tmp_path_factory.mktemp("spread")
    spread: dict[str, list[dict[str, Any]]] = {}
    for row, place in zip(FLEET, places, strict=True):
        spread.setdefault(f"{names[place]}.jsonl", []).append(row)
    order = ("sequence",)
    one, many = batched(directory / "one", {"all.jsonl": FLEET}, order), batched(directory / "many", spread, order)
    assert many.assigned.equals(one.assigned)
    assert many.batches.equals(one.batches)


@pytest.mark.parametrize(("first", "second"), [("a.jsonl", "b.jsonl"), ("b.jsonl", "a.jsonl")])
def test_of_copies_that_tie_the_one_in_the_file_that_sorts_first_is_kept(
    tmp_path: Path, first: str, second: str
) -> None:
    copy = FLEET[0] | {"value": -1.0}
    found = batched(tmp_path / "in", {first: [FLEET[0]], second: [copy]})
    kept, rejected = (FLEET[0], copy) if first < second else (copy, FLEET[0])
    assert found.accepted.column("value").to_pylist() == [kept["value"]]
    assert found.rejected.select(["value", "verdict"]).to_pylist() == [
        {"value": rejected["value"], "verdict": "duplicate"}
    ]
    assert found.batches.column("batch_id").to_pylist() == [found.accepted.column("batch_id")[0].as_py()]


def test_rows_that_tie_keep_the_order_given() -> None:
    table = pa.Table.from_pylist([FLEET[0] | {"value": float(number)} for number in range(100)])
    assert in_receive_order(table).equals(table)
