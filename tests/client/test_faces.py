"""Both clients have the methods of tracker and timeline; and what they are given is checked before it is sent."""

import asyncio
import inspect
import ssl
from datetime import timedelta
from typing import Any

import pytest

from batchline import FanoutStatus, LeasedMessage, RetryRules, Timeline, Topic, Tracker
from batchline.client import AsyncClient, Client
from batchline.errors import BatchlineError, ImproperOrder, InvalidInput, InvalidName, InvalidRules
from tests.client.conftest import Face
from tests.client.crooked import Crooked
from tests.doubles import new_id

#: What a broker does for itself, or for its admins.
OF_BROKERS = {
    "attend",
    "beat",
    "read_any",
    "health",
    "check_clock",
    "hurry",
    "now_ms",
    "attend_sessions",
    "resume_session",
    "take_over",
    "end_session",
}
VERBS = [
    (kind, name)
    for kind in (Tracker, Timeline)
    for name in vars(kind)
    if not name.startswith("_") and name not in OF_BROKERS
]
#: What only one of them has, and why: a service can wait; a client takes care of its numbers, a socket of its session.
BEYOND = {"lease": {"wait", "session"}, "my_leases": {"session"}, "leases_page": {"session"}, "create": {"call_number"}}


@pytest.mark.parametrize(("kind", "name"), VERBS, ids=[name for _, name in VERBS])
@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_a_verb_takes_what_it_takes_at_home(kind: type, name: str, client: type) -> None:
    at_home = inspect.signature(getattr(kind, name)).parameters
    from_afar = inspect.signature(getattr(client, name).steps).parameters
    beyond = BEYOND.get(name, set())
    assert [str(one) for one in from_afar.values() if one.name not in beyond] == [
        str(one) for one in at_home.values() if one.name not in beyond
    ]
    assert getattr(client, name).__doc__


def test_a_bound_verb_shows_how_it_is_called() -> None:
    with Client("http://localhost:1") as client:
        assert list(inspect.signature(client.status).parameters) == ["fanout"]
        assert (client.status.__name__, bool(client.status.__doc__)) == ("status", True)


def test_types_are_known_of_both(server: Crooked) -> None:
    """What mypy says of these lines is what is tested."""
    with Client(server.url) as client:
        topic: Topic = client.create_topic(new_id())
        found: list[LeasedMessage] = client.lease(topic.name, "w")
        assert found == []

    async def awaited() -> FanoutStatus:
        async with AsyncClient(server.url) as client:
            page: list[Topic] = await client.topics()
            assert topic in page
            return await client.open()

    status: FanoutStatus = asyncio.run(awaited())
    assert status.state == "open"


def test_many_calls_of_an_async_client_are_under_way_at_once(server: Crooked) -> None:
    async def many() -> list[FanoutStatus]:
        async with AsyncClient(server.url) as client:
            return await asyncio.gather(*(client.open() for _ in range(30)))

    assert len({status.id for status in asyncio.run(many())}) == 30


def test_who_waits_gets_what_comes_meanwhile(server: Crooked, topic: str) -> None:
    async def meanwhile() -> list[LeasedMessage]:
        async with AsyncClient(server.url) as client:
            waiting = asyncio.create_task(client.lease(topic, "w", limit=5, wait=timedelta(seconds=20)))
            await client.topics()
            await client.create(topic, [b"at last"], producer_group="g")
            return await waiting

    assert [one.body for one in asyncio.run(meanwhile())] == [b"at last"]
    with Client(server.url) as client:
        assert client.lease(topic, "w", wait=timedelta(milliseconds=50)) == []


def test_what_is_wrong_is_raised_by_the_call_that_is_awaited(server: Crooked) -> None:
    async def wrong() -> None:
        async with AsyncClient(server.url) as client:
            calls = [client.ack("text"), client.open(5), client.done(["x"])]  # type: ignore[arg-type, list-item]
            for call in calls:
                with pytest.raises(InvalidInput):
                    await call

    asyncio.run(wrong())
    assert server.requests == 0


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"url": "localhost:8080"}, InvalidInput, "expected the address of a service such as http://127.0.0.1:8080"),
        ({"url": "ftp://localhost"}, InvalidInput, "expected the address of a service"),
        ({"url": "http://"}, InvalidInput, "expected the address of a service"),
        ({"url": "http://localhost:99999"}, InvalidInput, "expected the address of a service"),
        ({"url": "http://a b/"}, InvalidInput, "expected the address of a service"),
        ({"url": "http://[::1"}, InvalidInput, "expected the address of a service"),
        ({"url": None}, InvalidInput, "expected the address of a service .*, got None"),
        ({"url": "http://me:bl_secret@localhost"}, InvalidInput, "neither a name, a password nor a query"),
        ({"url": "http://localhost/?token=bl_secret"}, InvalidInput, "neither a name, a password nor a query"),
        ({"token": "bl_secret\n"}, InvalidInput, "expected a token as `batchline token create` prints it"),
        ({"token": "bl secret"}, InvalidInput, "expected a token"),
        ({"token": ""}, InvalidInput, "expected a token"),
        ({"token": 5}, InvalidInput, "expected a token"),
        ({"timeout": 5}, InvalidRules, "timeout must be a timedelta"),
        ({"timeout": timedelta(0)}, InvalidRules, "timeout must be 1ms or longer"),
        ({"retry": 5}, InvalidRules, "retry must be RetryRules, or None to try once, got 5"),
        ({"tries": 0}, InvalidRules, "tries must be a whole number from 1 on, got 0"),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_client_that_cannot_be_is_refused(
    kind: type[Client], settings: dict[str, Any], error: type[BatchlineError], said: str
) -> None:
    with pytest.raises(error, match=said) as raised:
        kind(**({"url": "http://localhost:8080"} | settings))
    assert "secret" not in str(raised.value)


def test_a_client_that_is_closed_says_so(face: Face) -> None:
    face("topics")
    face("close")
    with pytest.raises(ImproperOrder, match="the client is closed"):
        face("topics")


def test_settings_that_can_be() -> None:
    context = ssl.create_default_context()
    with Client("https://localhost:8443/", "bl_x_y", tls=context, retry=RetryRules(), tries=1) as client:
        assert repr(client) == "Client('https://localhost:8443')"
        with pytest.raises(InvalidName):
            client.topic("")
