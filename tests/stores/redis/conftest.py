"""What the tests of Redis share."""

from collections.abc import Iterator

import pytest
from redis import Redis

from batchline.runtime.estimated_tracker import EstimatedTracker
from batchline.stores.redis.estimates import EstimateStore
from tests.doubles import HandClock


@pytest.fixture
def store(redis_url: str) -> Iterator[EstimateStore]:
    with EstimateStore(redis_url) as store:
        yield store


@pytest.fixture
def server(redis_url: str) -> Iterator[Redis]:
    """Our own look at what the server holds."""
    with Redis.from_url(redis_url, decode_responses=True) as client:
        yield client


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def tracker(store: EstimateStore, clock: HandClock) -> EstimatedTracker:
    return EstimatedTracker(store, clock=clock)


@pytest.fixture
def script_cache(server: Redis) -> Iterator[None]:
    """For a test that flushes the scripts of the server, or would fail if another did."""
    with server.lock("batchline:test:script-cache", timeout=120):
        yield
