"""A service on a store in memory, what stands crooked before it, and both kinds of client."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from batchline import RetryRules, Store, Timeline, Tracker, open_store
from batchline.client import AsyncClient, Client
from batchline.service.in_thread import serve_in_thread
from tests.client.crooked import Crooked, crooked
from tests.doubles import new_id

QUICK = RetryRules(timedelta(milliseconds=1), 1.0, timedelta(milliseconds=1))


@dataclass
class Face:
    """A client, of whichever kind: its verbs by name."""

    client: Client | AsyncClient
    runner: asyncio.Runner

    def __call__(self, verb: str, *arguments: Any, **named: Any) -> Any:
        found = getattr(self.client, verb)(*arguments, **named)
        return self.runner.run(found) if isinstance(self.client, AsyncClient) else found


@pytest.fixture(scope="session")
def service_store() -> Iterator[Store]:
    with open_store("memory://") as store:
        yield store


@pytest.fixture(scope="session")
def service_url(service_store: Store) -> Iterator[str]:
    with serve_in_thread(service_store, threads=2) as url:
        yield url


@pytest.fixture(scope="session")
def crooked_server(service_url: str) -> Iterator[Crooked]:
    with crooked(service_url) as server:
        yield server


@pytest.fixture
def server(crooked_server: Crooked) -> Crooked:
    crooked_server.next()
    return crooked_server


@pytest.fixture(params=[Client, AsyncClient], ids=["waits", "awaits"])
def face(request: pytest.FixtureRequest, server: Crooked) -> Iterator[Face]:
    with asyncio.Runner() as runner:
        face = Face(request.param(server.url, retry=QUICK, tries=4, timeout=timedelta(seconds=20)), runner)
        yield face
        face("close")


@pytest.fixture
def tracker(service_store: Store) -> Tracker:
    """What the service works on, seen from inside."""
    return Tracker(service_store)


@pytest.fixture
def timeline(service_store: Store) -> Timeline:
    return Timeline(service_store)


@pytest.fixture
def topic(timeline: Timeline) -> str:
    return timeline.create_topic(new_id()).name
