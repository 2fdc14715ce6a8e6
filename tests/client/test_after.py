"""Relative due times from a client: the service's clock resolves them, whatever the client's clock shows."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest

from batchline import NewMessage, Store, Timeline, open_store
from batchline.client import AsyncClient, Client
from batchline.core.message import Lease, moment_ms
from tests.client.conftest import Face
from tests.doubles import HandClock
from tests.service.serving import serving

HOUR_US = 3_600_000_000
MINUTE = timedelta(minutes=1)


@pytest.fixture
def clock() -> HandClock:
    """The service's clock."""
    return HandClock()


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("memory://") as store:
        yield store


@pytest.fixture
def broker(store: Store, clock: HandClock) -> Timeline:
    timeline = Timeline(store, clock=clock)
    timeline.create_topic("jobs")
    return timeline


@pytest.fixture(params=[Client, AsyncClient], ids=["waits", "awaits"])
def wrong(request: pytest.FixtureRequest, store: Store, clock: HandClock) -> Iterator[Face]:
    """A client whose clock is an hour ahead of the service's."""
    with serving(store, threads=2, clock=clock) as url, asyncio.Runner() as runner:
        face = Face(request.param(url, clock=lambda: clock() + HOUR_US), runner)
        yield face
        face("close")


def due(broker: Timeline, id: str) -> timedelta:
    """How long from the service's now a message is due."""
    return broker.read("jobs", id, producer_group="p").at - moment_ms(broker.now_ms() + 1)


def test_create_move_and_release_go_by_the_clock_of_the_service(wrong: Face, broker: Timeline) -> None:
    wrong("create", "jobs", [NewMessage(id="a", after=MINUTE), NewMessage(id="b")], producer_group="p")
    assert due(broker, "a") == MINUTE
    wrong("move", "jobs", {"a": 2 * MINUTE}, producer_group="p")
    assert due(broker, "a") == 2 * MINUTE
    wrong("move", "jobs", ["a"], after=3 * MINUTE, producer_group="p")
    assert due(broker, "a") == 3 * MINUTE
    (held,) = wrong("lease", "jobs", "w")
    wrong("release", held, after=4 * MINUTE, reason="why")
    assert due(broker, "b") == 4 * MINUTE


def test_whether_a_lease_has_expired_is_asked_of_the_clock_that_gave_it(wrong: Face, broker: Timeline) -> None:
    wrong("create", "jobs", [b""], producer_group="p")
    (message,) = wrong("lease", "jobs", "w", duration=MINUTE)
    lease: Lease = message.lease
    assert not lease.is_expired(broker.now_ms())
    assert lease.is_expired(broker.now_ms() + 60_000)
