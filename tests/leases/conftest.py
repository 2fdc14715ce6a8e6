"""One suite, every kind of keeper: in a database or server that the tests of a worker share."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from batchline import open_store
from tests.leases.keeping import Keeper, Leases, azure_address, keeper_of
from tests.servers.database import fresh_mariadb, fresh_postgresql

KINDS = ("memory", "sqlite", "postgresql", "mysql", "redis", "azure")
#: Those whose leases may be as short as one likes.
SHORT_LEASES = KINDS[:-1]
#: Those that other processes can reach.
OUTSIDE = KINDS[1:]


@pytest.fixture(scope="session")
def address_of_kind(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], str]]:
    """The address of each kind; in Azure, of a container that nobody else has."""
    with ExitStack() as stack:
        known: dict[str, str] = {}

        def fresh(kind: str) -> str:
            if kind == "sqlite":
                return f"sqlite:///{tmp_path_factory.mktemp('leases') / 'leases.db'}"
            if kind == "postgresql":
                return stack.enter_context(fresh_postgresql(request.getfixturevalue("postgresql_url")))
            if kind == "mysql":
                return stack.enter_context(fresh_mariadb(request.getfixturevalue("mariadb_url")))
            return str(request.getfixturevalue("redis_url")) if kind == "redis" else "memory://"

        def address(kind: str) -> str:
            if kind == "azure":
                return azure_address(request.getfixturevalue("azurite_url"), f"test-{uuid.uuid4().hex}")
            if kind not in known:
                known[kind] = fresh(kind)
            return known[kind]

        yield address


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def keeper(kind: str, address_of_kind: Callable[[str], str]) -> Iterator[Keeper]:
    """A resource of this test's own."""
    address = address_of_kind(kind)
    with ExitStack() as stack:
        store = stack.enter_context(open_store(address)) if kind == "memory" else None
        yield stack.enter_context(keeper_of(kind, address, store))


@pytest.fixture
def leases(keeper: Keeper) -> Leases:
    """A resource with partitions 0 to 3."""
    leases = keeper.leases()
    leases.provision()
    return leases
