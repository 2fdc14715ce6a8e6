"""The table of tokens in a SQL database."""

import json
from typing import Any

from batchline.stores.sql_session import SqlSession
from batchline.stores.token_rows import TokenRow

__all__ = ["SqlTokenRows"]


class SqlTokenRows:
    """`TokenRows` on a session."""

    def __init__(self, session: SqlSession):
        self._session = session

    def insert_token(self, row: TokenRow) -> None:
        """A new token."""
        lists = {"consumers": json.dumps(row.consumers), "topics": json.dumps(row.topics)}
        self._session.tell("insert_token", **row._asdict() | lists)

    def token(self, id: str) -> TokenRow | None:
        """The token of an id."""
        found = self._session.rows("token", id=id)
        return _token(*found[0]) if found else None

    def tokens(self) -> list[TokenRow]:
        """All tokens."""
        return [_token(*row) for row in self._session.rows("tokens")]

    def any_token(self) -> bool:
        """Whether there is one."""
        return bool(self._session.rows("any_token"))

    def revoke_token(self, id: str, revoked_ms: int) -> None:
        """End a token."""
        self._session.tell("revoke_token", id=id, revoked_ms=revoked_ms)


def _token(*values: Any) -> TokenRow:
    row = TokenRow(*values)
    consumers, topics = json.loads(values[4]), json.loads(values[5])
    return row._replace(consumers=tuple(consumers), topics=tuple(topics), admin=bool(row.admin))
