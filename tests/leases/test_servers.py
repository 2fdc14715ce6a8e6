"""The way to whoever keeps leases: cut in the midst of a call, away, silent, or started again."""

import socket
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest

from batchline.core.partitions import Asking
from batchline.errors import StoreUnavailable
from batchline.leases.lease_manager import LeaseManager
from batchline.leases.opening import open_leases
from batchline.runtime.clock import elapsed_seconds
from tests.conftest import own_server_of
from tests.doubles import new_id
from tests.leases.keeping import LONG_MS, SHORT_MS, Clock, Keeper, wait_until
from tests.servers.own import OwnServer
from tests.stores.cutting_proxy import CuttingProxy

SERVERS = ("postgresql", "mysql", "redis", "azure")
#: What the last request of a verb contains.
CHANGING = {"postgresql": b"COMMIT", "mysql": b"COMMIT", "redis": b"EVALSHA", "azure": b"comp=lease"}


def by_way_of(address: str, port: int, options: str = "") -> str:
    """The same address with another port."""
    parts = urlsplit(address)
    user = f"{parts.username}@" if parts.username else ""
    query = "&".join(filter(None, (parts.query, options)))
    return parts._replace(netloc=f"{user}127.0.0.1:{port}", query=query).geturl()


def hurried(kind: str) -> str:
    """Options with which one does not wait for long."""
    return {"postgresql": "patience=300ms", "mysql": "patience=300ms", "redis": "socket_timeout=0.2"}.get(kind, "")


@pytest.fixture
def proxy(keeper: Keeper) -> Iterator[CuttingProxy]:
    parts = urlsplit(keeper.address)
    assert parts.hostname
    assert parts.port
    with CuttingProxy(parts.hostname, parts.port) as proxy:
        yield proxy


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("answered", [True, False])
def test_a_verb_whose_connection_was_cut_is_done_all_the_same(
    keeper: Keeper, proxy: CuttingProxy, answered: bool
) -> None:
    with open_leases(by_way_of(keeper.address, proxy.port), keeper.resource) as far:
        far.provision(4, "s", 1)
        far.acquire("a", [3], 1, LONG_MS, 1)  # scripts are loaded
        far.renew("a", [3], LONG_MS, 1)
        far.release("a", [3], 1)

        def cut() -> None:
            proxy.cut_at(CHANGING[keeper.kind], answered=answered)

        cut()
        assert far.acquire("a", [2, 0, 1], 2, LONG_MS, 1) == [2, 0]
        assert proxy.has_cut
        cut()
        assert far.renew("a", [0, 2, 3], LONG_MS, 1) == [0, 2]
        assert proxy.has_cut
        cut()
        far.release("a", [0, 3], 1)
        assert proxy.has_cut
        assert far.holders(1) == {2: "a"}


@pytest.mark.parametrize("kind", ["azure"])
@pytest.mark.parametrize("request_", [b"comp=lease", b"comp=metadata"])
def test_in_azure_a_lease_that_nobody_heard_of_is_found_again(
    keeper: Keeper, proxy: CuttingProxy, request_: bytes
) -> None:
    with open_leases(by_way_of(keeper.address, proxy.port), keeper.resource) as far:
        far.provision(2, "s", 1)
        far.acquire("before", [0, 1], 2, LONG_MS, 1)
        far.release("before", [0, 1], 1)
        proxy.cut_at(request_, answered=True, times=2)
        with pytest.raises(StoreUnavailable):
            far.acquire("a", [1], 1, LONG_MS, 1)
        assert far.acquire("b", [1], 1, LONG_MS, 1) == []
        assert far.acquire("a", [1, 0], 1, LONG_MS, 1) == [1]
        assert far.holders(1) == {1: "a"}


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_that_went_away_is_unavailable_soon(keeper: Keeper) -> None:
    parts = urlsplit(keeper.address)
    assert parts.hostname
    with CuttingProxy(parts.hostname, parts.port or 0) as proxy:
        far = open_leases(by_way_of(keeper.address, proxy.port, hurried(keeper.kind)), keeper.resource)
        far.provision(2, "s", 1)
        assert far.acquire("a", [0], 1, LONG_MS, 1) == [0]
    with far:
        check_unavailable(far)


