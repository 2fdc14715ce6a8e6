"""The accepting of connections: the gate is asked before anything is read, a TLS handshake included."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from batchline.core.connection_limits import address_key
from batchline.errors import Overloaded
from batchline.service.connection_gate import ConnectionGate
from batchline.wire.problems import raw_answer

__all__ = ["Acceptor", "allow_files"]

#: Connections that are accepted before others have their turn.
AT_ONCE: Final = 64
#: How long to accept nothing when the process has no file left for a connection.
PAUSE_S: Final = 0.2
#: Files that are not for connections: those of the store, of logs, of pages.
OTHER_FILES: Final = 256
FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\n" + raw_answer(Overloaded("too many connections: try again later"))[1]
)
Factory = Callable[[str], asyncio.Protocol]


def allow_files(connections: int) -> int:
    """Let the process open files for this number of connections. Return for how many it may."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows has no such limit
        return connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(ValueError, OSError):  # some systems have a limit below the hard one
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return connections if soft == resource.RLIM_INFINITY else max(min(connections, soft - OTHER_FILES), soft // 2)


class Acceptor:
    """Accepts the connections of one listener, from its making on until it is closed."""

    def __init__(
        self, listener: socket.socket, gate: ConnectionGate, factory: Factory, context: ssl.SSLContext | None
    ) -> None:
        self._listener, self._gate, self._factory, self._context = listener, gate, factory, context
        self._loop = asyncio.get_running_loop()
        self._starting: set[asyncio.Task[None]] = set()
        self._again: asyncio.TimerHandle | None = None
        listener.setblocking(False)
        self._begin()

    def close(self) -> None:
        """Accept no more, and give up handshakes."""
        self._loop.remove_reader(self._listener)
        if self._again is not None:
            self._again.cancel()
        for task in self._starting:
            task.cancel()

    def _begin(self) -> None:
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                connection, place = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no file is left, or no memory of the kernel's
                self._rest()
                return
            self._take(connection, address_key(str(place[0])))

    def _rest(self) -> None:
        self._gate.count_refused("files")
        self._gate.end_idle()
        self._loop.remove_reader(self._listener)
        self._again = self._loop.call_later(PAUSE_S, self._begin)

    def _take(self, connection: socket.socket, address: str) -> None:
        connection.setblocking(False)
        if self._gate.admit(address):
            task = self._loop.create_task(self._start(connection, address))
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)
            return
        if self._context is None:
            with suppress(OSError):
                connection.send(FULL)
        connection.close()

    async def _start(self, connection: socket.socket, address: str) -> None:
        protocol: asyncio.Protocol | None = None

        def made() -> asyncio.Protocol:
            nonlocal protocol
            protocol = self._factory(address)
            return protocol

        timeout_s = None if self._context is None else self._gate.limits.handshake_s
        try:
            await self._loop.connect_accepted_socket(
                made, connection, ssl=self._context, ssl_handshake_timeout=timeout_s
            )
        except BaseException as error:
            # Without a transport the protocol is never told of an end, so that it cannot count itself out.
            if getattr(protocol, "transport", None) is None:
                self._gate.count_refused("handshake")
                self._gate.leave(address)
                connection.close()
            if not isinstance(error, OSError):  # TLS that fails is one of those
                raise
