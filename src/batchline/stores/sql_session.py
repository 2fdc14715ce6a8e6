"""A session on a DB-API connection: named queries in, rows out. A database overrides what its driver does otherwise."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["SqlSession", "as_json"]


def as_json(value: Any) -> Any:
    """A list as JSON; anything else as it is."""
    return json.dumps(value) if isinstance(value, list) else value


class SqlSession:
    """Queries by name, on a cursor; several names give one query of several parts.

    A parameter that is a list reaches the query as JSON, or as the array of a database that has one.
    """

    def __init__(self, cursor: Any, queries: dict[str, str]):
        self._cursor = cursor
        self._queries = queries

    def parameter(self, value: Any) -> Any:
        """A parameter as the driver takes it."""
        return as_json(value)

    def _send(self, sql: str, parameters: dict[str, Any]) -> None:
        self._cursor.execute(sql, {name: self.parameter(value) for name, value in parameters.items()})

    def _text(self, query: str) -> str:
        return " ".join(self._queries[name] for name in query.split())

    def _execute(self, query: str, parameters: dict[str, Any]) -> None:
        self._send(self._text(query), parameters)

    def rows(self, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """The rows it selects."""
        return self.raw_rows(query, **parameters)

    def raw_rows(self, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """The rows it selects, with bytes as they are."""
        self._execute(query, parameters)
        return self.fetched()

    def fetched(self) -> list[tuple[Any, ...]]:
        """The rows of the last statement."""
        return list(self._cursor.fetchall())

    def rows_of_each(
        self, query: str, segments: Iterable[int], order: str = "", **parameters: Any
    ) -> list[tuple[Any, ...]]:
        """The rows that a query with a gap for a segment selects, of all these segments, in one round trip.

        Each is limited by itself: no database reads the beginnings of several ranges of an index in one query. The
        query `order` is how all of them together are ordered and limited.
        """
        # In few characters: psycopg reads a long text again each time.
        text = " ".join(f"SELECT * FROM ({self._text(query)}) AS of{{segment}}".split())  # noqa: S608 - a query of ours
        parts = " UNION ALL ".join(text.format(segment=segment) for segment in segments)
        self._send(f"{parts} {self._text(order)}", parameters)
        return self.fetched()

    def records(self, query: str, **parameters: Any) -> list[dict[str, Any]]:
        """The rows it selects, by the names of their columns."""
        rows = self.rows(query, **parameters)
        names = [column[0] for column in self._cursor.description]
        return [dict(zip(names, row, strict=True)) for row in rows]

    def call(self, query: str, **parameters: Any) -> tuple[Any, ...] | None:
        """The first row of its answer, if there is one."""
        found = self.rows(query, **parameters)
        return found[0] if found else None

    def run(self, query: str, **parameters: Any) -> int:
        """Change rows, and tell how many."""
        self._execute(query, parameters)
        changed: int = self._cursor.rowcount
        return changed

    def tell(self, query: str, **parameters: Any) -> None:
        """Change rows, whatever comes of it: nobody waits for the answer, if the driver need not."""
        self.run(query, **parameters)

    def insert(self, query: str, **parameters: Any) -> int | None:
        """Insert a row, and tell its number; None if there is one already."""
        found = self.rows(query, **parameters)
        return found[0][0] if found else None

    def keyed_rows(self, query: str, keys: Sequence[tuple[int, int]], **parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of these bundles and numbers that it selects, in their order."""
        return self.raw_rows(query, keys=list(keys), **parameters)

    def insert_many(self, query: str, names: Sequence[str], rows: Sequence[tuple[Any, ...]], **parameters: Any) -> int:
        """Insert rows, and tell how many."""
        self._cursor.executemany(
            self._queries[query], [parameters | dict(zip(names, row, strict=True)) for row in rows]
        )
        changed: int = self._cursor.rowcount
        return changed

    def tell_many(self, query: str, names: Sequence[str], rows: Sequence[tuple[Any, ...]], **parameters: Any) -> None:
        """Insert rows, whatever comes of it."""
        self.insert_many(query, names, rows, **parameters)

    def change_many(self, query: str, names: Sequence[str], rows: Sequence[tuple[Any, ...]], **parameters: Any) -> int:
        """Change or delete rows, each by values of its own, and tell how many."""
        return self.insert_many(query, names, rows, **parameters)
