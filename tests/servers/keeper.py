"""The process that owns the servers of one run: `python -m tests.servers.keeper HOME CONTROLLER_PID`.

It puts itself into the background, says "ready" on stdout once it can be asked, and then answers on the socket
HOME/keeper.sock: one line with a server's name brings one line of JSON with its `url`, or an `error` and its `kind`.
"stop", or the end of the controller, makes it stop all servers and exit.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.servers.kinds import KINDS
from tests.servers.launch import Launch
from tests.servers.server import ProgramMissingError, ServerFailedError

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

SOCKET = "keeper.sock"
PID = "keeper.pid"
STOP = "stop"
SWEEP_S = 30.0


class Keeper:
    """Starts each server once, however many ask for it."""

    def __init__(self, home: Path, lifeline: int):
        self.over = asyncio.Event()
        self._home = home
        self._lifeline = lifeline
        self._launches: dict[str, Launch] = {}
        self._urls: dict[str, asyncio.Task[str]] = {}

    async def answer(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Answer one asker. Who asks to stop is answered by the closed connection, when all is gone."""
        name = (await reader.readline()).decode().strip()
        if name == STOP:
            self.over.set()
            await asyncio.Event().wait()
        writer.write(json.dumps(await self._reply(name)).encode() + b"\n")
        writer.close()

    async def _reply(self, name: str) -> dict[str, str]:
        try:
            # Shielded: an asker that goes away must not take the server from the others.
            return {"url": await asyncio.shield(self._url(name))}
        except (ProgramMissingError, ServerFailedError, OSError) as error:
            return {"error": str(error), "kind": type(error).__name__}

    def _url(self, name: str) -> asyncio.Task[str]:
        if name not in self._urls:
            self._launches[name] = Launch(KINDS[name], self._home, self._lifeline)
            self._urls[name] = asyncio.create_task(self._launches[name].run())
        return self._urls[name]

    async def stop(self) -> None:
        """Stop every server, also those on their way up."""
        for task in self._urls.values():
            task.cancel()
        await asyncio.gather(*self._urls.values(), return_exceptions=True)
        children = [child for launch in self._launches.values() for child in launch.children]
        await asyncio.gather(*(child.stop() for child in children))


def start_sweeper(home: Path) -> tuple[int, subprocess.Popen[bytes]]:
    """Start what removes `home`, and return its lifeline: it waits until nobody holds that any more.

    The keeper and all servers hold it. So nothing is removed under a server that still writes, and nothing remains
    even if the keeper is killed.
    """
    waits, lifeline = os.pipe()
    command = ["/bin/sh", "-c", 'cat >/dev/null; rm -rf -- "$0"', str(home)]
    quiet = subprocess.DEVNULL  # and not the pipes of whoever started the keeper
    sweeper = subprocess.Popen(command, stdin=waits, stdout=quiet, stderr=quiet, start_new_session=True)
    os.close(waits)
    return lifeline, sweeper


async def keep(home: Path, controller: int) -> None:
    """Answer until the run is over, then leave nothing behind."""
    loop = asyncio.get_running_loop()
    lifeline, sweeper = start_sweeper(home)
    keeper = Keeper(home, lifeline)
    loop.add_reader(os.pidfd_open(controller), keeper.over.set)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, keeper.over.set)
    await asyncio.start_unix_server(keeper.answer, home / SOCKET)
    (home / PID).write_text(str(os.getpid()))
    say_ready(home)
    await keeper.over.wait()
    await keeper.stop()
    os.close(lifeline)
    with contextlib.suppress(subprocess.TimeoutExpired):  # it goes on without us
        sweeper.wait(SWEEP_S)


def say_ready(home: Path) -> None:
    """Tell whoever started us, and let go of their pipes: they wait for the end of our output."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    with (home / "keeper.log").open("wb") as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())


def main() -> None:
    """Go to the background: the keeper belongs to the run, not to the worker that happened to ask first."""
    home, controller = Path(sys.argv[1]), int(sys.argv[2])
    if os.fork():
        os._exit(0)
    os.umask(0o022)  # the servers' user reads what is written for them
    asyncio.run(keep(home, controller))


if __name__ == "__main__":
    main()
