"""`batchline demo`: the whole path, watched and checked."""

import asyncio
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import typer

from batchline import open_store
from batchline.cli import demo
from batchline.cli.demo_evidence import Evidence, statements_of
from batchline.cli.demo_landing import FILES, Landed, land
from batchline.cli.demo_receiver import Arrival, Receiver, Temper
from batchline.cli.demo_report import delivered_chart, pauses_of, report_lines, seconds_to_arrive
from batchline.cli.demo_stages import Stage, Stages, recent_rates, stage_line
from batchline.core.consignment import Consignment
from batchline.core.fanout import FanoutStatus
from batchline.errors import InvalidInput, Throttled, Undelivered
from batchline.local import Batched, batch_reading, read_files
from batchline.sinks.http import HttpSink
from batchline.sources.sample import Fleet, sample_fleet
from tests.cli.conftest import Call
from tests.runtime.reports import reports_in

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
WELL = Temper(1e9, 1e9, failing=0, cutting=0)


# --- end to end ---


def test_the_whole_path_is_run_and_what_is_said_of_it_is_true(tmp_path: Path, batchline: Call) -> None:
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "left.jsonl").write_text("by a run that was killed\n")
    (tmp_path / "kept.txt").write_text("not the demo's")
    words = ("--out", tmp_path, "--devices", 20, "--minutes", 0.5, "--capacity", 20_000)
    said = batchline("demo", *words)
    assert (said.code, "✗" in said.out) == (0, False), said
    stages = ("source", "batches", "parcels", "timeline", "dispatcher", "sink", "ack")
    assert [line.split()[0] for line in said.out.splitlines() if line.startswith(stages)][:7] == list(stages)
    assert len([line for line in said.out.splitlines() if line.startswith("✓")]) == 8
    arrived = re.search(r"✓ each of ([\d,]+) accepted measurements arrived exactly once", said.out)
    assert arrived is not None
    assert f"{arrived[1]} batched" in said.out
    assert "completion was told once" in said.out
    page = (tmp_path / "index.html").read_text()
    assert page.count("<svg") == 6
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    with open_store(f"sqlite:///{tmp_path}/batchline.db") as store:
        (_, ran), (_, worked) = reports_in(store, "run")[-1], reports_in(store, "work")[-1]
    assert f"{ran['batched']:,}" == f"{worked['measurements']['delivered']:,}" == arrived[1]
    assert (tmp_path / "kept.txt").exists()
    assert not (tmp_path / "landing" / "left.jsonl").exists()


# --- what is left of a run, made up ---


@pytest.fixture(scope="module")
def fleet() -> pa.Table:
    return sample_fleet(Fleet(devices=20, minutes=0.5))


