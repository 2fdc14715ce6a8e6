"""A way to a server, as a proxy in threads of the test: what it does with the bytes is what a subclass says."""

import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

__all__ = ["ProxyInThreads", "shut"]


class ProxyInThreads(ABC):
    """Listens on a port of its own and connects each client to the server."""

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = [self._listener]
        self._threads = [threading.Thread(target=self._accept)]

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return int(self._listener.getsockname()[1])

    @abstractmethod
    def carry(self, client: socket.socket, server: socket.socket) -> None:
        """Begin to pass on what the two say to each other, in threads of their own."""

    def start(self, work: Callable[..., None], *given: Any) -> None:
        """Start a thread, which must end when its sockets are shut."""
        thread = threading.Thread(target=work, args=given)
        self._threads.append(thread)
        thread.start()

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in self._sockets:
            shut(one)
        for thread in self._threads:
            thread.join()
        for one in self._sockets:
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):  # the listener was shut
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._upstream)
                self._sockets += [client, server]
                self.carry(client, server)


def shut(one: socket.socket) -> None:
    """End both directions of a connection, unless they have ended."""
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
