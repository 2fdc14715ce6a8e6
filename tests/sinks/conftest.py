"""Databases for the tests of sinks: a server each, and in it a table of each test's own."""

from collections.abc import Iterator

import pytest

from tests.servers.database import fresh_mariadb, fresh_postgresql


@pytest.fixture(scope="module", params=["sqlite", "postgresql", "mariadb"])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database of this file only, of each kind in turn."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path_factory.mktemp('sinks') / 'sink.db'}?synchronous=normal"
        return
    fresh = {"postgresql": fresh_postgresql, "mariadb": fresh_mariadb}[request.param]
    with fresh(str(request.getfixturevalue(f"{request.param}_url"))) as url:
        yield url
