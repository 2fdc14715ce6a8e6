"""A way to a server that falls silent: what is sent is acknowledged and lost, and no connection is ever ended by it."""

import socket
import threading
from contextlib import suppress

from tests.stores.proxy_in_threads import ProxyInThreads, shut

__all__ = ["SilentProxy"]


class SilentProxy(ProxyInThreads):
    """Passes everything on, both ways, unless it is silent.

    A connection that was open in a silence has lost bytes, so it stays silent afterwards. Its server never hears that
    it is over. One that was opened meanwhile gets no answer.
    """

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self._silences = 0
        self._silent = threading.Event()
        #: How long each piece takes, of at most 32 KiB.
        self.piece_s = 0.0
        self._never = threading.Event()

    def fall_silent(self) -> None:
        """Pass nothing on from now on."""
        self._silences += 1
        self._silent.set()

    def speak(self) -> None:
        """Pass new connections on again."""
        self._silent.clear()

    def carry(self, client: socket.socket, server: socket.socket) -> None:
        """Pass on both ways."""
        self.start(self._pass_on, client, server, self._silences)
        self.start(self._pass_on, server, client, self._silences)

    def _pass_on(self, source: socket.socket, target: socket.socket, silences: int) -> None:
        """Read to the end, so that everything is acknowledged; end the other side only if nothing was lost."""
        with suppress(OSError):
            while data := source.recv(32_768):
                if self.piece_s:
                    self._never.wait(self.piece_s)
                if silences == self._silences and not self._silent.is_set():
                    target.sendall(data)
        if silences == self._silences and not self._silent.is_set():
            shut(target)
