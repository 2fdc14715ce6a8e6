"""However many partitions there are, a verb is few requests: counted on the way to the server."""

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest

from batchline.core.partitions import Asking
from batchline.leases.lease_manager import LeaseManager
from batchline.leases.opening import open_leases
from tests.leases.keeping import LONG_MS, Keeper
from tests.stores.cutting_proxy import CuttingProxy

#: Most that a verb sends: a transaction of a few statements, of which psycopg sends each in parts; or a
#: script, which is sent again if another test has let the server forget it.
MOST = {"postgresql": 12, "mysql": 8, "redis": 3}
ALL = list(range(500))


@pytest.fixture
def proxy(keeper: Keeper) -> Iterator[CuttingProxy]:
    parts = urlsplit(keeper.address)
    assert parts.hostname
    with CuttingProxy(parts.hostname, parts.port or 0) as proxy:
        yield proxy


@pytest.fixture
def far(keeper: Keeper, proxy: CuttingProxy) -> Iterator[LeaseManager]:
    address = keeper.address.replace(f":{urlsplit(keeper.address).port}/", f":{proxy.port}/")
    with open_leases(address, keeper.resource) as manager:
        yield manager


def requests(proxy: CuttingProxy, call: Callable[[], object]) -> int:
    before = proxy.requests
    call()
    return proxy.requests - before


@pytest.mark.parametrize("kind", MOST)
def test_in_a_database_and_in_redis_their_number_does_not_matter(
    kind: str, far: LeaseManager, proxy: CuttingProxy
) -> None:
    far.provision(500, "s", 1)
    calls: dict[str, Callable[[], object]] = {
        "acquire": lambda: far.acquire("a", ALL, 500, LONG_MS, 1),
        "acquire nothing": lambda: far.acquire("b", ALL, 500, LONG_MS, 1),
        "renew": lambda: far.renew("a", ALL, LONG_MS, 1),
        "ask": lambda: far.ask(Asking("a", 500, tuple(ALL)), LONG_MS, 1),
        "holders": lambda: far.holders(1),
        "release": lambda: far.release("a", ALL, 1),
        "provision": lambda: far.provision(500, "s", 1),
    }
    for call in calls.values():
        call()  # scripts are loaded
    counted = {verb: requests(proxy, call) for verb, call in calls.items()}
    assert max(counted.values()) <= MOST[kind], counted


@pytest.mark.parametrize("kind", ["azure"])
def test_in_azure_what_others_hold_is_not_tried(far: LeaseManager, proxy: CuttingProxy) -> None:
    far.provision(30, "s", 1)
    far.acquire("a", list(range(29)), 29, LONG_MS, 1)
    assert requests(proxy, lambda: far.acquire("b", list(range(29)), 3, LONG_MS, 1)) == 1
    assert requests(proxy, lambda: far.acquire("b", list(range(30)), 3, LONG_MS, 1)) == 3
    assert requests(proxy, lambda: far.holders(1)) == 1
    assert requests(proxy, lambda: far.ask(Asking("a", 1), LONG_MS, 1)) == 2
