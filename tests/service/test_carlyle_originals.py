"""Carlyle's own tests 16, 18 and 19 against its routes: a real service on a real store, asked as Carlyle's client asks.

The numbers count the tests of its repository in order of file: 4 of bits, 1 of configuration, 10 of the database,
1 of MySQL (16), 6 of the service (17 to 22).
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

import httpx2
import pytest

from batchline import EstimatedTracker, EstimateStore, open_store
from tests.service.serving import serving

EXACT, ESTIMATED = "/api/v1/batch/exact", "/api/v1/batch/estimated"
#: Carlyle's client adds at most this number of items in a request, and acknowledges at most this number.
ADDED_AT_ONCE, ACKED_AT_ONCE = 10_000, 100
#: Carlyle takes 25,000 and a random number below 1,000.
LARGE: Final = 25_500
PATIENCE_S: Final = 120.0


@pytest.fixture(params=["sqlite", "postgresql_database", "mariadb_database"])
def url(request: pytest.FixtureRequest, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a service on an empty store of each database, with estimates in Redis."""
    address = f"sqlite:///{tmp_path_factory.mktemp('sqlite') / 'batchline.db'}"
    if request.param != "sqlite":
        address = request.getfixturevalue(request.param)
    with ExitStack() as stack:
        estimates = EstimatedTracker(stack.enter_context(EstimateStore(redis_url)))
        yield stack.enter_context(serving(stack.enter_context(open_store(address)), estimates=estimates))


class CarlyleClient:
    """The requests of Carlyle's own client, of the same sizes."""

    def __init__(self, url: str) -> None:
        limits = httpx2.Limits(max_connections=None)
        self.http = httpx2.AsyncClient(base_url=url, timeout=PATIENCE_S, limits=limits)

    async def __aenter__(self) -> "CarlyleClient":
        await self.http.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    async def get(self, path: str) -> Any:
        """Read JSON."""
        answer = await self.http.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def post(self, path: str, form: Any = None) -> Any:
        """Post JSON, and read the answer."""
        answer = await self.http.post(path, json=form)
        assert answer.status_code in (200, 204), answer.text
        return answer.json() if answer.content else None

    async def filled(self, count: int) -> tuple[int, list[str]]:
        """Create a batch, and add items in requests of at most 10,000."""
        batch = (await self.post(EXACT, {}))["batchId"]
        groups = []
        for first in range(0, count, ADDED_AT_ONCE):
            form = {"batchId": batch, "items": min(ADDED_AT_ONCE, count - first)}
            groups += (await self.post(f"{EXACT}/items", form))["batchItemGroupIds"]
        return batch, [f"{batch}:{group['id']}:{index}" for group in groups for index in range(group["upto"])]

    async def ack(self, items: list[str]) -> list[Any]:
        """Acknowledge items in requests of at most 100, and join their completions."""
        answers = [
            await self.post(f"{EXACT}/items/ack", {"batchItemIds": some}) for some in pieces(items, ACKED_AT_ONCE)
        ]
        assert all(answer.keys() == {"batchCompletions"} for answer in answers)
        return [completion for answer in answers for completion in answer["batchCompletions"]]


def pieces(items: list[str], most: int) -> Iterator[list[str]]:
    """Divide items into lists of at most this number."""
    return (items[first : first + most] for first in range(0, len(items), most))


def test_16_200_parallel_acks_of_five_items_complete_a_closed_batch_once(url: str) -> None:
    async def scenario() -> None:
        async with CarlyleClient(url) as client:
            batch, items = await client.filled(1000)
            assert await client.post(f"{EXACT}/close/{batch}") == {"isComplete": False}
            acks = [client.ack(five) for five in pieces(items, 5)]
            assert len(acks) == 200
            completions = [completion for found in await asyncio.gather(*acks) for completion in found]
            assert completions == [{"batchId": batch}]
            assert await client.get(f"{EXACT}/{batch}") == {"batchId": batch, "isComplete": True, "isClosed": True}

    asyncio.run(scenario())


def test_18_a_batch_of_25500_items_is_complete_when_all_are_acknowledged(url: str) -> None:
    async def scenario() -> None:
        async with CarlyleClient(url) as client:
            batch, items = await client.filled(LARGE)
            assert len(set(items)) == LARGE
            assert await client.get(f"{EXACT}/{batch}") == {"batchId": batch, "isComplete": False, "isClosed": False}
            assert await client.post(f"{EXACT}/close/{batch}") == {"isComplete": False}
            assert await client.ack(items) == [{"batchId": batch}]
            assert await client.get(f"{EXACT}/{batch}") == {"batchId": batch, "isComplete": True, "isClosed": True}

    asyncio.run(scenario())


def test_19_a_batch_of_25500_items_is_complete_when_the_first_is_acknowledged_and_then_all(url: str) -> None:
    async def scenario() -> None:
        async with CarlyleClient(url) as client:
            batch, items = await client.filled(LARGE)
            assert len(set(items)) == LARGE
            assert await client.get(f"{EXACT}/{batch}") == {"batchId": batch, "isComplete": False, "isClosed": False}
            assert await client.post(f"{EXACT}/close/{batch}") == {"isComplete": False}
            assert await client.ack(items[:1]) == []
            assert await client.ack(items) == [{"batchId": batch}]  # the first a second time
            assert await client.get(f"{EXACT}/{batch}") == {"batchId": batch, "isComplete": True, "isClosed": True}

    asyncio.run(scenario())


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)  # estimates are in Redis, whatever the store
def test_16_200_parallel_decrements_by_five_complete_a_closed_estimated_batch(url: str) -> None:
    async def scenario() -> None:
        async with CarlyleClient(url) as client:
            batch = await estimated(client, 1000)
            acks = [client.post(f"{ESTIMATED}/decr", {"acks": [{"batchId": batch, "by": 5}]}) for _ in range(200)]
            answers = await asyncio.gather(*acks)
            assert any(answer["results"][0]["isComplete"] for answer in answers)
            assert await client.get(f"{ESTIMATED}/{batch}") == {"isComplete": True, "isClosed": True}

    asyncio.run(scenario())


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_18_and_19_an_estimated_batch_of_25500_items_is_complete_with_the_last_decrement(url: str) -> None:
    async def scenario() -> None:
        async with CarlyleClient(url) as client:
            batch = await estimated(client, LARGE)
            for by, complete in ((1, False), (LARGE - 2, False), (1, True)):
                answer = await client.post(f"{ESTIMATED}/decr", {"acks": [{"batchId": batch, "by": by}]})
                assert answer == {"results": [{"batchId": batch, "isComplete": complete}]}

    asyncio.run(scenario())


async def estimated(client: CarlyleClient, count: int) -> str:
    """Create an estimated batch of some items, and close it."""
    batch = str((await client.post(ESTIMATED, {}))["batchId"])
    await client.post(f"{ESTIMATED}/{batch}/incr?by={count}")
    assert (await client.post(f"{ESTIMATED}/{batch}/close"))["isComplete"] is False
    return batch
