"""`batchline batch` on Spark: what local mode gives, to the row, and what is refused, in the same words."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from batchline import BatchRules
from batchline.cli import following
from batchline.columnar.columns import MOMENT
from batchline.columnar.order import in_receive_order
from batchline.errors import BatchlineError, InvalidCheckpoint, InvalidFile
from batchline.local import batch_reading, read_files, write_batched
from batchline.sinks.files import write_table
from batchline.sources.sample import Fleet, sample_fleet
from batchline.spark.landing import fitted
from batchline.spark.running import run_batch
from tests.spark.conftest import ON_CLUSTER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

TABLES = ("batched.parquet", "batches.parquet", "rejected.parquet")
GOOD = '{"key":"a","type":"x","event_time":"2026-11-15T12:00:00Z","receive_time":"2026-11-15T12:00:00.1Z"'


@pytest.fixture
def quiet(spark: SparkSession) -> Iterator[SparkSession]:
    """The shared session, as a command's own would be: it says nothing of tasks that fail."""
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.sparkContext.setLogLevel("ERROR")
    spark.conf.unset("spark.sql.caseSensitive")


def landed(directory: Path, pieces: int = 4) -> Path:
    """A fleet in files of all formats, out of order, with malformed lines and rows that tie in all but value."""
    rows = sample_fleet(Fleet(devices=20, minutes=1))
    again = rows.slice(100, 50)
    again = again.set_column(again.column_names.index("value"), "value", pa.array([0.5] * 50))
    rows = pa.concat_tables([again, rows.slice(2000), rows.slice(0, 2000)])
    # The first file is the smallest: Spark by itself begins with the largest.
    ends = [0, *(len(again) + (len(rows) - len(again)) * piece // (pieces - 1) for piece in range(pieces))]
    for number, (begin, end) in enumerate(pairwise(ends)):
        suffix = ("jsonl", "csv", "parquet")[number % 3]
        write_table(rows.slice(begin, end - begin), directory / f"{number} größe[1].{suffix}")
    with (directory / "0 größe[1].jsonl").open("a") as file:
        file.write('not json\n{"key":"a","type":"x","event_time":"noon","receive_time":"noon"}\n')
    with (directory / "1 größe[1].csv").open("a") as file:
        file.write("too,few\n")
    return directory


def locally(path: Path, out: Path, rules: BatchRules, order: Sequence[str] = ()) -> dict[str, Any]:
    batched = batch_reading(read_files(path, {}), rules, order)
    summary = batched.summary()
    write_batched(batched, summary, out)
    return summary


def rows_of(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def check_same(out: Path, expected: Path) -> None:
    """The same columns of the same types, the same rows, the same lines, the same figures."""
    for name in TABLES:
        ours, theirs = pq.read_table(out / name), pq.read_table(expected / name)
        assert ours.schema.remove_metadata() == theirs.schema.remove_metadata()
        assert rows_of(ours) == rows_of(theirs)
    for name in ("malformed.jsonl", "summary.json"):
        assert (out / name).read_bytes() == (expected / name).read_bytes()
    assert {path.name for path in out.iterdir()} == {path.name for path in expected.iterdir()}


@pytest.mark.parametrize("rules", [BatchRules(), BatchRules(max_bytes=200, anchor="event", split="midpoint")])
def test_spark_gives_what_local_mode_gives(spark: SparkSession, tmp_path: Path, rules: BatchRules) -> None:
    files, out = landed(tmp_path / "in [1] %20 {a}"), tmp_path / "out [2] %20 *"
    expected = locally(files, tmp_path / "local", rules, ["sequence"])
    steps: list[str] = []
    for _ in range(2):  # the second over the results of the first
        told = run_batch(spark, files, {}, rules, ["sequence"], out, lambda step, *_: steps.append(step))
        assert told == expected
        check_same(out, tmp_path / "local")
    assert list(dict.fromkeys(steps)) == ["reading", "batching", "writing"]


def test_columns_of_any_type_come_back_as_they_were(quiet: SparkSession, tmp_path: Path) -> None:
    moments = {name: pa.array([0, 1_000, 2_000], MOMENT) for name in ("event_time", "receive_time")}
    first = pa.table(
        {"key": ["a", "a", "b"], "type": ["x", "y", "x"]}
        | moments
        | {
            "Value": [1, 2, 3],
            "value": pa.array([2**64 - 1, None, 0], pa.uint64()),
            "fine": pa.array([1, None, 3], pa.timestamp("ns", "UTC")),
            "naive": pa.array([1, None, 3], pa.timestamp("ms")),
            "took": pa.array([1, None, 3], pa.duration("us")),
            "unit": pa.array(["C", None, "C"]).dictionary_encode(),
            "nothing": pa.nulls(3),
            "a.b `c`": [[None], [], None],
            "deep": pa.array([{"at": 1, "of": [None]}, None, {"at": None, "of": []}]),
        }
    )
    write_table(first, tmp_path / "in" / "1.parquet")
    (tmp_path / "in" / "2.jsonl").write_text(f'{GOOD},"Value":1.5,"only here":"yes"}}\n')
    expected = locally(tmp_path / "in", tmp_path / "local", BatchRules())
    quiet.conf.set("spark.sql.caseSensitive", "true")
    assert run_batch(quiet, tmp_path / "in", {}, BatchRules(), (), tmp_path / "out") == expected
    check_same(tmp_path / "out", tmp_path / "local")


def test_no_rows_are_results_too(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("key,type,event_time,receive_time,size\n")
    expected = locally(tmp_path / "in.csv", tmp_path / "local", BatchRules())
    assert run_batch(spark, tmp_path / "in.csv", {}, BatchRules(), (), tmp_path / "out") == expected
    check_same(tmp_path / "out", tmp_path / "local")


@pytest.mark.parametrize(
    ("lines", "rules", "order"),
    [
        ([GOOD + "}"], BatchRules(), ["offset"]),
        ([GOOD + "}"], BatchRules(max_bytes=10), []),
        ([GOOD + ',"batch_id":1}'], BatchRules(), []),
        ([GOOD + ',"value":1}', GOOD + ',"value":"one"}'], BatchRules(), []),
        ([GOOD + ',"value":9007199254740993}', GOOD + ',"value":0.5}'], BatchRules(), []),
    ],
)
def test_what_is_refused_is_refused_in_the_same_words(
    spark: SparkSession, tmp_path: Path, lines: list[str], rules: BatchRules, order: list[str]
) -> None:
    (tmp_path / "in").mkdir()
    for number, line in enumerate(lines):
        (tmp_path / "in" / f"{number}.jsonl").write_text(line + "\n")
    with pytest.raises(BatchlineError) as expected:
        locally(tmp_path / "in", tmp_path / "local", rules, order)
    with pytest.raises(type(expected.value)) as refused:
        run_batch(spark, tmp_path / "in", {}, rules, order, tmp_path / "out")
    assert str(refused.value) == str(expected.value)
    assert not (tmp_path / "out").exists()


def test_an_error_in_a_task_is_said_as_our_own(quiet: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.jsonl").write_text(GOOD + ',"size":1}\n')
    (tmp_path / "in" / "1.jsonl").write_text(GOOD + "}\n")
    with pytest.raises(BatchlineError, match=r"^column size must have a value in every row; 1 are null"):
        run_batch(quiet, tmp_path / "in", {}, BatchRules(max_bytes=10), (), tmp_path / "out")


def asked(directory: Path, **more: Any) -> following.Asked:
    given: dict[str, Any] = {
        "names": {},
        "rules": BatchRules(),
        "order": (),
        "skew": timedelta(0),
        "clock": "data",
        "once": True,
    }
    checkpoint = str(directory / "out" / ".checkpoint")
    return following.Asked(directory / "in", directory / "out", checkpoint=checkpoint, **(given | more))


def members(table: pa.Table) -> list[str]:
    """Ids, windows and members: at its end a stream has let time run out where batch mode ends with a flush."""
    return rows_of(table.drop_columns(["closed_at", "close_reason"]))


def check_as_batch_mode(directory: Path, summary: dict[str, Any]) -> None:
    expected = locally(directory / "in", directory / "local", BatchRules())
    assert {name: summary[name] for name in ("read", "batched", "batches")} == {
        name: expected[name] for name in ("read", "batched", "batches")
    }
    assert (summary["rejected"], summary["open"]) == (expected["rejected"], 0)
    assert json.loads((directory / "out" / "summary.json").read_text()) == summary
    for name in ("batched", "batches"):
        ours = pq.read_table(directory / "out" / name, partitioning=None)
        assert members(ours) == members(pq.read_table(directory / "local" / f"{name}.parquet"))
    rejected = pq.read_table(directory / "out" / "rejected", partitioning=None)
    assert rows_of(rejected) == rows_of(pq.read_table(directory / "local" / "rejected.parquet"))
    lines = [
        line for file in (directory / "out" / "malformed").rglob("*.jsonl") for line in file.read_text().split("\n")
    ]
    assert sorted(filter(None, lines)) == (directory / "local" / "malformed.jsonl").read_text().splitlines()


def test_a_directory_followed_once_is_batch_mode_and_ends(quiet: SparkSession, tmp_path: Path) -> None:
    tmp_path = tmp_path / "in [1] %20 {a}"
    landed(tmp_path / "in")
    check_as_batch_mode(tmp_path, following.follow_directory(asked(tmp_path), None))
    with pytest.raises(InvalidCheckpoint, match="has ended, by --once"):
        following.follow_directory(asked(tmp_path), None)
    # As if it had been killed before its last epoch was written: handed out again, also without --once.
    (tmp_path / "out" / "summary.json").unlink()
    check_as_batch_mode(tmp_path, following.follow_directory(asked(tmp_path, once=False), None))
    with pytest.raises(InvalidCheckpoint, match="was made with rules window_us 500000, not 2000000"):
        following.follow_directory(asked(tmp_path, rules=BatchRules(window=timedelta(seconds=2))), None)


def in_order(directory: Path, number: int) -> None:
    """One of three files, which come one after the other; renamed into place."""
    rows = in_receive_order(sample_fleet(Fleet(devices=20, minutes=1)))
    third = len(rows) // 3
    hidden = write_table(rows.slice(number * third, third), directory / f".{number}.parquet")
    hidden.rename(directory / f"{number}.parquet")


def test_ctrl_c_stops_and_the_next_start_goes_on(quiet: SparkSession, tmp_path: Path) -> None:
    in_order(tmp_path / "in", 0)

    def land_and_stop() -> None:
        """Another file once the first is done, and Ctrl-C once that is done too."""
        waiting = threading.Event()
        for number in (0, 1):
            while not (tmp_path / "out" / "batched" / f"epoch={number}").exists():
                waiting.wait(0.05)
            if number == 0:
                in_order(tmp_path / "in", 1)
        os.kill(os.getpid(), signal.SIGINT)

    hand = threading.Thread(target=land_and_stop, daemon=True)
    hand.start()
    summary = following.follow_directory(asked(tmp_path, once=False), None)
    hand.join()
    assert summary["open"] > 0
    assert not (tmp_path / "out" / "summary.json").exists()
    in_order(tmp_path / "in", 2)
    (tmp_path / "in" / "3.jsonl").write_text("not json\n")
    check_as_batch_mode(tmp_path, following.follow_directory(asked(tmp_path), None))


def test_a_later_file_with_other_columns_stops_by_name(quiet: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.jsonl").write_text(GOOD + ',"value":1}\n')
    (tmp_path / "in" / "1.jsonl").write_text(GOOD + ',"value":1,"unit":"C"}\n')
    columns = read_files(tmp_path / "in" / "0.jsonl", {}).table
    state = tmp_path / "out" / ".checkpoint" / "batchline"
    state.mkdir(parents=True)
    with pa.ipc.new_file(str(state / "columns.arrow"), columns.schema):
        pass
    with pytest.raises(InvalidFile, match=r"in/1.jsonl has a column unit, which no file had when following began"):
        following.follow_directory(asked(tmp_path), None)


def test_a_later_file_may_lack_a_column_but_not_change_one() -> None:
    columns = pa.schema([("value", pa.int64()), ("share", pa.float64())])
    assert fitted(Path("1"), pa.table({"share": [1]}), columns).to_pylist() == [{"value": None, "share": 1.0}]
    with pytest.raises(InvalidFile, match="1: column value holds double, where it held int64 when following began"):
        fitted(Path("1"), pa.table({"value": [1.5]}), columns)


def test_a_directory_without_files_has_no_columns_to_follow(quiet: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(InvalidFile, match="has no measurements in it"):
        following.follow_directory(asked(tmp_path), None)


def test_on_a_cluster_it_is_the_same(spark_cluster_url: str, tmp_path: Path) -> None:
    expected = locally(landed(tmp_path / "in"), tmp_path / "local", BatchRules())
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(
        "".join(f"{key} {value}\n" for key, value in ON_CLUSTER.items())
    )
    words = ["batch", str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--master", spark_cluster_url, "--json"]
    environment = os.environ | {"SPARK_CONF_DIR": str(tmp_path / "conf")}
    run = subprocess.run([sys.executable, "-m", "batchline", *words], env=environment, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    assert json.loads(run.stdout) == expected
    check_same(tmp_path / "out", tmp_path / "local")
