"""The table of tokens in the memory of this process."""

from batchline.stores.memory_tables import MemoryTables
from batchline.stores.token_rows import TokenRow

__all__ = ["MemoryTokenRows"]


class MemoryTokenRows:
    """`TokenRows` on a dictionary."""

    def __init__(self, tables: MemoryTables):
        self._tables = tables

    def insert_token(self, row: TokenRow) -> None:
        """A new token."""
        if row.id not in self._tables.tokens:
            self._tables.tokens[row.id] = row

    def token(self, id: str) -> TokenRow | None:
        """The token of an id."""
        found: TokenRow | None = self._tables.tokens.get(id)
        return found

    def tokens(self) -> list[TokenRow]:
        """All tokens."""
        return sorted(self._tables.tokens.values(), key=lambda row: (row.created_ms, row.id))

    def any_token(self) -> bool:
        """Whether there is one."""
        return bool(self._tables.tokens)

    def revoke_token(self, id: str, revoked_ms: int) -> None:
        """End a token."""
        found = self.token(id)
        if found is not None and found.revoked_ms is None:
            self._tables.tokens[id] = found._replace(revoked_ms=revoked_ms)
