"""A consumer as a process of its own, which notes when it begins and ends to handle a message; and what notes say.

All processes append lines to one file: `begun m7 4711`, `done m7 4711`. The test adds `gone 4711` as it kills one.
"""

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final
from unittest.mock import patch

from batchline import Consumer, LeasedMessage, Timeline, open_store
from batchline.errors import ConsumerReplaced
from batchline.runtime import consumer as consumer_module
from tests.waiting import wait_until

__all__ = ["LEASE", "NAME", "REPLACED", "SLOW", "Notes", "consuming", "main"]

NAME: Final = "worker"
#: Longer than any test: what a killed consumer held comes back early only to a consumer of its name.
LEASE: Final = timedelta(hours=1)
#: The exit code of a consumer that was started elsewhere under its name.
REPLACED: Final = 3
#: The body of a message that takes a minute at its first attempt.
SLOW: Final = b"slow"


@dataclass(frozen=True)
class Notes:
    """The file in which all processes note what they do."""

    path: Path

    def note(self, *words: object) -> None:
        """Append a line, whole."""
        with self.path.open("a") as file:
            file.write(" ".join(map(str, words)) + "\n")

    def lines(self) -> list[list[str]]:
        """All lines, by word."""
        return [line.split() for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def handled(self) -> Counter[str]:
        """How many times each message was handled to its end."""
        return Counter(line[1] for line in self.lines() if line[0] == "done")

    def begun_by(self, process: int) -> int:
        """How many messages a process has begun to handle."""
        return sum(line[0] == "begun" and line[2] == str(process) for line in self.lines())

    def wait_for(self, count: int) -> None:
        """Wait until this number of messages was handled."""
        wait_until(lambda: self.handled().total() >= count)

    def check_one_at_a_time(self) -> None:
        """Check that no message was in two hands at once; those of a process end when it is killed."""
        hands: dict[str, str] = {}
        for what, *rest in self.lines():
            if what == "gone":
                hands = {id: process for id, process in hands.items() if process != rest[0]}
                continue
            id, process = rest
            if what == "begun":
                assert id not in hands, f"{id} is begun by {process} and in the hands of {hands[id]}"
                hands[id] = process
            else:
                assert hands.pop(id, process) == process


@contextmanager
def consuming(url: str, notes: Notes) -> Iterator[subprocess.Popen[bytes]]:
    """Run a consumer as a process."""
    program = [sys.executable, "-m", "tests.acceptance.consuming", url, str(notes.path)]
    process = subprocess.Popen(program)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def main(url: str, notes: Notes) -> int:
    """Consume until SIGTERM, or until replaced. Return the exit code."""
    with open_store(url) as store:

        async def handle(message: LeasedMessage) -> None:
            notes.note("begun", message.id, os.getpid())
            await asyncio.sleep(60 if message.attempts == 1 and message.body == SLOW else 0.02)
            notes.note("done", message.id, os.getpid())

        consumer = Consumer(Timeline(store), "jobs", handle, consumer=NAME, concurrency=8, lease=LEASE)
        try:
            # So that a test need not wait for five seconds until another process is missed.
            with patch.object(consumer_module, "BEAT_EVERY", timedelta(seconds=1)):
                asyncio.run(consumer.run(signals=True))
        except ConsumerReplaced:
            return REPLACED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Notes(Path(sys.argv[2]))))
