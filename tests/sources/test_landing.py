"""A landing: whole files, nothing lost, and stamps that never go back."""

import errno
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from batchline.core.moment import us_of
from batchline.errors import InvalidName, LandingUnavailable
from batchline.sources.files import files_of, read_measurements
from batchline.sources.iso_time import us_from_text
from batchline.sources.landing import Landing
from batchline.sources.measured import Arrival, Malformed, Measured

NOW_US = us_from_text("2026-11-15T12:00:00Z") or 0
SECOND_US = 1_000_000


def measured(value: float, type: str = "temperature") -> Measured:
    return Measured("pump", type, NOW_US, value)


def arrive(landing: Landing, *parts: Measured | Malformed, now_us: int = NOW_US) -> Arrival:
    return landing.arrived(now_us, lambda _: parts)


def rows_in(directory: Path) -> list[dict[str, object]]:
    return [json.loads(line) for file in sorted(directory.glob("*.jsonl")) for line in file.read_text().splitlines()]


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.rglob("*") if path.is_file())


def test_what_has_landed_is_read_as_measurements_with_all_it_came_with(tmp_path: Path) -> None:
    with Landing(tmp_path, "mqtt") as landing:
        landing.land([arrive(landing, measured(1), measured(2.5, "pressure")._replace(more='{"unit":"bar"}'))])
    reading = read_measurements(files_of(tmp_path))
    assert reading.malformed.num_rows == 0
    first, second = reading.table.to_pylist()
    assert (us_of(first["event_time"]), us_of(first["receive_time"])) == (NOW_US, NOW_US)
    assert {name: first[name] for name in ("key", "type", "series", "sequence", "value", "more")} == {
        "key": "pump", "type": "temperature", "series": "mqtt", "sequence": 1, "value": 1.0, "more": "{}",
    }  # fmt: skip
    assert (second["type"], second["sequence"], second["more"]) == ("pressure", 2, '{"unit":"bar"}')


def test_a_whole_number_lands_as_the_same_kind_as_others_for_following_takes_no_other(tmp_path: Path) -> None:
    with Landing(tmp_path, "mqtt") as landing:
        for value in (1, 2.5):
            landing.land([arrive(landing, measured(float(value)))])
    kinds = {read_measurements([file]).table.schema.field("value").type for file in files_of(tmp_path)}
    assert len(kinds) == 1


def test_what_is_no_measurement_is_kept_below_with_its_reason_in_its_place(tmp_path: Path) -> None:
    with Landing(tmp_path, "mqtt") as landing:
        landing.land([arrive(landing, measured(1), Malformed("te/x", "not JSON", "{"), measured(2))])
    assert [row["sequence"] for row in rows_in(tmp_path)] == [1, 3]
    (row,) = rows_in(tmp_path / "malformed")
    assert row == {
        "file": "te/x", "line": 2, "reason": "not JSON", "text": "{", "receive_time": "2026-11-15T12:00:00.000000Z",
    }  # fmt: skip
    assert files_of(tmp_path) == list(tmp_path.glob("*.jsonl"))


def test_files_sort_by_time_whoever_writes_them(tmp_path: Path) -> None:
    with Landing(tmp_path, "b") as one, Landing(tmp_path, "a") as other:
        for second, landing in enumerate([one, other, one, other]):
            landing.land([arrive(landing, measured(second), now_us=NOW_US + second * SECOND_US)])
    assert [row["value"] for row in rows_in(tmp_path)] == [0.0, 1.0, 2.0, 3.0]


def test_receive_times_and_sequences_grow_also_after_a_restart_without_the_files(tmp_path: Path) -> None:
    stamps: list[tuple[int, int]] = []
    for start, now_us in enumerate([NOW_US, NOW_US - SECOND_US, NOW_US + SECOND_US]):
        with Landing(tmp_path, "mqtt") as landing:
            for _ in range(2):
                arrival = arrive(landing, measured(start), now_us=now_us)
                landing.land([arrival])
                stamps.append(arrival[:2])
        for file in tmp_path.glob("*.jsonl"):
            file.unlink()
    for column in zip(*stamps, strict=True):
        assert list(column) == sorted(set(column))


def test_no_two_that_come_have_the_same_receive_time_even_if_the_clock_stands_still(tmp_path: Path) -> None:
    with Landing(tmp_path, "mqtt") as landing:
        times = [arrive(landing, measured(1)).receive_us for _ in range(3)]
    assert times == [NOW_US, NOW_US + 1, NOW_US + 2]


