"""Starts one server: directory, port, process, and the wait until it answers."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import shutil
import signal
import socket
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.servers.server import ServerFailedError

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Callable, Iterable, Sequence

    from tests.servers.server import Server

PORTS_TRIED = 5
#: For a machine that is busy: usually each takes about a second.
PREPARE_S, READY_S = 120.0, 60.0
#: Between two greetings of a server that is starting.
PAUSE_S = 0.05
STOP_S = 5.0
LOG_TAIL = 4000
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Child:
    """A process started for a server."""

    process: Process
    stop_signal: signal.Signals

    async def stop(self) -> None:
        """End the process, kindly: it ends its own children. If it does not, end its whole group."""
        for kill, number in ((os.kill, self.stop_signal), (os.killpg, signal.SIGKILL)):
            if self.process.returncode is not None:
                return
            with contextlib.suppress(ProcessLookupError):
                kill(self.process.pid, number)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.process.wait(), STOP_S)


class Launch:
    """One server on its way up. `lifeline` is a descriptor its processes keep open for as long as they live."""

    def __init__(self, server: Server, home: Path, lifeline: int, hold: Callable[[], socket.socket] | None = None):
        self.server = server
        self.home = home / server.name
        self.log = home / f"{server.name}.log"
        self.children: list[Child] = []
        self._lifeline = lifeline
        self._hold = hold or hold_port
        self._user: dict[str, Any] = {}

    async def run(self) -> str:
        """Start the server and return its URL; raises ProgramMissingError or ServerFailedError."""
        files = self.server.files()
        self._user = unprivileged(files) if self.server.gives_up_rights else {}
        self._make_home()
        await self._prepare()
        for _ in range(PORTS_TRIED):
            if url := await self._start():
                return url
        raise ServerFailedError(self._story(f"found no free port in {PORTS_TRIED} attempts"))

    def _make_home(self) -> None:
        self.home.mkdir(mode=0o700)
        if self._user:
            shutil.chown(self.home, self._user["user"], self._user["group"])

    async def _prepare(self) -> None:
        command = self.server.prepare(self.home)
        if not command:
            return
        # Kindly in any case: initdb's own child sees that it is gone, and frees its shared memory.
        child = await self._spawn(command, signal.SIGTERM, signal.SIGTERM)
        try:
            failed = await asyncio.wait_for(child.process.wait(), PREPARE_S)
        except TimeoutError:
            raise ServerFailedError(self._story(f"was not prepared within {PREPARE_S:.0f} s")) from None
        if failed:
            raise ServerFailedError(self._story(f"could not be prepared: {command[0]} ended with {failed}"))

    async def _start(self) -> str | None:
        """Start on one port; None if somebody else had it."""
        with self._hold() as held:
            port = held.getsockname()[1]
            command = self.server.command(self.home, port)
            child = await self._spawn(command, self.server.stop_signal, self.server.orphan_signal)
            if await self._ready(child.process, port):
                return self.server.url(port)
        if b"address already in use" in self.log.read_bytes().lower():
            return None
        raise ServerFailedError(self._story(f"ended with {child.process.returncode} before it was ready"))

    async def _ready(self, process: Process, port: int) -> bool:
        """Greet until the server answers (True) or has ended (False)."""
        ended = asyncio.ensure_future(process.wait())
        try:
            async with asyncio.timeout(READY_S):
                while not await self._greet(port) and not ended.done():
                    await asyncio.wait([ended], timeout=PAUSE_S)
        except TimeoutError:
            raise ServerFailedError(self._story(f"runs but did not answer within {READY_S:.0f} s")) from None
        return not ended.done()

    async def _greet(self, port: int) -> bool:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(1):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                with contextlib.closing(writer):
                    writer.write(self.server.hello)
                    return bool(self.server.welcome.match(await reader.read(100)))
        return False

    async def _spawn(self, command: Sequence[str], stop: signal.Signals, orphan: signal.Signals) -> Child:
        own = str(self.home)
        # Its own TMPDIR, because a MariaDB that starts removes the temporary tables of all others in /tmp.
        base = {"PATH": os.environ.get("PATH", os.defpath), "HOME": own, "TMPDIR": own, "LC_ALL": "C.UTF-8"}
        with self.log.open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.home,
                env={**base, **self.server.environment},
                pass_fds=[self._lifeline],
                start_new_session=True,
                preexec_fn=die_with_keeper(orphan),
                **self._user,
            )
        self.children.append(child := Child(process, stop))
        return child

    def _story(self, what: str) -> str:
        log = self.log.read_text(errors="replace")[-LOG_TAIL:] if self.log.exists() else ""
        return f"{self.server.name} {what}; its log ends:\n{log}"


def die_with_keeper(number: signal.Signals) -> Callable[[], None]:
    """Return what a new process runs so that the kernel signals it when the keeper is gone.

    The kernel forgets this wish when a process changes its user: Popen does that first, then calls this. It holds
    for the end of the *thread* that started the process, so servers are started from the keeper's main thread.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    keeper = os.getpid()

    def wish() -> None:
        if libc.prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")
        if os.getppid() != keeper:  # it died before the wish was made
            os._exit(1)

    return wish


def hold_port() -> socket.socket:
    """Return a socket bound to a free port of 127.0.0.1.

    While it is open the kernel gives the port to nobody who asks for any; a server that asks for this very one gets
    it, because both allow reuse and this socket does not listen.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held


def unprivileged(files: Iterable[Path]) -> dict[str, Any]:
    """Return Popen's arguments for a user without rights, which PostgreSQL and MariaDB insist on; for root only.

    Where that user cannot reach the server's files (a checkout in /root), the server runs as root, if it will.
    """
    if os.geteuid() != 0 or not all(reachable(file) for file in files):
        return {}
    return {"user": "nobody", "group": "nogroup", "extra_groups": []}


def reachable(file: Path) -> bool:
    """Tell whether everybody may enter every directory above `file`."""
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in file.resolve().parents)


def common_directory() -> Path:
    """Return where directories of servers are made: everybody can reach it, and a socket's path has room after it."""
    base = Path(tempfile.gettempdir())
    if reachable(base / "any") and len(str(base)) <= 60:
        return base
    return Path("/tmp")  # noqa: S108 - names that cannot be guessed are put into it
