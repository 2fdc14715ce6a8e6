"""A service in a thread of this process: for tests, notebooks and examples."""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator
from socket import create_server, socket
from typing import Any, Final

from batchline.errors import MissingExtra
from batchline.service.service import Service
from batchline.stores.store import Store

try:
    import uvicorn
    import uvloop
except ModuleNotFoundError as error:
    raise MissingExtra(f"the service needs {error.name}: pip install 'batchline[service]'") from error

__all__ = ["serve_app_in_thread", "serve_in_thread"]

GRACE_S: Final = 5


@contextlib.contextmanager
def serve_in_thread(store: Store, **settings: Any) -> Iterator[str]:
    """Serve a store on a free port of this machine, with the background work; gives the URL."""
    with contextlib.closing(Service(store, **settings)) as service, _running(service.app, service) as url:
        yield url


@contextlib.contextmanager
def serve_app_in_thread(app: Any) -> Iterator[str]:
    """Serve an application on a free port of this machine; gives the URL."""
    with _running(app, None) as url:
        yield url


@contextlib.contextmanager
def _running(app: Any, service: Service | None) -> Iterator[str]:
    config = uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=GRACE_S)
    server = uvicorn.Server(config)
    with create_server(("127.0.0.1", 0), backlog=1024) as listener:
        serving = _serve(server, listener, service)
        thread = threading.Thread(target=_run, args=(serving,), name="service", daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def _run(serving: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serving)


async def _serve(server: uvicorn.Server, listener: socket, service: Service | None) -> None:
    background = None if service is None else asyncio.create_task(service.background.run())
    try:
        await server.serve([listener])
    finally:
        if service is not None and background is not None:
            service.background.stop()
            await background
