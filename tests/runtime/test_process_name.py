"""Names of processes: whether one has ended is seen from its machine, and never guessed."""

import subprocess
import sys

import pytest

from batchline.runtime.process_name import has_ended, process_name
from tests.waiting import wait_until

NAME = "from batchline.runtime.process_name import process_name; print(process_name(), flush=True); input()"


def test_a_process_has_ended_once_it_is_killed_and_not_before() -> None:
    with subprocess.Popen([sys.executable, "-c", NAME], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        name = process.stdout.readline().decode().strip()
        assert not has_ended(name)
        process.kill()
        wait_until(lambda: has_ended(name))  # although its parent has not asked for its end
    assert has_ended(name)


def test_this_process_is_alive() -> None:
    assert process_name() == process_name()
    assert not has_ended(process_name())


def test_another_process_with_the_same_pid_is_another_process() -> None:
    place, pid, started = process_name().rsplit("/", 2)
    assert has_ended(f"{place}/{pid}/{int(started) - 1}")


@pytest.mark.parametrize("name", ["", "x", "a/b/c", "machine/pid:[1]/1/1", "//", "é" * 300])
def test_what_cannot_be_seen_from_here_counts_as_alive(name: str) -> None:
    assert not has_ended(name)
