"""A clock that is moved by hand, and ids that no other test uses."""

import uuid
from typing import Final

__all__ = ["BEGIN_US", "HandClock", "new_id"]

BEGIN_US: Final = 1_800_000_000_123_457


class HandClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.us = BEGIN_US

    def __call__(self) -> int:
        """The moment it shows."""
        return self.us


def new_id() -> str:
    """An id that nobody else uses."""
    return f"import-{uuid.uuid4()}"
