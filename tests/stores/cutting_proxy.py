"""A way to a database on which a connection breaks at a chosen request: before that arrives, or its answer does."""

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

__all__ = ["CuttingProxy"]


class CuttingProxy:
    """Listens on a port of its own and passes everything on, both ways."""

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = [self._listener]
        self._threads = [threading.Thread(target=self._accept)]
        self._at = b""
        self._times = 0
        self._answered = False
        #: Whether the connection was cut that was to be.
        self.has_cut = False
        #: How often a client has sent something: a request of ours is sent as a whole.
        self.requests = 0

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.getsockname()[1])

    def cut_at(self, request: bytes, *, answered: bool, times: int = 1) -> None:
        """Break the connection at the next requests that contain this: when one is answered, or before it is sent."""
        self.has_cut = False
        self._times = times
        self._answered = answered
        self._at = request

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in self._sockets:
            _shut(one)
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
                losing = threading.Event()
                self._start(self._pass_requests, client, server, losing)
                self._start(self._pass_answers, server, client, losing)

    def _start(self, what: object, source: socket.socket, target: socket.socket, losing: threading.Event) -> None:
        thread = threading.Thread(target=what, args=(source, target, losing))  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _pass_requests(self, client: socket.socket, server: socket.socket, losing: threading.Event) -> None:
        with suppress(OSError):  # the other side is gone
            while data := client.recv(65_536):
                self.requests += 1
                if self._times and self._at in data:
                    self._times -= 1
                    self.has_cut = True
                    if not self._answered:
                        break
                    losing.set()
                server.sendall(data)
        _shut(client)
        _shut(server)

    def _pass_answers(self, server: socket.socket, client: socket.socket, losing: threading.Event) -> None:
        with suppress(OSError):  # the other side is gone
            while data := server.recv(65_536):
                if losing.is_set():
                    break
                client.sendall(data)
        _shut(client)
        _shut(server)


def _shut(one: socket.socket) -> None:
    with suppress(OSError):  # it was shut before
        one.shutdown(socket.SHUT_RDWR)