def test_a_landing_whose_memory_was_removed_goes_on_after_its_files(tmp_path: Path) -> None:
    with Landing(tmp_path, "mqtt") as landing:
        last = arrive(landing, measured(1))
        landing.land([last])
    (tmp_path / ".mqtt.json").unlink()
    with Landing(tmp_path, "mqtt") as landing:
        again = arrive(landing, measured(2), now_us=NOW_US - SECOND_US)
    assert again.receive_us > last.receive_us
    assert again.sequence > last.sequence


def test_a_damaged_memory_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / ".mqtt.json").write_text('{"sequence": ')
    with pytest.raises(LandingUnavailable, match=r"\.mqtt\.json is damaged"):
        Landing(tmp_path, "mqtt")


def test_a_series_has_one_writer(tmp_path: Path) -> None:
    with Landing(tmp_path, "mqtt"), pytest.raises(LandingUnavailable, match="another process lands the series mqtt"):
        Landing(tmp_path, "mqtt")
    with Landing(tmp_path, "mqtt"):
        pass


def test_half_written_files_of_a_killed_writer_are_removed_and_those_of_another_series_kept(tmp_path: Path) -> None:
    with Landing(tmp_path, "mqtt") as landing:
        landing.land([arrive(landing, measured(1), Malformed("x", "y", "z"))])
    whole = names_in(tmp_path)
    halves = [
        path.with_name(f".{path.name.lstrip('.')}.new")
        for path in [tmp_path / ".mqtt.json", *tmp_path.rglob("*.jsonl")]
    ]
    others = tmp_path / ".http.json.new"
    for half in (*halves, others):
        half.write_text('{"seq')
    with Landing(tmp_path, "mqtt"):
        assert names_in(tmp_path) == sorted([*whole, others.name])


@pytest.mark.parametrize("series", ["", "a/b", ".hidden", "a b", "ä", "x" * 65])
def test_a_series_is_a_name_that_files_can_have(series: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidName, match="a series is named by"):
        Landing(tmp_path, series)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_file_too_large_leaves_nothing_and_lands_when_it_may(tmp_path: Path) -> None:
    with Landing(tmp_path, "mqtt") as landing:
        landing.land([arrive(landing, measured(0))])
        before = names_in(tmp_path)
        arrival = arrive(landing, *[measured(value, str(value)) for value in range(100)], Malformed("x", "y", "z"))
        with files_of_at_most(4096), pytest.raises(LandingUnavailable, match=os.strerror(errno.EFBIG)):
            landing.land([arrival])
        assert names_in(tmp_path) == before
        landing.land([arrival])
    assert len(rows_in(tmp_path)) == 101
    assert len(rows_in(tmp_path / "malformed")) == 1


def test_a_directory_that_is_gone_is_unavailable_until_it_is_back(tmp_path: Path) -> None:
    directory = tmp_path / "landing"
    with Landing(directory, "mqtt") as landing:
        arrival = arrive(landing, measured(1))
        directory.rename(tmp_path / "elsewhere")
        with pytest.raises(LandingUnavailable, match=os.strerror(errno.ENOENT)):
            landing.land([arrival])
        (tmp_path / "elsewhere").rename(directory)
        landing.land([arrival])
    assert [row["value"] for row in rows_in(directory)] == [1.0]


def test_a_file_where_the_directory_should_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "landing").touch()
    with pytest.raises(LandingUnavailable, match="cannot be written to"):
        Landing(tmp_path / "landing", "mqtt")


LANDS_FOR_EVER = """
import sys
from pathlib import Path
from batchline.sources.landing import Landing
from batchline.sources.measured import Measured
landing = Landing(Path(sys.argv[1]), "mqtt")
while True:
    arrival = landing.arrived(0, lambda _: [Measured("pump", "t", 0, 1.0)] * 5000)
    landing.land([arrival])
    print(arrival.sequence, flush=True)
"""


def test_of_a_writer_that_is_killed_every_file_is_whole_and_all_it_has_said_is_there(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LANDS_FOR_EVER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        said = [int(writer.stdout.readline()) for _ in range(5)]
        writer.send_signal(signal.SIGKILL)
        said += [int(line) for line in writer.stdout]
    with Landing(tmp_path, "mqtt") as landing:
        assert not list(tmp_path.rglob("*.new"))
        after = arrive(landing, measured(1))
    landed = [len(file.read_text().splitlines()) for file in tmp_path.glob("*.jsonl")]
    sequences = {row["sequence"] for row in rows_in(tmp_path)}
    assert set(landed) == {5000}
    assert set(said) <= sequences
    assert after.sequence > max(said)
