"""What all tests share: real servers, fresh databases in them, and how hard properties are tried."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.servers.ask import ask, begin, end
from tests.servers.database import fresh_mariadb, fresh_postgresql
from tests.servers.own import OwnServer, own_server
from tests.servers.quick_java import quick_spark
from tests.servers.server import ProgramMissingError

if TYPE_CHECKING:
    from collections.abc import Iterator

IN_CI = os.environ.get("CI") == "true"

settings.register_profile("default", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=100, deadline=None, print_blob=True)
settings.register_profile("full", max_examples=1000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("BATCHLINE_TEST_PROFILE") or ("ci" if IN_CI else "default"))


def pytest_configure(config: pytest.Config) -> None:
    """Begin a run of servers; the workers of xdist take part in their controller's.

    Spark starts quickly in all of them, and what a killed one leaves is removed with the rest.
    """
    if not hasattr(config, "workerinput"):
        left = tempfile.mkdtemp(prefix="batchline-spark-")
        config.add_cleanup(lambda: shutil.rmtree(left, ignore_errors=True))
        os.environ["SPARK_SUBMIT_OPTS"] = f"{quick_spark()} {shlex.quote(f'-Djava.io.tmpdir={left}')}"
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


@contextmanager
def own_server_of(name: str) -> Iterator[OwnServer]:
    """A server that can be ended and started again; without its program the test is skipped, but never in CI."""
    try:
        with own_server(name) as server:
            yield server
    except ProgramMissingError as error:
        if IN_CI:
            raise
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


@pytest.fixture(scope="session")
def kafka_url() -> str:
    """A Kafka broker that all tests share, `kafka://host:port`: use topics that no other test uses."""
    return address_of("kafka")


@pytest.fixture(scope="session")
def own_kafka() -> Iterator[OwnServer]:
    """A Kafka broker that a test may end, if it starts it again."""
    with own_server_of("kafka") as server:
        yield server


@pytest.fixture(scope="session")
def spark_cluster_url() -> str:
    """The master of a Spark cluster with two workers of one core and 1 GB each, which read the tests' own files."""
    return address_of("spark_cluster")


@pytest.fixture
def postgresql_database(postgresql_url: str) -> Iterator[str]:
    """An empty PostgreSQL database of this test only."""
    with fresh_postgresql(postgresql_url) as url:
        yield url


@pytest.fixture
def mariadb_database(mariadb_url: str) -> Iterator[str]:
    """An empty MariaDB database of this test only."""
    with fresh_mariadb(mariadb_url) as url:
        yield url
