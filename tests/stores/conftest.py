"""Empty databases for the tests of stores, and a way to them that can be cut."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.stores.cutting_proxy import CuttingProxy


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def sql_database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of this test only, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'batchline.db'}"
    return str(request.getfixturevalue(f"{request.param}_database"))


@pytest.fixture(params=["postgresql", "mariadb"])
def server_database(request: pytest.FixtureRequest) -> str:
    """An empty database of this test only, in a server of each kind in turn."""
    return str(request.getfixturevalue(f"{request.param}_database"))


@pytest.fixture
def proxy(server_database: str) -> Iterator[CuttingProxy]:
    """What stands between a store and its server."""
    address = urlsplit(server_database)
    assert address.hostname
    assert address.port
    with CuttingProxy(address.hostname, address.port) as proxy:
        yield proxy
