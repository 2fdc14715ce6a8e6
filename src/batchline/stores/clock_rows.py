"""What several stages ask of a store: its clock."""

from typing import Protocol

__all__ = ["ClockRows"]


class ClockRows(Protocol):
    """The clock of a store, which is the same for all who use it."""

    def database_ms(self, now_ms: int) -> int:
        """What the database's clock shows; a store without one takes the caller's."""
