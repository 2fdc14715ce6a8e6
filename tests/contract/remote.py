"""The same suite from afar: services on one port, each on a store, and a client of each."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self, cast

from batchline import ExpiryRules, Store, Timeline, Tracker
from batchline.client import Client
from batchline.service.in_thread import serve_app_in_thread
from batchline.service.service import Service
from tests.doubles import HandClock

__all__ = ["CLIENT", "Remote", "Remotes", "timeline_on", "tracker_on"]

#: A client of a service on a store; its fanouts expire by these rules.
Remote = Callable[[Store, ExpiryRules | None], Client]

CLIENT = "client"


@dataclass
class ShownClock:
    """Shows what the clock of the test under way shows."""

    clock: Callable[[], int] = field(default_factory=HandClock)

    def __call__(self) -> int:
        return self.clock()


class ClientOfStore(Client):
    """One that knows what is behind its service, as a tracker does: for tests that look there."""

    _store: Store


class Remotes:
    """Services by number: the first segment of an address says which is meant."""

    def __init__(self) -> None:
        self._services: list[Service] = []
        self._clients: dict[int, tuple[Store, Client, ShownClock]] = {}

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        return self

    @cached_property
    def _url(self) -> str:
        """Where they are; the server starts when somebody asks."""
        return self._stack.enter_context(serve_app_in_thread(self))

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        for service in self._services:
            service.close()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        _, number, rest = scope["raw_path"].split(b"/", 2)
        await self._services[int(number)].app({**scope, "raw_path": b"/" + rest}, receive, send)

    def maker(self, clock: Callable[[], int]) -> Remote:
        """Makes clients that go by this clock."""
        return lambda store, expiry: self.client(store, clock, expiry)

    def client(self, store: Store, clock: Callable[[], int], expiry: ExpiryRules | None = None) -> Client:
        """The client of a store's service; from now on both go by this clock."""
        if id(store) not in self._clients:
            self._clients[id(store)] = (store, *self._serve(store, expiry))
        _, client, shown = self._clients[id(store)]
        shown.clock = clock
        return client

    def _serve(self, store: Store, expiry: ExpiryRules | None) -> tuple[Client, ShownClock]:
        shown = ShownClock()
        self._services.append(Service(store, threads=2, expiry=expiry, clock=shown))
        client = ClientOfStore(f"{self._url}/{len(self._services) - 1}", clock=shown)
        client._store = store
        return self._stack.enter_context(client), shown


def tracker_on(store: Store, clock: HandClock, remote: Remote | None, expiry: ExpiryRules | None = None) -> Tracker:
    """A tracker on a store, or a client, which has its methods."""
    return Tracker(store, expiry=expiry, clock=clock) if remote is None else cast("Tracker", remote(store, expiry))


def timeline_on(store: Store, clock: HandClock, remote: Remote | None) -> Timeline:
    """A timeline on a store, or a client, which has its methods."""
    return Timeline(store, clock=clock) if remote is None else cast("Timeline", remote(store, None))
