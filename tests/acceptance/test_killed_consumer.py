"""Consumers as processes, told to end and killed: what they held is finished by who is started after them."""

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest

from batchline import NewMessage, Timeline, open_store
from tests.stores.racing import PATIENCE_S

MESSAGES = 200


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store of each kind that outlives a process."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'batchline.db'}"
    return str(request.getfixturevalue(f"{request.param}_database"))


@contextmanager
def consuming(url: str, noted: Path) -> Iterator[subprocess.Popen[bytes]]:
    program = [sys.executable, "-m", "tests.acceptance.consuming", url, str(noted)]
    process = subprocess.Popen(program)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for_lines(noted: Path, count: int) -> list[str]:
    """The ids of messages that were handled, when there are so many of them."""
    for _ in range(int(PATIENCE_S * 100)):
        lines = noted.read_text().splitlines() if noted.exists() else []
        if len(lines) >= count:
            return lines
        Event().wait(0.01)  # another process writes the file: there is nothing else to wait for
    raise AssertionError(f"{len(lines)} of {count} messages were handled")


def test_a_consumer_that_is_told_to_end_finishes_what_it_has_and_one_that_is_killed_is_followed(
    url: str, tmp_path: Path
) -> None:
    noted = tmp_path / "noted"
    with open_store(url) as store:
        timeline = Timeline(store)
        timeline.create_topic("jobs")
        ids = [f"m{number}" for number in range(MESSAGES)]
        timeline.create("jobs", [NewMessage(id=id) for id in ids], producer_group="p")

        with consuming(url, noted) as process:
            wait_for_lines(noted, 20)
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0
        handled = noted.read_text().splitlines()
        assert timeline.my_leases("worker") == []
        assert timeline.count("jobs").total == MESSAGES - len(handled)

        with consuming(url, noted) as process:
            wait_for_lines(noted, len(handled) + 20)
            process.kill()
            process.wait()
        in_hand = {message.id for message in timeline.my_leases("worker")}

        with consuming(url, noted) as process:
            wait_for_lines(noted, MESSAGES)
            for _ in range(int(PATIENCE_S * 100)):
                if timeline.count("jobs").total == 0:
                    break
                Event().wait(0.01)  # as above
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0
        assert timeline.count("jobs").total == 0
    times = Counter(noted.read_text().splitlines())
    assert set(times) == set(ids)
    assert {id for id, count in times.items() if count > 1} <= in_hand
