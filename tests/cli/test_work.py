"""`batchline work` and what `batchline run` refuses, as a user calls them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from batchline import Store, Timeline, Tracker, open_store
from batchline.cli import stores
from batchline.core.consignment import Consignment
from batchline.errors import StoreUnavailable
from batchline.runtime.publisher import Publisher, make_topics
from tests.cli.conftest import Call
from tests.runtime.reports import documented, keys_of, reports_in

PARCELS, LANES = 5, 3


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store with parcels of a fanout on the timeline."""
    url = f"sqlite:///{tmp_path}/store.db"
    with open_store(url) as opened:
        make_topics(Timeline(opened), "parcels")
        tracker = Tracker(opened)
        tracker.open("import")
        for lane in range(LANES):
            Publisher(opened, "parcels", "import").post([parcel(lane, number) for number in range(1, PARCELS + 1)])
        tracker.seal("import")
    return url


def parcel(lane: int, number: int) -> Consignment:
    payload = json.dumps([{"key": f"k{lane}", "n": number}]).encode()
    return Consignment(f"k{lane}@{number}", "import", lane, number, None, 1, "a", "b", payload)


def test_a_worker_delivers_what_is_there_and_tells_what_that_ended(store: str, tmp_path: Path, batchline: Call) -> None:
    said = batchline("work", "--store", store, "--sink", f"files:{tmp_path}/in", "--until-empty", "--json")
    assert said.code == 0
    assert json.loads(said.out) == {
        "parcels": {"delivered": PARCELS * LANES},
        "measurements": {"delivered": PARCELS * LANES, "refused": 0},
        "ended": [{"fanout": "import", "state": "complete"}],
    }
    assert len(list((tmp_path / "in").iterdir())) == PARCELS * LANES
    again = batchline("work", "--store", store, "--sink", f"files:{tmp_path}/in", "--until-empty")
    assert again.out.startswith("0 parcels delivered")


def test_a_worker_leaves_reports_of_what_it_did(store: str, tmp_path: Path, batchline: Call) -> None:
    words = ("--capacity", 1000, "--cost", "measurement", "--shared", store, "--name", "one", "--until-empty")
    assert batchline("work", "--store", store, "--sink", f"files:{tmp_path}/in", *words).code == 0
    with open_store(store) as opened:
        row, last = reports_in(opened, "work")[-1]
    assert keys_of(last) == documented("work")
    assert (row.name, last["ended"], last["topic"]) == ("one", True, "parcels")
    assert (last["parcels"]["delivered"], last["measurements"]["delivered"]) == (PARCELS * LANES, PARCELS * LANES)
    assert (last["used"], last["fanouts_ended"], last["in_hand"], last["lanes"]) == (PARCELS * LANES, 1, 0, 0)
    assert (last["capacity"]["name"], last["capacity"]["limit"]) == ("capacity", 1000)


def test_a_worker_of_a_pipelines_file_keeps_the_order_of_lanes(store: str, tmp_path: Path) -> None:
    path = tmp_path / "pipeline.toml"
    path.write_text(
        f'name = "p"\nout = "{tmp_path}/out"\n[source]\naddress = "in"\n[publish]\nstore = "{store}"\n'
        '[capacity]\nper_second = 1000\n[sink]\naddress = "stdout:"\n'
    )
    command = [sys.executable, "-m", "batchline", "work", str(path), "--until-empty", "--name", "one"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    lines = [json.loads(line) for line in said.stdout.splitlines() if line.startswith("{")]
    for lane in range(LANES):
        assert [one["number"] for one in lines if one["lane"] == lane] == list(range(1, PARCELS + 1))
    assert "fanout import is complete" in said.stdout


def test_who_reads_no_further_ends_the_worker_and_loses_nothing(store: str) -> None:
    words = f"{sys.executable} -m batchline work --store {store} --until-empty | true"
    said = subprocess.run(["sh", "-c", words], capture_output=True, text=True, check=True, timeout=60)
    assert said.stderr == ""
    with open_store(store) as opened:
        assert Timeline(opened).count("parcels").processing == 0
        assert Tracker(opened).status("import").pending > 0


def test_what_is_asked_for_wrongly_is_answered(store: str, tmp_path: Path, batchline: Call) -> None:
    assert "a pipeline's file, or --store" in batchline("work").err
    assert "did you mean" in batchline("work", "--store", store, "--sink", "stdot:").err
    missing = batchline("run", tmp_path / "no.toml")
    assert (missing.code, "cannot be read" in missing.err) == (1, True)
    (tmp_path / "bad.toml").write_text('name = "x"\nout = "o"\n[sorce]\n')
    assert "did you mean 'source'" in " ".join(batchline("run", tmp_path / "bad.toml").err.split())


def test_a_store_that_is_away_is_waited_for(tmp_path: Path, batchline: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    away = iter([StoreUnavailable("nobody answers"), StoreUnavailable("nobody answers")])

    def open_later(url: str) -> Store:
        for error in away:
            raise error
        return open_store(url)

    monkeypatch.setattr(stores, "open_store", open_later)
    monkeypatch.setattr(stores, "PAUSE_S", 0.001)
    said = batchline("work", "--store", f"sqlite:///{tmp_path}/s.db", "--until-empty")
    assert said.code == 0
    assert said.err.count("the store does not answer, it is waited for up to 30 s: nobody answers") == 1
    assert "the store is there" in said.err


@pytest.mark.parametrize("command", ["work", "run"])
def test_a_store_that_stays_away_is_not_waited_for_longer_than_asked(
    tmp_path: Path, batchline: Call, command: str
) -> None:
    (tmp_path / "p.toml").write_text(
        'name = "p"\nout = "o"\n[source]\naddress = "in"\n[publish]\nstore = "postgresql://127.0.0.1:1/none"\n'
    )
    said = batchline(command, tmp_path / "p.toml", "--wait", "0s")
    assert (said.code, "waited for" in said.err) == (4, False)
    assert said.err.startswith("batchline: ")
