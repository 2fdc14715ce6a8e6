"""Every command does what its help says."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from batchline import BatchRules, __version__
from batchline.cli import engines
from batchline.columnar import assign_batches
from batchline.columnar.order import in_receive_order
from batchline.sources.sample import Fleet, sample_fleet
from tests.cli.conftest import Call


@pytest.fixture(params=["parquet", "jsonl", "csv"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path, batchline: Call) -> Path:
    made = batchline(
        "sample", "--devices", 12, "--minutes", 0.5, "--format", request.param, "--out", tmp_path / "fleet"
    )
    assert made.code == 0
    return tmp_path / "fleet" / f"measurements.{request.param}"


def test_batch_writes_what_the_library_says(fleet: Path, tmp_path: Path, batchline: Call) -> None:
    said = batchline("batch", fleet, "--engine", "local", "--out", tmp_path / "results", "--json")
    summary = json.loads(said.out)
    expected = assign_batches(in_receive_order(sample_fleet(Fleet(devices=12, minutes=0.5))), BatchRules())
    accepted = expected.filter(pc.equal(expected["verdict"], "batched"))
    batched = pq.read_table(tmp_path / "results" / "batched.parquet")
    rejected = pq.read_table(tmp_path / "results" / "rejected.parquet")
    batches = pq.read_table(tmp_path / "results" / "batches.parquet")
    assert batched.select(["sequence", "batch_id"]).to_pydict() == accepted.select(["sequence", "batch_id"]).to_pydict()
    assert batched.num_rows + rejected.num_rows == expected.num_rows == summary["read"]
    assert batches["batch_id"].to_pylist() == list(dict.fromkeys(batches["batch_id"].to_pylist()))
    assert set(batches["batch_id"].to_pylist()) == set(accepted["batch_id"].to_pylist())
    assert pc.sum(batches["messages"]).as_py() == batched.num_rows == summary["batched"]
    assert pc.sum(batches["bytes"]).as_py() == pc.sum(accepted["size"]).as_py()
    assert json.loads((tmp_path / "results" / "summary.json").read_text()) == summary


def test_a_second_run_gives_the_same_bytes(fleet: Path, tmp_path: Path, batchline: Call) -> None:
    for name in ("first", "second"):
        assert batchline("batch", fleet.parent, "--engine", "local", "--out", tmp_path / name).code == 0
    for path in sorted((tmp_path / "first").iterdir()):
        assert path.read_bytes() == (tmp_path / "second" / path.name).read_bytes()


@pytest.fixture
def small(tmp_path: Path, batchline: Call) -> Path:
    batchline("sample", "--devices", 20, "--minutes", 1, "--out", tmp_path / "fleet")
    return tmp_path / "fleet"


def test_the_summary_for_people_counts_everything(small: Path, tmp_path: Path, batchline: Call) -> None:
    said = batchline(
        "batch", small, "--engine", "local", "--out", tmp_path / "results", "--window", "1s", "--anchor", "aligned"
    )
    rows = pq.read_metadata(small / "measurements.parquet").num_rows
    assert f"{rows:,} read" in said.out
    assert "window 1s · max delay 400ms · leap limit 400ms · anchor aligned" in said.out
    for word in ("batched", "late", "future", "duplicate", "timeout", "flush"):
        assert word in said.out


def test_malformed_lines_are_kept_with_their_reason(tmp_path: Path, batchline: Call) -> None:
    good = '{"key":"a","type":"x","event_time":"2026-11-15T12:00:00Z","receive_time":"2026-11-15T12:00:00.1Z"}'
    (tmp_path / "in.jsonl").write_text(f"{good}\nnot json\n")
    summary = json.loads(
        batchline("batch", tmp_path / "in.jsonl", "--engine", "local", "--out", tmp_path / "results", "--json").out
    )
    assert (summary["read"], summary["batched"], summary["rejected"]) == (2, 1, {"malformed": 1})
    (line,) = (tmp_path / "results" / "malformed.jsonl").read_text().splitlines()
    kept = json.loads(line)
    assert (kept["line"], kept["text"]) == (2, "not json")


def test_columns_may_have_other_names(tmp_path: Path, batchline: Call) -> None:
    (tmp_path / "in.csv").write_text("device,kind,t,T\na,x,2026-11-15T12:00:00Z,2026-11-15T12:00:00.1Z\n")
    names = "key=device,type=kind,event_time=t,receive_time=T"
    said = batchline(
        "batch", tmp_path / "in.csv", "--engine", "local", "--out", tmp_path / "results", "--columns", names, "--json"
    )
    assert json.loads(said.out)["batched"] == 1


def test_explain_draws_windows_and_rejections(small: Path, tmp_path: Path, batchline: Call) -> None:
    key = pq.read_table(small / "measurements.parquet")["key"][0].as_py()
    said = batchline("explain", small, "--key", key, "--limit", 5, "--svg", tmp_path / "windows.svg")
    assert said.code == 0
    assert key in said.out
    assert "├" in said.out
    drawing = ET.parse(tmp_path / "windows.svg").getroot()  # noqa: S314 - our own file
    assert drawing.tag.endswith("svg")


def test_explain_can_begin_later(small: Path, batchline: Call) -> None:
    key = pq.read_table(small / "measurements.parquet")["key"][0].as_py()
    said = batchline("explain", small, "--key", key, "--from", "2026-11-15T00:00:30Z", "--limit", 2)
    assert "00:00:3" in said.out
    assert "00:00:00" not in said.out


def test_explain_of_an_unknown_key_names_those_like_it(small: Path, batchline: Call) -> None:
    key = pq.read_table(small / "measurements.parquet")["key"][0].as_py()
    said = batchline("explain", small, "--key", key.replace("-", "_"))
    assert said.code == 1
    assert f"did you mean {key}" in said.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("batch", "nowhere", "--engine", "local", "--out", "x"), "nowhere"),
        (("batch", "{fleet}", "--engine", "local", "--out", "x", "--anchor", "arival"), "did you mean 'arrival'?"),
        (("batch", "{fleet}", "--engine", "local", "--out", "x", "--split", "midpoint"), "needs the anchor 'event'"),
        (
            ("batch", "{fleet}", "--engine", "local", "--out", "x", "--columns", "key"),
            "expects pairs such as key=device, got 'key'",
        ),
        (("batch", "{fleet}", "--engine", "local", "--out", "x", "--order", "offset"), "missing column offset"),
        (("batch", "{fleet}", "--engine", "local", "--out", "{fleet}/results"), "lies inside the input"),
        (("batch", "{fleet}", "--out", "x", "--engine", "sparc"), "did you mean 'spark'?"),
        (("batch", "{fleet}", "--out", "x", "--engine", "local", "--follow"), "cannot be had with --engine local"),
        (
            ("batch", "{fleet}", "--out", "x", "--engine", "local", "--master", "local"),
            "--master says where Spark runs",
        ),
        (("batch", "{fleet}", "--out", "x", "--once"), "--once needs --follow"),
        (("batch", "{fleet}/measurements.parquet", "--out", "x", "--follow"), "needs a directory to follow"),
        (("batch", "{fleet}", "--out", "x", "--follow", "--clock", "data1"), "did you mean 'data'?"),
        (("batch", "nowhere", "--out", "x"), "nowhere is not there"),
        (("explain", "{fleet}", "--key", "k", "--from", "noon"), "--from expects a moment such as"),
        (("sample", "--out", "x", "--devices", "-1"), "devices must be a whole number between 0 and"),
        (("sample", "--out", "x", "--format", "xml"), "xml"),
    ],
)
def test_what_is_refused_is_said_in_a_sentence(
    small: Path, batchline: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = batchline(*(word.format(fleet=small) for word in words))
    assert answer.code == 1
    assert said in answer.err
    assert "Traceback" not in answer.err
    assert answer.out == ""
    assert not (tmp_path / "x").exists()


def test_a_wrong_span_is_a_wrong_command_line(small: Path, batchline: Call, tmp_path: Path) -> None:
    said = batchline("batch", small, "--engine", "local", "--out", tmp_path / "x", "--window", "5 parsecs")
    assert said.code == 2
    assert "expected a span such as 500ms" in said.err.replace("\n│ ", "")


def test_results_are_not_written_over_a_file(small: Path, batchline: Call, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        said = batchline("batch", small, "--engine", "local", "--out", out)
        assert said.code == 1
        assert "Traceback" not in said.err
    assert (tmp_path / "file").read_text() == "mine"


def test_results_of_spark_are_replaced(small: Path, batchline: Call, tmp_path: Path) -> None:
    parts = tmp_path / "results" / "batched.parquet"
    parts.mkdir(parents=True)
    (parts / "part-00000.parquet").touch()
    assert batchline("batch", small, "--engine", "local", "--out", tmp_path / "results").code == 0
    assert parts.is_file()


def test_without_pyspark_it_runs_in_this_process_and_says_so(
    small: Path, batchline: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(engines, "find_spec", lambda _: None)
    said = batchline("batch", small, "--out", tmp_path / "results")
    assert (said.code, said.err.count("\n")) == (0, 1)
    assert "pyspark is not installed" in said.err
    for words in (["--engine", "spark"], ["--follow"]):
        said = batchline("batch", small, "--out", tmp_path / "results", *words)
        assert said.code == 1
        assert "pip install 'batchline[spark]'" in said.err


@pytest.mark.parametrize("command", ["sample", "batch", "explain", "demo"])
def test_help_has_examples(batchline: Call, command: str) -> None:
    said = batchline(command, "--help")
    assert said.code == 0
    assert f"batchline {command}" in said.out.split("Examples")[1]


def test_the_command_runs_as_a_module_and_quickly_says_its_version() -> None:
    program = (
        "import sys, batchline.cli; print([m for m in ('pyarrow', 'numba', 'pandas', 'pyspark') if m in sys.modules])"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"
    command = [sys.executable, "-m", "batchline", "--version"]
    version = subprocess.run(command, capture_output=True, text=True, check=True)
    assert version.stdout.strip() == f"batchline {__version__}"


def test_a_reader_that_has_seen_enough_is_no_error(small: Path) -> None:
    key = pq.read_table(small / "measurements.parquet")["key"][0].as_py()
    command = f"{sys.executable} -m batchline explain {small} --key {key} --limit 200 | head -1"
    run = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
