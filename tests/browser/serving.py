"""A real service in a thread, that can be stopped and started again on its port."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import uvicorn

from batchline.service.service import Service
from batchline.stores.store import Store

PATIENCE_S = 30.0


@contextmanager
def serving(store: Store, port: int = 0) -> Iterator[str]:
    """The address of a service on a store."""
    with closing(Service(store)) as service:
        server = uvicorn.Server(uvicorn.Config(service.app, log_level="critical", lifespan="off"))
        with socket.create_server(("127.0.0.1", port)) as listener:
            thread = threading.Thread(target=lambda: asyncio.run(_serve(service, server, listener)))
            thread.start()
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            finally:
                server.should_exit = True
                thread.join(PATIENCE_S)


async def _serve(service: Service, server: uvicorn.Server, listener: socket.socket) -> None:
    background = asyncio.create_task(service.background.run())
    await server.serve([listener])
    service.background.stop()
    await background
