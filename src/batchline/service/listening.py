"""Listening and serving: until somebody says stop, and to the end of what is under way."""

import asyncio
import ipaddress
import math
import signal
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from batchline.errors import InvalidInput, MissingExtra
from batchline.runtime.clock import wait_for
from batchline.service.connection_gate import ConnectionGate
from batchline.service.service import Service
from batchline.wire.push import LARGEST_FRAME

try:
    import uvicorn
except ModuleNotFoundError as error:
    raise MissingExtra("the service needs uvicorn: pip install 'batchline[service]'") from error
from batchline.service.accepting import Acceptor, allow_files
from batchline.service.limited_http import LimitedHttp

__all__ = ["Tls", "address_of", "listening", "run_fast", "serve", "serve_app"]

BETWEEN_LOOKS_S: Final = 0.1
#: How long requests under way are waited for at the end.
GRACE_S: Final = 10


@dataclass(frozen=True, slots=True)
class Tls:
    """A certificate and its key, as files of PEM."""

    certificate: Path
    key: Path


class _Server(uvicorn.Server):
    """A server that leaves signals to us: uvicorn raises them again at its end, and no summary would be printed."""

    def __init__(self, config: uvicorn.Config, gate: ConnectionGate, dismiss: Callable[[], None]) -> None:
        super().__init__(config)
        self._gate, self._dismiss = gate, dismiss
        self._acceptors: list[Acceptor] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections, each through the gate."""
        self._gate.limit_total(allow_files(self._gate.limits.connections))
        self.servers = []
        self._acceptors = [Acceptor(one, self._gate, self._protocol, self.config.ssl) for one in sockets or ()]
        self.started = True

    def _protocol(self, address: str) -> LimitedHttp:
        return LimitedHttp(self._gate, address, config=self.config, server_state=self.server_state, app_state={})

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more requests, and end with those under way."""
        self._dismiss()
        for acceptor in self._acceptors:
            acceptor.close()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def address_of(listener: socket.socket, scheme: str = "http") -> str:
    """Where it listens, as a browser wants it."""
    host, port = listener.getsockname()[:2]
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def run_fast(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end, on the faster loop where there is one."""
    try:
        from uvloop import new_event_loop
    except ModuleNotFoundError:
        asyncio.run(work)
        return
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(work)


async def serve_app(
    app: Any,
    listener: socket.socket,
    look: Callable[[], None] = lambda: None,
    stop: threading.Event | None = None,
    tls: Tls | None = None,
    dismiss: Callable[[], None] = lambda: None,
    gate: ConnectionGate | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, or, in a thread, until `stop` is set; `look` is called all the while.

    At its end `dismiss` is called, so that those who wait for something do so no longer. `gate` limits connections.
    """
    gate = gate or ConnectionGate()
    config = uvicorn.Config(
        app,
        # Addresses that a client names in headers are believed from none but the proxies that are named.
        proxy_headers=bool(gate.limits.proxies),
        forwarded_allow_ips=list(gate.limits.proxies),
        ws="websockets-sansio",
        ws_max_size=LARGEST_FRAME,
        ws_per_message_deflate=False,  # it would cost each socket more memory than all the rest
        log_level="error",
        lifespan="off",
        timeout_graceful_shutdown=GRACE_S,
        timeout_keep_alive=math.ceil(gate.limits.idle_s) + 1,  # the gate ends idle connections
        ssl_certfile=tls.certificate if tls else None,
        ssl_keyfile=tls.key if tls else None,
    )

    def look_at_all() -> None:
        gate.look()
        look()

    await _serve(_Server(config, gate, dismiss), listener, look_at_all, stop)


async def serve(
    service: Service,
    listener: socket.socket,
    *,
    stop: threading.Event | None = None,
    tls: Tls | None = None,
    dismiss: Callable[[], None] = lambda: None,
) -> None:
    """Serve a service in the same way, and do its background work meanwhile."""

    def dismiss_all() -> None:
        service.dismiss()
        dismiss()

    background = asyncio.create_task(service.background.run())
    try:
        await serve_app(service.app, listener, stop=stop, tls=tls, dismiss=dismiss_all, gate=service.gate)
    finally:
        service.background.stop()
        await background


async def _serve(
    server: _Server, listener: socket.socket, look: Callable[[], None], stop: threading.Event | None
) -> None:
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM) if stop is None else ():
        loop.add_signal_handler(number, server.handle_exit, number, None)
    serving = asyncio.create_task(server.serve([listener]))
    serving.add_done_callback(lambda _: ended.set())
    while not ended.is_set():
        look()
        if stop is not None and stop.is_set():
            server.should_exit = True
        await wait_for(ended, BETWEEN_LOOKS_S)
    await serving


@contextmanager
def listening(listen: str, *, insecure: bool) -> Iterator[socket.socket]:
    """A socket on HOST:PORT; one that others can reach must be asked for."""
    host, port = _place(listen)
    if not insecure and not _is_loopback(host):
        raise InvalidInput(
            f"{host} can be reached by others, and anybody may then send anything: "
            "listen on 127.0.0.1, or say --insecure (insecure = true in a pipeline's file)"
        )
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise InvalidInput(f"cannot listen on {listen}: {error.strerror or error}") from error
    with listener:
        # An answer is written in two parts: else the second waits 40 ms for the word that the first is there.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield listener


def _place(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal() and int(port) < 65_536):
        raise InvalidInput(f"--listen expects HOST:PORT such as 127.0.0.1:8080, got {listen!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, which may be anybody's
        return False
