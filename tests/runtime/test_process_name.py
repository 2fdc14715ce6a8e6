"""Names of processes: whether one has ended is seen from its machine, and never guessed."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from batchline import Timeline, open_store
from batchline.runtime import process_name as names
from batchline.runtime.consumer_session import ConsumerSession
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


def test_a_system_without_proc_takes_no_process_for_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = process_name()
    monkeypatch.setattr(names, "PROC", tmp_path)
    assert process_name() == ""
    assert not has_ended(name), "it may run on another machine, which has /proc"


def test_a_process_that_proc_hides_is_alive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Mounted with hidepid=2, /proc shows no processes of other users."""
    place, pid, started = process_name().rsplit("/", 2)
    for path in ("sys", "self"):
        (tmp_path / path).symlink_to(f"/proc/{path}")
    monkeypatch.setattr(names, "PROC", tmp_path)
    assert not has_ended(f"{place}/{pid}/{started}")
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    assert has_ended(f"{place}/{process.pid}/{started}")


def test_a_session_is_of_the_process_that_runs_it_not_of_the_one_that_built_it() -> None:
    with open_store("memory://") as store:
        session = ConsumerSession(Timeline(store), "jobs", "w")
        read, write = os.pipe()
        if (pid := os.fork()) == 0:
            os.write(write, session.row().process.encode())
            os._exit(0)
        os.waitpid(pid, 0)
        os.close(write)
        with os.fdopen(read, "rb") as told:
            assert f"/{pid}/" in told.read().decode()


def test_containers_of_a_machine_are_one_host_whatever_host_names_they_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "container-1")
    if (names.PROC / "sys/kernel/random/boot_id").exists():
        found = names.machine_name()
        monkeypatch.setattr(socket, "gethostname", lambda: "container-2")
        assert names.machine_name() == found
    monkeypatch.setattr(names, "PROC", tmp_path)
    assert names.machine_name() == socket.gethostname(), "no system tells it there"
