"""A service in a thread, on a port that is free."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import uvicorn

from batchline.service.service import Service
from batchline.stores import Store

__all__ = ["serving", "serving_app"]

PATIENCE_S = 30.0


@contextmanager
def serving_app(app: Any) -> Iterator[str]:
    """The address of an application that is served until the end."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1))
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(PATIENCE_S)


@contextmanager
def serving(store: Store, **how: Any) -> Iterator[str]:
    """The address of a service on a store; its background work does not run."""
    with closing(Service(store, **how)) as service, serving_app(service.app) as url:
        yield url
