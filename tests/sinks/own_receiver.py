"""A receiver in a process of its own, which can be killed at any moment and started again where it was."""

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.servers.launch import die_with_keeper, hold_port
from tests.sinks.arrivals import Arrival
from tests.sinks.fault import Fault

__all__ = ["OwnReceiver", "exchange", "own_receiver"]

ROOT = Path(__file__).parents[2]
ANSWER_S = 30


class OwnReceiver:
    """Start it, kill it, start it again, from the main thread: what has arrived stays, its faults do not."""

    def __init__(self, port: int, state: Path):
        self.port, self._state = port, state
        self._process: subprocess.Popen[str] | None = None
        self.url = f"http://127.0.0.1:{port}/measurements"

    def start(self) -> None:
        """Start it; returns when it listens."""
        words = [sys.executable, "-m", "tests.sinks.receiver", f"--port={self.port}", f"--state={self._state}"]
        orphaned = die_with_keeper(signal.SIGKILL)
        self._process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, preexec_fn=orphaned)
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise RuntimeError("the receiver did not start")

    def kill(self) -> None:
        """Kill it (SIGKILL), if it runs; returns when it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def misbehave(self, *faults: Fault) -> None:
        """Do this from now on, instead of what was planned; with none, nothing wrong."""
        self._ask("/control", json.dumps([asdict(fault) for fault in faults]).encode())

    def arrived(self) -> list[Arrival]:
        """What has arrived, each parcel once, in the order in which each came first."""
        return [Arrival(**one) for one in self._ask("/arrived")["arrived"]]

    def _ask(self, path: str, body: bytes | None = None) -> Any:
        status, answer = exchange(self.port, path, body)
        if status != HTTPStatus.OK:
            raise RuntimeError(f"the receiver answered {status} to {path}: {answer.decode()}")
        return json.loads(answer)


def exchange(port: int, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    """Send a request to a receiver: POST if there is a body; its status and its answer."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)) as connection:
        connection.request("GET" if body is None else "POST", path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


@contextmanager
def own_receiver() -> Iterator[OwnReceiver]:
    """A running one, on a port and with a state that it keeps."""
    with hold_port() as held, tempfile.TemporaryDirectory(prefix="batchline-receiver-") as directory:
        receiver = OwnReceiver(held.getsockname()[1], Path(directory) / "arrived.db")
        try:
            receiver.start()
            yield receiver
        finally:
            receiver.kill()
