"""Everything Batchline raises, under one root.

    BatchlineError
    ├── InvalidRules          rules that contradict themselves, found when they are built
    ├── InvalidInput          data that cannot be what it claims to be; nothing was changed
    │   ├── InvalidMeasurement    one measurement: a naive time, no key, a negative size
    │   ├── InvalidTable          a table: a missing column, a wrong type, a null
    │   └── InvalidFile           a file: not there, an unknown format, not readable as what it is named
    ├── InvalidSnapshot       a snapshot that is damaged, or was taken under other rules
    ├── InvalidCheckpoint     the checkpoint of a stream that other rules, lanes or columns made
    └── MissingExtra          a part that is not installed

A message says what was expected and what came.
"""

import difflib
from collections.abc import Iterable

__all__ = [
    "BatchlineError",
    "InvalidCheckpoint",
    "InvalidFile",
    "InvalidInput",
    "InvalidMeasurement",
    "InvalidRules",
    "InvalidSnapshot",
    "InvalidTable",
    "MissingExtra",
    "check_choice",
    "did_you_mean",
]


class BatchlineError(Exception):
    """Something Batchline refuses to do; the message says what to change."""


class InvalidRules(BatchlineError):
    """The rules contradict themselves; correct the value named."""


class InvalidInput(BatchlineError):
    """The input is not what it should be; nothing was changed."""


class InvalidMeasurement(InvalidInput):
    """A measurement is not one; nothing was changed."""


class InvalidTable(InvalidInput):
    """A table lacks what the rule needs; nothing was changed."""


class InvalidFile(InvalidInput):
    """A file cannot be read as measurements; nothing was changed."""


class InvalidSnapshot(BatchlineError):
    """A snapshot is damaged or belongs to other rules; nothing was restored."""


class InvalidCheckpoint(BatchlineError):
    """A checkpoint belongs to another stream; nothing was read."""


class MissingExtra(BatchlineError):
    """A part of Batchline is not installed; install the extra named."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: the known one it looks like, or nothing."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def check_choice(name: str, choice: object, known: tuple[str, ...], refused: type[BatchlineError]) -> None:
    """What is chosen is one of the known words, or refused by an error of that kind."""
    if choice not in known:
        words = ", ".join(map(repr, known))
        raise refused(f"{name} must be one of {words}, got {choice!r}{did_you_mean(str(choice), known)}")
