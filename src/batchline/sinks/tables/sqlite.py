"""A table in a SQLite file."""

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from batchline.sinks.measurement_rows import Row
from batchline.sinks.tables.table import COLUMNS, KEY, Table

__all__ = ["SqliteTable"]


class SqliteTable(Table):
    """Times are texts of one length, in UTC, so that they sort as they passed."""

    quote = '"'

    def columns(self) -> list[str]:
        """The names of its columns."""
        query = "SELECT lower(name) FROM pragma_table_info(?, ?)"
        place = (self.name, self.schema or "main")
        return [row[0] for row in self._connections.transact(lambda it: it.execute(query, place).fetchall())]

    def create(self) -> None:
        """Make the table."""
        sql = (
            f"CREATE TABLE IF NOT EXISTS {self.quoted} (parcel TEXT NOT NULL, place INTEGER NOT NULL, key TEXT, "
            "type TEXT, event_time TEXT, receive_time TEXT, value REAL, measurement TEXT NOT NULL, "
            "PRIMARY KEY (parcel, place))"
        )
        self._connections.transact(lambda it: it.execute(sql))

    def check(self) -> None:
        """SQLite says itself, before it does anything, that a key is missing."""
        nothing = (None,) * len(COLUMNS)
        self._connections.transact(lambda it: it.execute(f"EXPLAIN {self._upsert}", nothing).fetchall())

    def upsert(self, rows: Sequence[Row]) -> None:
        """Write the rows."""
        self._connections.transact(lambda it: it.executemany(self._upsert, map(_values, rows)))

    def is_refusal(self, error: Any) -> bool:
        """Whether a value breaks a constraint, or is too long."""
        return isinstance(error, sqlite3.IntegrityError | sqlite3.DataError)

    @property
    def _upsert(self) -> str:
        news = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS if name not in KEY)
        return (
            f"INSERT INTO {self.quoted} ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))}) "  # noqa: S608 - quoted
            f"ON CONFLICT ({', '.join(KEY)}) DO UPDATE SET {news}"
        )


def _values(row: Row) -> tuple[Any, ...]:
    return tuple(_text(value) if isinstance(value, datetime) else value for value in row)


def _text(moment: datetime) -> str:
    return f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
