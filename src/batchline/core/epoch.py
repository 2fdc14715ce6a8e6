"""Epochs of a stream: how they went, and what it holds between two of them."""

from dataclasses import dataclass

__all__ = ["Epoch", "StreamState"]


@dataclass(frozen=True, slots=True)
class Epoch:
    """An epoch that has ended; a batch of files is one, too."""

    number: int
    ended_ms: int
    #: The rows that came with it, and how long it took.
    rows: int
    duration_ms: int

    @property
    def rows_per_second(self) -> float:
        """How fast it was."""
        return self.rows * 1_000 / max(self.duration_ms, 1)


@dataclass(frozen=True, slots=True)
class StreamState:
    """What a stream holds now."""

    #: Rows in open batches, and that wait.
    open_rows: int = 0
    open_batches: int = 0
    #: Keys and rows in its files, those that are forgotten with the next merge among them; and how large the files are.
    rows: int = 0
    bytes: int = 0
