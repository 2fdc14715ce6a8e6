"""A service on a real socket, in a thread of the test's own process; and a client that consumers take."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from batchline import Store
from batchline.client.subscription import Push
from batchline.service.in_thread import serve_app_in_thread
from batchline.service.listening import Tls
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
def placed(store: Store, listen: str = "127.0.0.1:0", *, tls: Tls | None = None, **options: Any) -> Iterator[Place]:
    """A service on a store, until the block ends."""
    service = Service(store, **options)
    serving = serve_app_in_thread(service.app, listen, service.dismiss, service.gate, tls)
    with closing(service), serving as url:
        yield Place(url, service=service)
