"""Consumers as processes of one name: stopped, updated, started twice and killed. Each message is handled once."""

import asyncio
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from batchline import Consumer, LeasedMessage, NewMessage, Timeline, open_store
from batchline.errors import ConsumerReplaced
from batchline.runtime import consumer as consumer_module
from tests.acceptance.consuming import NAME, REPLACED, SLOW, Notes, consuming
from tests.doubles import leases_of_all_sessions
from tests.stores.racing import PATIENCE_S
from tests.waiting import wait_until


@dataclass
class Jobs:
    """A topic, and the processes that consume it."""

    url: str
    notes: Notes
    timeline: Timeline
    ids: list[str] = field(default_factory=list)

    def create(self, count: int) -> None:
        """Create messages that are due at once."""
        new = [f"m{number}" for number in range(len(self.ids), len(self.ids) + count)]
        outcomes = self.timeline.create("jobs", [NewMessage(id=id) for id in new], producer_group="p")
        assert {one.outcome for one in outcomes} == {"created"}
        self.ids += new

    def create_until(self, what: Callable[[], object]) -> None:
        """Create messages, a few whenever none is left, until something is so."""
        while not what():
            self.create(5)
            wait_until(lambda: what() or self.timeline.count("jobs").total == 0)

    def create_one_and_see(self, process: int) -> bool:
        """Create a message. Return whether a process has begun to handle any."""
        self.create(1)
        return self.notes.begun_by(process) > 0

    def finish(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until nothing is left, and stop the process."""
        wait_until(lambda: self.timeline.count("jobs").total == 0)
        stop(process)

    def check_each_was_handled_once(self) -> None:
        assert self.notes.handled() == Counter(self.ids)
        self.notes.check_one_at_a_time()

    def kill(self, process: subprocess.Popen[bytes]) -> set[str]:
        """Kill a process. Return the ids that were leased under its name then.

        It is stopped first, so that all its notes are before the note of its end, and those of its successor after.
        """
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        self.notes.note("gone", process.pid)
        process.kill()
        process.wait()
        return {message.id for message in leases_of_all_sessions(self.timeline, NAME, "jobs")}


def stop(process: subprocess.Popen[bytes]) -> None:
    """Tell a process to end, and wait until it has done what it has in hand."""
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def jobs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Jobs]:
    """An empty store of each kind that outlives a process."""
    embedded = f"sqlite:///{tmp_path / 'batchline.db'}"
    url = embedded if request.param == "sqlite" else request.getfixturevalue(f"{request.param}_database")
    with open_store(url) as store:
        timeline = Timeline(store)
        timeline.create_topic("jobs", lease=timedelta(hours=1))
        yield Jobs(url, Notes(tmp_path / "notes"), timeline)


def test_a_consumer_that_is_told_to_end_finishes_what_it_has_and_one_that_is_killed_is_followed(jobs: Jobs) -> None:
    jobs.create(200)
    with consuming(jobs.url, jobs.notes) as process:
        jobs.notes.wait_for(20)
        stop(process)
    handled = jobs.notes.handled().total()
    assert jobs.timeline.my_leases(NAME) == []
    assert jobs.timeline.count("jobs").total == 200 - handled

    with consuming(jobs.url, jobs.notes) as process:
        jobs.notes.wait_for(handled + 20)
        in_hand = jobs.kill(process)

    with consuming(jobs.url, jobs.notes) as process:
        jobs.finish(process)
    times = jobs.notes.handled()
    assert set(times) == set(jobs.ids)
    assert {id for id, count in times.items() if count > 1} <= in_hand
    jobs.notes.check_one_at_a_time()


def test_a_rolling_update_handles_each_message_once(jobs: Jobs) -> None:
    jobs.create(100)
    with consuming(jobs.url, jobs.notes) as old:
        jobs.notes.wait_for(20)
        with consuming(jobs.url, jobs.notes) as new:
            jobs.create_until(lambda: jobs.notes.begun_by(new.pid))
            jobs.create(50)
            old.send_signal(signal.SIGTERM)
            # It may have seen the new one before the signal, and be about to exit.
            assert old.wait(PATIENCE_S) in (0, REPLACED, -signal.SIGTERM)
            jobs.create(50)
            jobs.finish(new)
    jobs.check_each_was_handled_once()


def test_a_second_start_replaces_the_first_and_each_message_is_handled_once(jobs: Jobs) -> None:
    jobs.create(50)
    with consuming(jobs.url, jobs.notes) as first:
        jobs.notes.wait_for(10)
        with consuming(jobs.url, jobs.notes) as second:
            jobs.create_until(lambda: jobs.notes.begun_by(second.pid))
            jobs.create_until(lambda: first.poll() is not None)
            assert first.returncode == REPLACED
            jobs.create(20)
            jobs.finish(second)
    jobs.check_each_was_handled_once()


def test_what_a_killed_process_held_goes_to_one_of_its_name_that_runs_already(jobs: Jobs) -> None:
    jobs.timeline.create("jobs", [NewMessage(SLOW, id="slow")], producer_group="p")
    jobs.ids.append("slow")
    with consuming(jobs.url, jobs.notes) as first:
        wait_until(lambda: jobs.notes.begun_by(first.pid))  # so it has something in hand, although it is replaced
        with consuming(jobs.url, jobs.notes) as second:
            wait_until(lambda: jobs.create_one_and_see(second.pid), pause_s=0.1)
            jobs.create(100)
            in_hand = jobs.kill(first)
            assert "slow" in in_hand
            jobs.finish(second)
    times = jobs.notes.handled()
    assert set(times) == set(jobs.ids)
    assert {id for id, count in times.items() if count > 1} <= in_hand
    jobs.notes.check_one_at_a_time()


def test_two_consumers_of_one_name_in_one_process_handle_each_of_five_messages_once(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_module, "BEAT_EVERY", timedelta(milliseconds=200))
    jobs.create(5)
    begun: Counter[str] = Counter()

    async def run() -> None:
        may_end, has_probe = asyncio.Event(), asyncio.Event()

        async def hold(message: LeasedMessage) -> None:
            begun[message.id] += 1
            await may_end.wait()

        async def handle(message: LeasedMessage) -> None:
            begun[message.id] += 1
            if message.id == "m5":
                has_probe.set()

        first = Consumer(jobs.timeline, "jobs", hold, consumer=NAME, concurrency=5)
        second = Consumer(jobs.timeline, "jobs", handle, consumer=NAME, concurrency=5)
        running = asyncio.ensure_future(first.run())
        await asyncio.to_thread(wait_until, lambda: first.in_hand == 5)
        other = asyncio.ensure_future(second.run())
        await asyncio.to_thread(jobs.create, 1)
        await has_probe.wait()  # the second has begun, and has taken what it could
        assert begun == Counter(jobs.ids)
        may_end.set()
        with pytest.raises(ConsumerReplaced):
            await running
        second.stop()
        await other
        assert first.outcomes + second.outcomes == {"done": 6}

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
    assert begun == Counter(jobs.ids)
    assert jobs.timeline.count("jobs").total == 0
