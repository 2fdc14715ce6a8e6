"""Fresh databases for the benchmarks of stages 3 and 4, and how many bytes tables take, indexes included."""

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from tests.servers.ask import ask
from tests.servers.database import connect_mariadb, fresh_mariadb, fresh_postgresql

__all__ = ["DATABASES", "bytes_on_disk", "fresh", "rewrite"]

DATABASES = ("SQLite", "PostgreSQL", "MariaDB")


@contextmanager
def fresh(database: str) -> Iterator[str]:
    """Yield the URL of an empty database that is dropped at the end."""
    if database == "SQLite":
        with tempfile.TemporaryDirectory(prefix="batchline-bench-") as home:
            yield f"sqlite:///{home}/bench.db"
    elif database == "PostgreSQL":
        with fresh_postgresql(ask("postgresql")) as url:
            yield url
    else:
        with fresh_mariadb(ask("mariadb")) as url:
            yield url


def bytes_on_disk(database: str, url: str) -> int:
    """Vacuum as the database's own housekeeping does, and return what all its tables take.

    SQLite: the file after VACUUM and a checkpoint. PostgreSQL: pg_total_relation_size after VACUUM ANALYZE, which frees
    but does not compact (see `rewrite`). MariaDB: the files of the tables after OPTIMIZE, which compacts, and ANALYZE.
    """
    return {"SQLite": _sqlite, "PostgreSQL": _postgresql, "MariaDB": _mariadb}[database](url)


def rewrite(url: str) -> int:
    """Return what PostgreSQL's tables take after VACUUM FULL, which compacts them and locks everybody out meanwhile."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM (FULL, ANALYZE)")
    return _postgresql(url)


def _sqlite(url: str) -> int:
    path = Path(urlsplit(url).path[1:])
    with closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as connection:
        connection.execute("VACUUM")
        busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        assert not busy, "somebody reads: the file's size would not be all"
        connection.execute("ANALYZE")
    return path.stat().st_size


def _postgresql(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE)")
        tables = connection.execute(
            "SELECT sum(pg_total_relation_size(oid)) FROM pg_class "
            "WHERE relkind = 'r' AND relnamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema')"
        ).fetchone()
    assert tables is not None
    return int(tables[0])


def _mariadb(url: str) -> int:
    with closing(connect_mariadb(url)) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW TABLES")
        for (table,) in cursor.fetchall():
            for verb in ("OPTIMIZE", "ANALYZE"):
                cursor.execute(f"{verb} TABLE `{table}`")
                cursor.fetchall()
        cursor.execute(
            "SELECT sum(file_size) FROM information_schema.innodb_sys_tablespaces "
            "WHERE name LIKE concat(database(), '/%')"
        )
        row = cursor.fetchone()
    assert row is not None
    return int(row[0])