def check_unavailable(manager: LeaseManager) -> None:
    calls: list[Callable[[], object]] = [
        lambda: manager.provision(2, "s", 1),
        lambda: manager.ask(Asking("a", 1), LONG_MS, 1),
        lambda: manager.acquire("a", [1, 0], 2, LONG_MS, 1),
        lambda: manager.renew("a", [1, 0], LONG_MS, 1),
        lambda: manager.release("a", [1, 0], 1),
        lambda: manager.holders(1),
    ]
    for call in calls:
        began = elapsed_seconds()
        with pytest.raises(StoreUnavailable):
            call()
        assert elapsed_seconds() - began < 5


@pytest.fixture
def free_port() -> Iterator[int]:
    """A port that is taken, but on which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:hidden@127.0.0.1:{port}/n",
        "mysql://me:hidden@127.0.0.1:{port}/n",
        "redis://:hidden@127.0.0.1:{port}/0",
        "azblob+http://127.0.0.1:{port}/account/container?key=aGlkZGVu",
        "azblob+http://127.0.0.1:{port}/account/container?sv=2024&sig=hidden",
    ],
)
def test_a_server_that_is_not_there_is_unavailable_and_no_secret_is_told(address: str, free_port: int) -> None:
    def look() -> None:
        with open_leases(address.format(port=free_port), "orders") as far:
            far.holders(1)

    with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{free_port}") as raised:
        look()
    said = f"{raised.value} {raised.value.__cause__}"
    assert "hidden" not in said
    assert "aGlkZGVu" not in said


@pytest.mark.parametrize(
    "address",
    ["redis://127.0.0.1:{port}/0?socket_timeout=0.2", "azblob+http://127.0.0.1:{port}/account/container?key=aGlkZGVu"],
)
def test_a_server_that_says_nothing_is_unavailable_soon(address: str) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        open_leases(address.format(port=silent.getsockname()[1]), "orders") as far,
    ):
        began = elapsed_seconds()
        with pytest.raises(StoreUnavailable, match="does not answer"):
            far.renew("a", list(range(20)), LONG_MS, 1)
        assert elapsed_seconds() - began < 6


@pytest.fixture(scope="module", params=["redis", "postgresql"])
def server(request: pytest.FixtureRequest) -> Iterator[OwnServer]:
    """A server that can be ended and started again."""
    with own_server_of(request.param) as server:
        yield server


@pytest.mark.parametrize("server", ["redis"], indirect=True)
def test_a_redis_that_forgot_everything_gives_nothing_away_that_somebody_may_hold(server: OwnServer) -> None:
    name = new_id()
    with open_leases(server.url, name) as one, open_leases(server.url, name) as other:
        one.provision(2, "s", 1)
        other.provision(2, "s", 1)
        assert one.acquire("a", [0], 1, SHORT_MS, 1) == [0]
        server.end()
        with pytest.raises(StoreUnavailable):
            one.renew("a", [0], SHORT_MS, 1)
        server.start()
        began = elapsed_seconds()
        assert one.renew("a", [0], SHORT_MS, 1) == []
        wait_until(Clock(real=True), lambda: other.acquire("b", [0, 1], 2, SHORT_MS, 1) == [0, 1])
        assert elapsed_seconds() - began >= SHORT_MS / 1_000
        assert one.acquire("a", [0, 1], 2, SHORT_MS, 1) == []
        assert one.provision(2, "s", 1).verified_partitions == [0, 1]


@pytest.mark.parametrize("server", ["postgresql"], indirect=True)
def test_a_database_that_was_started_again_knows_who_holds_what(server: OwnServer) -> None:
    with open_leases(f"{server.url}?patience=200ms", new_id()) as leases:
        leases.provision(3, "s", 1)
        assert leases.acquire("a", [0, 1], 2, LONG_MS, 1) == [0, 1]
        server.end()
        with pytest.raises(StoreUnavailable):
            leases.acquire("b", [0, 1, 2], 3, LONG_MS, 1)
        server.start()
        assert leases.acquire("b", [0, 1, 2], 3, LONG_MS, 1) == [2]
        assert leases.renew("a", [0, 1], LONG_MS, 1) == [0, 1]
