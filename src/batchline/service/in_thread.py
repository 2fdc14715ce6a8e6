"""A service in a thread of this process: for tests, notebooks and examples."""

import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager
from socket import socket
from typing import Any, Final

from batchline.service.connection_gate import ConnectionGate
from batchline.service.listening import Tls, address_of, listening, run_fast, serve, serve_app
from batchline.service.service import Service
from batchline.stores.store import Store

__all__ = ["serve_app_in_thread", "serve_in_thread"]

FREE: Final = "127.0.0.1:0"
Serve = Callable[[socket, threading.Event], Coroutine[Any, Any, None]]


@contextmanager
def serve_in_thread(store: Store, listen: str = FREE, **settings: Any) -> Iterator[str]:
    """Serve a store on a free port of this machine, with the background work; gives the URL."""
    service = Service(store, **settings)
    with closing(service), _running(lambda listener, stop: serve(service, listener, stop=stop), listen) as url:
        yield url


@contextmanager
def serve_app_in_thread(
    app: Any,
    listen: str = FREE,
    dismiss: Callable[[], None] = lambda: None,
    gate: ConnectionGate | None = None,
    tls: Tls | None = None,
) -> Iterator[str]:
    """Serve an application on a free port of this machine; gives the URL."""

    def serving(listener: socket, stop: threading.Event) -> Coroutine[Any, Any, None]:
        return serve_app(app, listener, stop=stop, dismiss=dismiss, gate=gate, tls=tls)

    with _running(serving, listen) as url:
        yield url


@contextmanager
def _running(serving: Serve, listen: str) -> Iterator[str]:
    stop = threading.Event()
    with listening(listen, insecure=False) as listener:
        thread = threading.Thread(target=lambda: run_fast(serving(listener, stop)), name="service", daemon=True)
        thread.start()
        try:
            yield address_of(listener)
        finally:
            stop.set()
            thread.join()
