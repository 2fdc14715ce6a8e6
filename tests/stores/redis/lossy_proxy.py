"""A way to a server on which an answer can get lost: the request arrives, the connection breaks before its answer."""

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

__all__ = ["LossyProxy"]


class LossyProxy:
    """Listens on a port of its own and passes everything on, both ways."""

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._losing = threading.Semaphore(0)
        self._sockets: list[socket.socket] = [self._listener]
        self._threads = [threading.Thread(target=self._accept)]

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.getsockname()[1])

    def lose_next_answer(self) -> None:
        """Break the connection when the next answer comes, instead of passing it on."""
        self._losing.release()

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
                self._start(client, server, lossy=False)
                self._start(server, client, lossy=True)

    def _start(self, source: socket.socket, target: socket.socket, *, lossy: bool) -> None:
        thread = threading.Thread(target=self._pass_on, args=(source, target, lossy))
        self._threads.append(thread)
        thread.start()

    def _pass_on(self, source: socket.socket, target: socket.socket, lossy: bool) -> None:
        with suppress(OSError):  # the other side is gone
            while data := source.recv(65_536):
                if lossy and self._losing.acquire(blocking=False):
                    break
                target.sendall(data)
        _shut(source)
        _shut(target)


def _shut(one: socket.socket) -> None:
    with suppress(OSError):  # it was shut before
        one.shutdown(socket.SHUT_RDWR)
