"""`batchline simulate`, as a user calls it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from batchline.cli.scenario_file import EXAMPLE
from tests.cli.conftest import Call, on_terminal
from tests.pictures.test_page import Outline

SMALL = """
longest = "1m"
[receiver]
limit = 1_000
[capacity]
shared = 1_000
factor = 100
[instances]
count = 2
[[jobs]]
name = "import"
on = "all"
records = 500
cost = 5
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def test_the_example_is_a_scenario_that_is_done_in_about_100_seconds(tmp_path: Path, batchline: Call) -> None:
    example = batchline("simulate", "--example")
    assert (example.code, example.err) == (0, "")
    assert example.out == EXAMPLE.read_text()
    (tmp_path / "capacity.toml").write_text(example.out)
    said = batchline("simulate", tmp_path / "capacity.toml", "--json")
    summary = json.loads(said.out)["summary"]
    assert said.code == 0
    assert 100 <= summary["seconds"] <= 101.5
    assert summary["largest_second"] == summary["limit"] == {"cost": 20_000}


def test_all_that_the_example_has_as_a_comment_works(tmp_path: Path, batchline: Call) -> None:
    lines = [
        line.removeprefix("# ") if "=" in line or "[" in line else line for line in EXAMPLE.read_text().split("\n")
    ]
    lines = [line for line in lines if not line.startswith("provisioned")]
    (tmp_path / "all.toml").write_text("\n".join(lines))
    said = batchline("simulate", tmp_path / "all.toml", "--set", "longest=5s", "--json")
    assert (said.code, said.err) == (1, "")
    assert {job["name"] for job in json.loads(said.out)["jobs"]} == {"import", "live"}


def test_a_person_sees_charts_jobs_and_a_verdict(small: Path, batchline: Call) -> None:
    said = batchline("simulate", small)
    assert (said.code, said.err) == (0, "")
    for words in ("2 instances share 1,000 by 100", "Rate", "Backlog", "Share", "◂ limit", "instance 2", "import"):
        assert words in said.out
    assert "✓ 1,000 records were done after" in said.out
    assert "✓ never more than the limit came within a second" in said.out
    assert "lease calls a second" in said.out


@pytest.mark.parametrize("columns", [80, 120])
def test_it_fits_on_a_terminal(small: Path, columns: int) -> None:
    seen = on_terminal("simulate", small, columns=columns)
    charts = seen[seen.index("Rate") : seen.index("job ")]
    assert max(map(len, charts.split("\n"))) <= columns
    assert "█" in charts


def test_programs_get_every_second(small: Path, batchline: Call) -> None:
    found = json.loads(batchline("simulate", small, "--json").out)
    assert found["summary"]["records"] == sum(job["done"] for job in found["jobs"]) == 1_000
    assert sum(sum(one["rate"]["cost"]) for one in found["instances"]) == 5_000
    assert {len(one["partitions"]) for one in found["instances"]} == {len(found["at_s"])}


def test_the_page_has_the_charts(small: Path, tmp_path: Path, batchline: Call) -> None:
    said = batchline("simulate", small, "--out", tmp_path / "results")
    html = (tmp_path / "results" / "capacity.html").read_text()
    outline = Outline(html)
    assert "results/capacity.html" in said.out.replace("\n", "")
    assert outline.open == []
    assert (outline.seen.count("svg"), outline.seen.count("h2")) == (3, 5)
    assert {"All was done", "Rate", "Backlog", "Share", "Jobs"} <= set(outline.texts)


def test_a_single_value_is_changed_on_the_command_line(small: Path, batchline: Call) -> None:
    words = ["capacity.factor=500", "instances.2.start=2s", "jobs.1.records=100", "dispatcher.flush_interval='50ms'"]
    said = batchline("simulate", small, *(word for change in words for word in ("--set", change)), "--json")
    found = json.loads(said.out)
    assert found["summary"]["records"] == 200
    assert found["jobs"][1]["began_s"] >= 2
    assert max(found["instances"][0]["partitions"]) <= 2


def test_a_value_is_taken_out_by_setting_nothing(small: Path, batchline: Call) -> None:
    out = ("--set", "capacity.shared=", "--set", "capacity.factor=", "--set", "capacity.provisioned=500")
    assert "2 instances, 500 for each" in batchline("simulate", small, *out).out


def test_what_is_not_done_in_time_is_exit_code_1(small: Path, batchline: Call) -> None:
    said = batchline("simulate", small, "--set", "longest=2s")
    assert said.code == 1
    assert "of 1,000 records were not done within 2s" in said.out


def test_a_limit_that_is_exceeded_is_exit_code_1(small: Path, batchline: Call) -> None:
    said = batchline("simulate", small, "--set", "capacity.reserved=500")
    assert said.code == 1
    assert "all instances together may send more than it takes" in said.out.replace("\n", " ")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("capacity.factr=5", "[capacity] has no key 'factr'; did you mean 'factor'?"),
        ("capacity.factor=1", "[capacity] shared / factor must be at most 500 partitions"),
        ("jobs.3.cost=1", "expected a number from 1 to 1, got '3'"),
        ("longest.a.b=1", "there is no table to set 'b' in"),
        ("nothing", "--set expects a key and a value such as capacity.factor=500, got 'nothing'"),
    ],
)
def test_what_is_no_scenario_is_exit_code_2(small: Path, batchline: Call, change: str, said: str) -> None:
    found = batchline("simulate", small, "--set", change)
    assert (found.code, found.out) == (2, "")
    assert said in found.err


def test_a_file_that_is_not_there_or_no_toml_is_exit_code_2(tmp_path: Path, batchline: Call) -> None:
    assert batchline("simulate", tmp_path / "none.toml").code == 2
    (tmp_path / "bad.toml").write_text("limit = = 3")
    found = batchline("simulate", tmp_path / "bad.toml")
    assert found.code == 2
    assert "bad.toml is no TOML" in found.err.replace("\n", "")


def test_without_a_file_it_says_how_to_get_one(batchline: Call) -> None:
    found = batchline("simulate")
    assert (found.code, found.out) == (2, "")
    assert "batchline simulate --example > capacity.toml" in found.err


def test_it_needs_no_columns(small: Path) -> None:
    """Nothing of pyarrow or numpy is loaded, unless a page is written."""
    program = (
        "import sys; from batchline.cli import app; app(['simulate', sys.argv[1], '--json'], standalone_mode=False); "
        "assert not {'pyarrow', 'numpy'} & set(sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program, small], capture_output=True, text=True)
    assert (run.stderr, run.returncode) == ("", 0)