@pytest.fixture(scope="module")
def landed(fleet: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> tuple[Landed, Path]:
    directory = tmp_path_factory.mktemp("landing")
    return land(fleet, directory, 2), directory


@pytest.fixture(scope="module")
def evidence(fleet: pa.Table, landed: tuple[Landed, Path]) -> Evidence:
    """A run in which all is well, by other means than Spark's and HTTP's."""
    pipeline = demo.pipeline_of(Path("nowhere"), 20_000, "http://127.0.0.1:1/")
    batched = batch_reading(read_files(landed[1], {}), pipeline.batch, ("sequence",))
    receiver, parcels = Receiver(WELL), parcels_of(batched)
    for place, parcel in enumerate(parcels):
        receiver.take(parcel, parcel["parcel"], landed[0].at_s[-1] + place / 100)
    done = len(parcels)
    status = FanoutStatus("demo-1", "complete", done, 0, done, 0, 0, None, NOON, NOON, NOON, None, None, NOON)
    return Evidence(
        pipeline,
        fleet,
        landed[0],
        batched.accepted,
        batched.rejected,
        batched.batches,
        batched.malformed.num_rows,
        [status],
        ["demo-1"],
        receiver.arrivals,
        receiver.held,
    )


def parcels_of(batched: Batched, size: int = 200) -> list[dict[str, Any]]:
    rows = [
        {
            "key": row["key"],
            "type": row["type"],
            "sequence": row["sequence"],
            "event_time": row["event_time"].isoformat(),
        }
        for row in batched.accepted.to_pylist()
    ]
    return [
        {
            "parcel": f"parcel-{number}",
            "publication": "demo-1",
            "lane": 0,
            "number": number,
            "count": len(rows[begin : begin + size]),
            "measurements": rows[begin : begin + size],
        }
        for number, begin in enumerate(range(0, len(rows), size), 1)
    ]


def test_all_that_is_said_of_a_good_run_is_true(evidence: Evidence) -> None:
    assert [one.why_not for one in statements_of(evidence)] == [""] * 8


def dropped(evidence: Evidence) -> Evidence:
    parcel, *_ = evidence.held
    return replace(evidence, held={**evidence.held, parcel: evidence.held[parcel][1:]})


def rejected_too(evidence: Evidence) -> Evidence:
    parcel, *_ = evidence.held
    row = evidence.rejected.slice(0, 1).to_pylist()[0]
    wrong = row["key"], row["type"], row["event_time"].isoformat(), row["sequence"]
    return replace(evidence, held={**evidence.held, parcel: [*evidence.held[parcel], wrong]})


def swapped(evidence: Evidence) -> Evidence:
    first, second, *others = evidence.arrivals
    return replace(evidence, arrivals=[second, first, *others])


def elsewhere(evidence: Evidence) -> Evidence:
    renamed = pc.replace_substring(evidence.batched.column("batch_id"), "pump", "pomp")
    place = evidence.batched.column_names.index("batch_id")
    return replace(evidence, batched=evidence.batched.set_column(place, "batch_id", renamed))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (dropped, "1 have not arrived"),
        (rejected_too, "1 arrived and were not accepted"),
        (swapped, "did not: lane 0"),
        (elsewhere, "measurements are elsewhere"),
        (lambda evidence: replace(evidence, told=[]), "told 0 times"),
        (lambda evidence: replace(evidence, malformed=evidence.malformed - 1), "are accounted for"),
    ],
)
def test_what_is_not_true_is_said(
    spoil: Callable[[Evidence], Evidence],
    said: str,
    evidence: Evidence,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert not demo.report(spoil(evidence), tmp_path, "Batchline", 0)
    (wrong,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("✗")]
    assert said in wrong
    page = (tmp_path / "index.html").read_text()
    assert page.count('class="wrong"') == 1
    assert "does not hold" in page


@pytest.mark.parametrize("all_true", [True, False])
def test_it_says_how_to_see_its_pages_and_ends_with_1_if_something_is_not_true(
    all_true: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with nullcontext() if all_true else pytest.raises(typer.Exit, check=lambda ended: ended.exit_code == 1):
        demo.leave(tmp_path, None, all_true=all_true)
    assert "batchline serve --store sqlite:///" in capsys.readouterr().out


def test_it_stays_with_the_pages_until_it_is_interrupted(tmp_path: Path) -> None:
    leave = "import sys, pathlib; from batchline.cli import demo; "
    leave += "demo.leave(pathlib.Path(sys.argv[1]), '127.0.0.1:0', all_true=True)"
    words = [sys.executable, "-c", leave, str(tmp_path)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as staying:
        assert staying.stderr is not None
        url = staying.stderr.readline().split()[-1]
        assert httpx2.get(f"{url}/v1/pipeline/keys").json() == {"keys": [], "tables": True}
        staying.send_signal(signal.SIGINT)
        assert staying.wait(20) == 0


def test_where_it_is_to_stay_is_looked_at_before_the_run() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(InvalidInput, match="cannot listen"):
        demo.check_free(f"127.0.0.1:{taken.getsockname()[1]}")


def test_the_terminal_shows_windows_verdicts_and_what_was_delivered(evidence: Evidence) -> None:
    seconds = seconds_to_arrive(evidence)
    lines = "\n".join(str(line) for line in report_lines(evidence, seconds, 100))
    assert "├" in lines
    assert "Delivered against capacity" in lines
    assert "from event to delivery" in lines


def test_the_time_to_arrive_is_of_two_clocks(evidence: Evidence, landed: tuple[Landed, Path], fleet: pa.Table) -> None:
    seconds = seconds_to_arrive(evidence)
    assert len(seconds) == evidence.batched.num_rows
    (parcel, (first, *_)), *_ = evidence.held.items()
    sequence = first[3]
    row = fleet.slice(sequence, 1).to_pylist()[0]
    on_its_way_s = (row["receive_time"] - row["event_time"]).total_seconds()
    at_s = next(one.at_s for one in evidence.arrivals if one.parcel == parcel)
    assert seconds[0] == pytest.approx(on_its_way_s + at_s - landed[0].at_s[0])


# --- its files ---


def test_the_fleet_lands_as_files_with_a_few_lines_that_are_none(fleet: pa.Table, landed: tuple[Landed, Path]) -> None:
    about, directory = landed
    files = sorted(directory.iterdir())
    reading = read_files(directory, {})
    assert len(files) == FILES == len(about.at_s)
    assert about.lines == sum(file.read_bytes().count(b"\n") for file in files) == fleet.num_rows + about.malformed
    assert (reading.table.num_rows, reading.malformed.num_rows) == (fleet.num_rows, about.malformed)
    assert FILES <= about.malformed <= 3 * FILES
    assert sorted(reading.table.column("sequence").to_pylist()) == list(range(fleet.num_rows))


def test_a_measurement_landed_with_its_file() -> None:
    about = Landed(6, 6, 0, [0, 2, 4], [1.0, 2.0, 3.0])
    assert [about.landed_at_s(sequence) for sequence in range(6)] == [1, 1, 2, 2, 3, 3]


def test_the_capacity_is_round_and_lets_delivery_be_watched() -> None:
    assert demo.capacity_for(169_000) == 9_500
    assert demo.capacity_for(10) == 500


# --- its receiver ---


def parcel(number: int) -> Consignment:
    payload = b'[{"key":"pump-1","type":"flow","event_time":"2026-11-15T12:00:00Z","sequence":%d}]' % number
    return Consignment(f"pump-1@{number}", "demo-1", 0, number, None, 1, NOON.isoformat(), NOON.isoformat(), payload)


def test_a_parcel_that_was_taken_and_cut_is_known_when_it_comes_again() -> None:
    async def send(url: str) -> None:
        sink = HttpSink(url)
        try:
            with pytest.raises(Undelivered):
                await sink.send([parcel(1)])
            await sink.send([parcel(1)])
        finally:
            await sink.close()

    with Receiver(replace(WELL, cutting=1.0)) as receiver:
        asyncio.run(send(receiver.url))
    assert [one.answer for one in receiver.arrivals] == ["cut", "repeated"]
    assert receiver.held == {"pump-1@1": [("pump-1", "flow", "2026-11-15T12:00:00Z", 1)]}
    assert receiver.measurements == 1


def test_the_receiver_fails_and_throttles_as_others_do() -> None:
    async def send(url: str) -> None:
        sink = HttpSink(url)
        try:
            with pytest.raises(Undelivered, match="500"):
                await sink.send([parcel(1)])
            with pytest.raises(Throttled) as throttled:
                await sink.send([parcel(2)])
            assert throttled.value.retry_after is not None
            assert throttled.value.retry_after.total_seconds() == 1
        finally:
            await sink.close()

    with Receiver(Temper(1, 1, failing=1.0, cutting=0)) as receiver:
        asyncio.run(send(receiver.url))
    assert receiver.answers == {"failed": 1, "throttled": 1}
    assert receiver.held == {}


# --- while it runs ---


def arrival(at_s: float, answer: str = "taken", count: int = 100) -> Arrival:
    return Arrival(at_s, f"parcel-{at_s}", "demo", 0, 1, count, answer)


def test_rates_are_of_the_last_seconds_the_present_one_last() -> None:
    came = [arrival(0.5), arrival(7.5), arrival(8.2), arrival(9.9), arrival(9.95)]
    assert recent_rates(came, 10.0, 3) == [100, 100, 200]


def test_a_stage_is_a_bar_or_goes_up_and_down() -> None:
    assert Stage("sink", 5, 0.5, 0, "").bar() == "█" * 10 + "░" * 10
    assert Stage("dispatcher", 5, [0, 1, 400, 800], 0, "").bar() == " ▁▄█"
    assert stage_line(Stage("ack", 1_234, 1.0, 45.4, "of 2,000 parcels")) == (
        "ack            1,234       45/s  of 2,000 parcels"
    )


def test_a_stage_is_said_when_it_has_ended(
    landed: tuple[Landed, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = Stages(landed[0], Receiver(WELL), tmp_path, 9_500, 8)
    said: list[list[str]] = []
    with stages.shown():
        for step in ("reading", "batching", "writing", "packing", "publishing", "delivering"):
            stages.watch(step, 1, 2)
            said.append([line.split()[0] for line in capsys.readouterr().out.splitlines()])
    said.append([line.split()[0] for line in capsys.readouterr().out.splitlines()])
    assert said == [[], ["source"], [], ["batches"], [], ["parcels", "timeline"], ["dispatcher", "sink", "ack"]]


def test_pauses_are_from_a_429_until_something_comes_again() -> None:
    came = [arrival(1.0), arrival(2.0, "throttled"), arrival(2.01, "throttled"), arrival(3.5), arrival(5.0)]
    (pause,) = pauses_of(came)
    assert (pause.begin_s, pause.end_s) == pytest.approx((1.01, 2.5))
    chart = delivered_chart(came, 9_500)
    assert {curve.name: list(curve.values) for curve in chart.curves} == {
        "taken": [100, 0, 100, 0, 100],
        "answered 429": [0, 200, 0, 0, 0],
    }
