"""The network between the parts of a run: a link from each part to each server, on which packets can vanish.

    worker-1 ──► link ──► PostgreSQL        a TCP proxy, in this process; while it is cut the kernel drops what comes

A cut is silent: no FIN, no RST, no acknowledgement, in neither direction, and a new connection gets no answer. It ends
in one of two ways. "resume": the same connections go on, by TCP's own retransmission. "forget": connections of before
stay dead for ever, as behind a firewall that has lost its table, and only new ones work.
"""

import asyncio
import ctypes
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from batchline.runtime.clock import elapsed_seconds

__all__ = ["Link", "Network"]

ATTACH_FILTER, DETACH_FILTER = 26, 27
#: A program of the kernel's packet filter that keeps no byte of any packet.
_KEEP_NOTHING: Final = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))
DROP_ALL: Final = struct.pack("HxxxxxxL", 1, ctypes.addressof(_KEEP_NOTHING))
CHUNK: Final = 1 << 16
#: Answers that come closer together count as one.
TOGETHER_S: Final = 0.1


class Connection:
    """One connection over a link: what a client says goes to the server, and back."""

    def __init__(self, *ends: tuple[asyncio.StreamReader, asyncio.StreamWriter]):
        self.writers = [writer for _, writer in ends]
        self._readers = [reader for reader, _ in ends]
        self._flows = asyncio.Event()
        self._flows.set()

    def cut(self) -> None:
        """Lose all that is sent from now on."""
        self._flows.clear()
        for writer in self.writers:
            _drop(writer.get_extra_info("socket"))

    def resume(self) -> None:
        """Go on where it was."""
        for writer in self.writers:
            _pass(writer.get_extra_info("socket"))
        self._flows.set()

    def abort(self) -> None:
        """End both ends at once."""
        for writer in self.writers:
            writer.transport.abort()
        self._flows.set()

    async def run(self, answered: Callable[[], None]) -> None:
        """Carry bytes until one end closes; then the other is closed as well."""
        (client, server), (to_client, to_server) = self._readers, self.writers
        pumps = [
            asyncio.ensure_future(self._pump(client, to_server, lambda: None)),
            asyncio.ensure_future(self._pump(server, to_client, answered)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            await self._flows.wait()
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            for writer in self.writers:
                with suppress(OSError):
                    writer.close()
                    await writer.wait_closed()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passed: Any) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                await self._flows.wait()
                passed()
                writer.write(data)
                await writer.drain()


class Link:
    """The way from one part to one server. It remembers when answers went over it."""

    def __init__(self, port: int):
        self._to = port
        self.is_cut = False
        #: When the server's answers reached the part, one moment for those that came together.
        self.answers: list[float] = []
        self._mended = asyncio.Event()
        self._mended.set()
        self._connections: set[Connection] = set()
        self._lost: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port: int = self._listener.getsockname()[1]

    async def open(self) -> None:
        """Carry connections from now on."""
        self._server = await asyncio.start_server(self._accept, sock=self._listener)

    async def close(self) -> None:
        """End all that it carries."""
        self._server.close()
        for task in self._tasks:
            task.cancel()
        for connection in self._connections | self._lost:
            connection.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def cut(self) -> None:
        """Lose all packets; new connections get no answer."""
        self.is_cut = True
        self._mended.clear()
        _drop(self._listener)
        for connection in self._connections:
            connection.cut()

    async def mend(self, how: str) -> None:
        """Let packets through again: "resume" those of all connections, "forget" those of the ones from before."""
        self.is_cut = False
        _pass(self._listener)
        if how == "forget":
            self._lost |= self._connections
            self._connections.clear()
        for connection in self._connections:
            connection.resume()
        self._mended.set()

    async def forget(self) -> None:
        """End what a cut has left half open: the servers' ends of connections that are lost for ever."""
        for connection in self._lost:
            connection.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._mended.wait()  # it came in just before the cut
            server = await asyncio.open_connection("127.0.0.1", self._to)
        except (OSError, asyncio.CancelledError):
            _reset(writer)
            self._tasks.discard(task)
            return
        connection = Connection((reader, writer), server)
        self._connections.add(connection)
        if self.is_cut:
            connection.cut()
        try:
            with suppress(asyncio.CancelledError):
                await connection.run(self._answered)
        finally:
            self._connections.discard(connection)
            self._lost.discard(connection)
            self._tasks.discard(task)

    def _answered(self) -> None:
        now_s = elapsed_seconds()
        if not self.answers or now_s - self.answers[-1] > TOGETHER_S:
            self.answers.append(now_s)


class Network:
    """All links, carried by a loop in a thread of its own while it is entered."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._links: list[Link] = []

    def link(self, port: int) -> Link:
        """A new link to a server at this port."""
        link = Link(port)
        self._do(link.open())
        self._links.append(link)
        return link

    def cut(self, links: Iterable[Link]) -> None:
        """Lose all packets on these links."""
        for link in links:
            self._do(link.cut())

    def mend(self, links: Iterable[Link], how: str) -> None:
        """Let packets through again."""
        for link in links:
            self._do(link.mend(how))

    def forget(self, links: Iterable[Link]) -> None:
        """End what cuts have left half open on these links."""
        for link in links:
            self._do(link.forget())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for link in self._links:
            self._do(link.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()


def _drop(one: Any) -> None:
    with suppress(OSError):  # it is closed already
        one.setsockopt(socket.SOL_SOCKET, ATTACH_FILTER, DROP_ALL)


def _pass(one: Any) -> None:
    with suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, DETACH_FILTER, 0)


def _reset(writer: asyncio.StreamWriter) -> None:
    """The server is down: its machine would have refused."""
    with suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
