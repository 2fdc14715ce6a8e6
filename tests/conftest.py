"""What all tests share: real servers, fresh databases in them, and how hard properties are tried."""

from __future__ import annotations

import os
import uuid
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from hypothesis import settings

from tests.servers.ask import ask, begin, end
from tests.servers.server import ProgramMissingError

if TYPE_CHECKING:
    from collections.abc import Iterator

IN_CI = os.environ.get("CI") == "true"

settings.register_profile("default", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=100, deadline=None, print_blob=True)
settings.register_profile("full", max_examples=1000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("BATCHLINE_TEST_PROFILE") or ("ci" if IN_CI else "default"))


def pytest_configure(config: pytest.Config) -> None:
    """Begin a run of servers; the workers of xdist take part in their controller's."""
    if not hasattr(config, "workerinput"):
        begin()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the servers."""
    if not hasattr(config, "workerinput"):
        end()


def address_of(name: str) -> str:
    """Return the address of a running server; without its program the test is skipped, but never in CI."""
    try:
        return ask(name)
    except ProgramMissingError as error:
        if IN_CI:
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def postgresql_url() -> str:
    """A PostgreSQL server; for a database of one's own see `postgresql_database`."""
    return address_of("postgresql")


@pytest.fixture(scope="session")
def mariadb_url() -> str:
    """A MariaDB server; for a database of one's own see `mariadb_database`."""
    return address_of("mariadb")


@pytest.fixture(scope="session")
def redis_url() -> str:
    """A Redis server that all tests share: use keys that no other test uses."""
    return address_of("redis")


@pytest.fixture(scope="session")
def mosquitto_url() -> str:
    """An MQTT broker that all tests share: use topics that no other test uses."""
    return address_of("mosquitto")


@pytest.fixture(scope="session")
def azurite_url() -> str:
    """The connection string of a blob store that all tests share: use containers that no other test uses."""
    return address_of("azurite")


@pytest.fixture
def postgresql_database(postgresql_url: str) -> Iterator[str]:
    """An empty PostgreSQL database of this test only."""
    import psycopg

    name = fresh_name()
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        yield urlsplit(postgresql_url)._replace(path=f"/{name}").geturl()
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
def mariadb_database(mariadb_url: str) -> Iterator[str]:
    """An empty MariaDB database of this test only."""
    import pymysql

    name = fresh_name()
    address = urlsplit(mariadb_url)
    with (
        closing(pymysql.connect(host=address.hostname, port=address.port or 0, user="root")) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(f"CREATE DATABASE {name}")
        yield address._replace(path=f"/{name}").geturl()
        # A connection left open in a transaction would make DROP wait for it.
        cursor.execute("SELECT id FROM information_schema.processlist WHERE db = %s", (name,))
        for (process,) in cursor.fetchall():
            cursor.execute("KILL %s", (process,))
        cursor.execute(f"DROP DATABASE {name}")


def fresh_name() -> str:
    """Return a name that no other test of any worker has."""
    return f"test_{uuid.uuid4().hex}"
