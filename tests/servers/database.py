"""Fresh, empty databases in a running server, dropped even if a test forgot a connection in them."""

from __future__ import annotations

import uuid
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pymysql import Connection
    from pymysql.cursors import Cursor


@contextmanager
def fresh_postgresql(server_url: str) -> Iterator[str]:
    """Yield the URL of a new PostgreSQL database."""
    import psycopg

    url, name = fresh_url(server_url)
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield url
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@contextmanager
def fresh_mariadb(server_url: str) -> Iterator[str]:
    """Yield the URL of a new MariaDB database."""
    import pymysql

    url, name = fresh_url(server_url)
    with closing(connect_mariadb(server_url)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        try:
            yield url
        finally:
            # DROP would wait, for a day, for a transaction left open.
            cursor.execute("SELECT id FROM information_schema.processlist WHERE db = %s", (name,))
            for (connection_id,) in cursor.fetchall():
                with suppress(pymysql.OperationalError):  # it has ended by itself meanwhile
                    cursor.execute("KILL %s", (connection_id,))
            cursor.execute(f"DROP DATABASE {name}")


def connect_mariadb(url: str) -> Connection[Cursor]:
    """Connect PyMySQL, which takes no URL."""
    import pymysql

    parts = urlsplit(url)
    return pymysql.connect(host=parts.hostname, port=parts.port or 0, user=parts.username, database=parts.path[1:])


def fresh_url(server_url: str) -> tuple[str, str]:
    """Return the URL and the name of a database that no other test of any worker has."""
    name = f"test_{uuid.uuid4().hex}"
    return urlsplit(server_url)._replace(path=f"/{name}").geturl(), name
