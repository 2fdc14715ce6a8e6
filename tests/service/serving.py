"""A service on a real socket, in a thread of the test's own process; and a client that consumers take."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from batchline import Store
from batchline.cli.listening import address_of, listening, serve_app
from batchline.client.subscription import Push
from batchline.service.service import Service

__all__ = ["Place", "placed", "serving"]


@dataclass(frozen=True)
class Place:
    """Where a service is; stands in for a client, of which a consumer wants no more than this."""

    url: str
    token: str | None = None
    #: The service itself, if it is in this process.
    service: Service | None = None

    def subscription(self, topic: str, consumer: str, *, prefetch: int, duration: timedelta | None) -> Push:
        return Push(self.url, self.token, topic, consumer, prefetch=prefetch, duration=duration)


@contextmanager
def serving(store: Store, **options: Any) -> Iterator[str]:
    """The address of a service on a store, until the block ends; its background work does not run."""
    with placed(store, **options) as place:
        yield place.url


@contextmanager
def placed(store: Store, listen: str = "127.0.0.1:0", **options: Any) -> Iterator[Place]:
    """A service on a store, until the block ends."""
    stop = threading.Event()
    with listening(listen, insecure=False) as listener, closing(Service(store, **options)) as service:
        serve = serve_app(service.app, listener, lambda: None, stop, dismiss=service.dismiss)
        thread = threading.Thread(target=asyncio.run, args=(serve,))
        thread.start()
        try:
            yield Place(address_of(listener), service=service)
        finally:
            stop.set()
            thread.join()
