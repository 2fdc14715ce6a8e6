"""A table in PostgreSQL."""

import json
from collections.abc import Sequence
from typing import Any, Final

import psycopg

from batchline.sinks.measurement_rows import Row
from batchline.sinks.tables.table import COLUMNS, KEY, Table

__all__ = ["PostgresTable"]

#: SQLSTATE, by class: data exceptions, broken constraints, limits of the program such as an entry of an index.
REFUSALS: Final = ("22", "23", "54")
TYPES: Final = {
    "parcel": "text",
    "place": "integer",
    "key": "text",
    "type": "text",
    "event_time": "timestamptz",
    "receive_time": "timestamptz",
    "value": "double precision",
    "measurement": "jsonb",
}


class PostgresTable(Table):
    """Rows travel as one JSON text: in a third of the time that an array for each column takes the driver."""

    quote = '"'

    def columns(self) -> list[str]:
        """The names of its columns."""
        query = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"
        found = self._connections.transact(lambda it: it.execute(query, (self.quoted,)).fetchall())
        return [row[0] for row in found]

    def create(self) -> None:
        """Make the table; who does so at the same moment waits, for PostgreSQL would fail one of them."""
        columns = ", ".join(f"{name} {type}" for name, type in TYPES.items())
        sql = f"CREATE TABLE IF NOT EXISTS {self.quoted} ({columns}, PRIMARY KEY ({', '.join(KEY)}))"

        def work(connection: Any) -> None:
            connection.execute("BEGIN")
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (self.quoted,))
            connection.execute(sql)
            connection.execute("COMMIT")

        self._connections.transact(work)

    def check(self) -> None:
        """PostgreSQL says itself, before it does anything, that a key is missing or a type is another."""
        self._connections.transact(lambda it: it.execute(f"EXPLAIN {self._upsert}", ("[]",)).fetchall())

    def upsert(self, rows: Sequence[Row]) -> None:
        """Write the rows in one statement, so in one transaction."""
        text = f"[{','.join(map(_json, rows))}]"
        self._connections.transact(lambda it: it.execute(self._upsert, (text,)))

    def is_refusal(self, error: Any) -> bool:
        """Whether a value is out of range, breaks a constraint, or is too long for an index."""
        return isinstance(error, psycopg.Error) and (
            (error.sqlstate or "").startswith(REFUSALS) or isinstance(error, psycopg.DataError)
        )

    @property
    def _upsert(self) -> str:
        names = ", ".join(COLUMNS)
        types = ", ".join(f"{name} {type}" for name, type in TYPES.items())
        news = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS if name not in KEY)
        return (
            f"INSERT INTO {self.quoted.replace('%', '%%')} ({names}) "  # noqa: S608 - quoted
            f"SELECT {names} FROM json_to_recordset(%s::json) AS came({types}) "
            f"ON CONFLICT ({', '.join(KEY)}) DO UPDATE SET {news}"
        )


def _json(row: Row) -> str:
    times = {name: moment and moment.isoformat() for name, moment in zip(COLUMNS[4:6], row[4:6], strict=True)}
    rest = json.dumps(row._asdict() | times | {"measurement": None}, ensure_ascii=False)
    # It is JSON already, and is the last.
    return f"{rest.removesuffix('null}')}{row.measurement}}}"
