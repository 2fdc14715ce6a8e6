"""A way to a database on which a connection breaks at a chosen request: before that arrives, or its answer does."""

import socket
import threading
from contextlib import suppress

from tests.stores.proxy_in_threads import ProxyInThreads, shut

__all__ = ["CuttingProxy"]


class CuttingProxy(ProxyInThreads):
    """Passes everything on, both ways, until it is to cut a connection."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self._at = b""
        self._times = 0
        self._answered = False
        #: Whether the connection was cut that was to be.
        self.has_cut = False
        #: How often a client has sent something: a request of ours is sent as a whole.
        self.requests = 0

    def cut_at(self, request: bytes, *, answered: bool, times: int = 1) -> None:
        """Break the connection at the next requests that contain this: when one is answered, or before it is sent."""
        self.has_cut = False
        self._times = times
        self._answered = answered
        self._at = request

    def carry(self, client: socket.socket, server: socket.socket) -> None:
        """Pass on requests and answers."""
        losing = threading.Event()
        self.start(self._pass_requests, client, server, losing)
        self.start(self._pass_answers, server, client, losing)

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
        shut(client)
        shut(server)

    def _pass_answers(self, server: socket.socket, client: socket.socket, losing: threading.Event) -> None:
        with suppress(OSError):  # the other side is gone
            while data := server.recv(65_536):
                if losing.is_set():
                    break
                client.sendall(data)
        shut(client)
        shut(server)
