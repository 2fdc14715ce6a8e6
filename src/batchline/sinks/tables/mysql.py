"""A table in MariaDB or MySQL."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import pymysql

from batchline.errors import InvalidSink
from batchline.sinks.measurement_rows import Row
from batchline.sinks.tables.table import COLUMNS, KEY, Table

__all__ = ["MysqlTable"]

#: A value that is no text of its character set, a broken CHECK: of MariaDB, of MySQL.
REFUSALS: Final = (1366, 4025, 3819)
#: Otherwise a value that does not fit would be cut, and nobody would know.
STRICT: Final = "SET SESSION sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')"
PLACE: Final = "table_schema = COALESCE(%s, DATABASE()) AND table_name = %s"


class MysqlTable(Table):
    """Times are DATETIME, in UTC; ids are compared to the character."""

    quote = "`"

    def columns(self) -> list[str]:
        """The names of its columns."""
        return [name for (name,) in self._ask("SELECT lower(column_name) FROM information_schema.columns")]

    def create(self) -> None:
        """Make the table."""
        sql = (
            f"CREATE TABLE IF NOT EXISTS {self.quoted} ("
            "parcel VARCHAR(700) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, place INTEGER NOT NULL, "
            "`key` TEXT, type TEXT, event_time DATETIME(6), receive_time DATETIME(6), value DOUBLE, "
            "measurement JSON NOT NULL, PRIMARY KEY (parcel, place)) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4"
        )
        self._connections.transact(lambda it: it.cursor().execute(sql))

    def check(self) -> None:
        """Without a key over both, rows would be written twice; where A is a, one parcel over another."""
        keys = self._ask(
            "SELECT GROUP_CONCAT(lower(column_name) ORDER BY column_name) FROM information_schema.statistics",
            "AND non_unique = 0 GROUP BY index_name HAVING COUNT(sub_part) = 0",
        )
        if (",".join(KEY),) not in keys:
            raise InvalidSink(f"the table {self.quoted} of {self._where} must have a unique key over parcel and place")
        ((collation,),) = self._ask(
            "SELECT collation_name FROM information_schema.columns", "AND lower(column_name) = 'parcel'"
        )
        if collation is not None and not collation.endswith(("_bin", "_cs")):
            raise InvalidSink(
                f"the column parcel of the table {self.quoted} of {self._where} must tell A from a: "
                f"its collation must be one such as utf8mb4_bin, got {collation}"
            )

    def upsert(self, rows: Sequence[Row]) -> None:
        """Write the rows, many in a statement."""

        def work(connection: Any) -> None:
            cursor = connection.cursor()
            cursor.execute(STRICT)
            cursor.execute("BEGIN")
            cursor.executemany(self._upsert, list(map(_values, rows)))
            cursor.execute("COMMIT")

        self._connections.transact(work)

    def is_refusal(self, error: Any) -> bool:
        """Whether a value does not fit, or breaks a constraint."""
        return isinstance(error, pymysql.DataError | pymysql.IntegrityError) or (
            isinstance(error, pymysql.Error) and bool(error.args) and error.args[0] in REFUSALS
        )

    def _ask(self, query: str, end: str = "") -> list[tuple[Any, ...]]:
        def work(connection: Any) -> list[tuple[Any, ...]]:
            cursor = connection.cursor()
            cursor.execute(f"{query} WHERE {PLACE} {end}", (self.schema, self.name))
            return list(cursor.fetchall())

        return self._connections.transact(work)

    @property
    def _upsert(self) -> str:
        names = [f"`{name}`" for name in COLUMNS]
        news = ", ".join(f"`{name}` = VALUES(`{name}`)" for name in COLUMNS if name not in KEY)
        return (
            f"INSERT INTO {self.quoted.replace('%', '%%')} ({', '.join(names)}) "  # noqa: S608 - quoted
            f"VALUES ({', '.join(['%s'] * len(names))}) ON DUPLICATE KEY UPDATE {news}"
        )


def _values(row: Row) -> tuple[Any, ...]:
    return tuple(str(value.replace(tzinfo=None)) if isinstance(value, datetime) else value for value in row)
