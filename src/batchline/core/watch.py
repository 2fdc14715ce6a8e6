"""How far work has come, told to whoever looks."""

from collections.abc import Callable

__all__ = ["Watch", "unwatched"]

#: Told how far a step has come: its name, how much is done, and how much there is to do.
Watch = Callable[[str, int, int], None]


def unwatched(step: str, done: int, total: int) -> None:
    """Nobody looks."""
