"""A server of one test's own, which it can end at any moment and start again on the same port and data."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tests.servers.kinds import Kafka, MariaDB, Mosquitto, PostgreSQL, Redis
from tests.servers.launch import PREPARE_S, READY_S, common_directory, die_with_keeper, hold_port, unprivileged
from tests.servers.server import ServerFailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.servers.server import Server

__all__ = ["OwnServer", "own_server", "running"]

PAUSE_S = 0.02


class DurablePostgreSQL(PostgreSQL):
    """One that has written what it has committed."""

    def command(self, home: Path, port: int) -> Sequence[str]:
        """As without, but a commit waits for its write."""
        return [*super().command(home, port), "-c", "synchronous_commit=on", "-c", "full_page_writes=on"]


class DurableMariaDB(MariaDB):
    """One that has written what it has committed."""

    def command(self, home: Path, port: int) -> Sequence[str]:
        """As without, but a commit waits for its write."""
        return [*super().command(home, port), "--innodb-flush-log-at-trx-commit=2"]


class DurableMosquitto(Mosquitto):
    """One that writes sessions and messages down as they change; as delivered, it would do so every half an hour."""

    settings: ClassVar = (
        "persistence true",
        "autosave_on_changes true",
        "autosave_interval 1",
        "max_queued_messages 0",
    )


class DurableRedis(Redis):
    """One that has written what it has answered; as the other tests have it, it forgets all when it is ended."""

    def command(self, home: Path, port: int) -> Sequence[str]:
        """As without, but with a log."""
        return [*super().command(home, port), "--appendonly", "yes"]


#: PostgreSQL's immediate shutdown: its backends end in the midst of what they do, and nothing is tidied up.
SUDDENLY = {
    "postgresql": signal.SIGQUIT,
    "mariadb": signal.SIGKILL,
    "redis": signal.SIGKILL,
    "mosquitto": signal.SIGKILL,
    "kafka": signal.SIGKILL,
}
#: Clients are told that it is over.
KINDLY = dict.fromkeys(SUDDENLY, signal.SIGTERM) | {"postgresql": signal.SIGINT}


class OwnServer:
    """A server with its directory; start it from the main thread, whose end the kernel makes its own."""

    def __init__(self, kind: Server, home: Path, port: int) -> None:
        self.url = kind.url(port)
        self._kind = kind
        self._home = home
        self._port = port
        self._user = unprivileged(kind.files())
        self._process: subprocess.Popen[bytes] | None = None
        home.mkdir(mode=0o700)
        if self._user:
            shutil.chown(home, self._user["user"], self._user["group"])
        if command := kind.prepare(home):
            self._spawn(command).wait(PREPARE_S)

    def start(self) -> None:
        """Start it; returns when it answers."""
        self._process = process = self._spawn(self._kind.command(self._home, self._port))
        pause = threading.Event()
        for _ in range(int(READY_S / PAUSE_S)):
            if self._greet():
                return
            if process.poll() is not None:
                break
            pause.wait(PAUSE_S)
        raise ServerFailedError(f"{self._kind.name} did not start:\n{self.log.read_text(errors='replace')[-4000:]}")

    def end(self, *, kindly: bool = False) -> None:
        """End it, suddenly or as an administrator does; returns when it is gone."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal((KINDLY if kindly else SUDDENLY)[self._kind.name])
            self._process.wait(READY_S)

    def kill(self) -> None:
        """SIGKILL, whatever it is; returns when its first process is gone."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(READY_S)

    @property
    def is_running(self) -> bool:
        """Whether its first process has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> Path:
        """What it has said."""
        return self._home.with_suffix(".log")

    def _greet(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 1) as connection:
            connection.sendall(self._kind.hello)
            return bool(self._kind.welcome.match(connection.recv(100)))
        return False

    def _spawn(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        own = str(self._home)
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._home,
                env={"PATH": os.environ.get("PATH", os.defpath), "HOME": own, "TMPDIR": own, "LC_ALL": "C.UTF-8"},
                start_new_session=True,
                preexec_fn=die_with_keeper(self._kind.orphan_signal),
                **self._user,
            )


@contextmanager
def own_server(name: str) -> Iterator[OwnServer]:
    """A running server; raises ProgramMissingError."""
    kinds: dict[str, Callable[[], Server]] = {
        "postgresql": DurablePostgreSQL,
        "mariadb": DurableMariaDB,
        "mosquitto": DurableMosquitto,
        "redis": Redis,
        "durable_redis": DurableRedis,
        "kafka": Kafka,
    }
    with running(kinds[name]()) as server:
        yield server


@contextmanager
def running(kind: Server) -> Iterator[OwnServer]:
    """Run a server of this kind until the block ends."""
    with hold_port() as held, tempfile.TemporaryDirectory(dir=common_directory(), prefix="batchline-own-") as directory:
        Path(directory).chmod(0o711)
        server = OwnServer(kind, Path(directory) / kind.name, held.getsockname()[1])
        try:
            server.start()
            yield server
        finally:
            server.end()
