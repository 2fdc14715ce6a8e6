"""Trouble of a background loop: since when its steps fail, why, how often, and when that is worth a line in the log."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal, NamedTuple, get_args

from batchline.core.retry import RetryRules
from batchline.core.topic import span_ms

__all__ = ["BACK_OFF", "LOOPS", "SERVING", "Logged", "LoopName", "Trouble", "is_news", "trouble_after"]

#: The background loops, by the names that logs, metrics, health and docs use.
LoopName = Literal[
    "beat",
    "consume",
    "delivery",
    "dispatch",
    "expire",
    "group_commit",
    "lanes",
    "prune",
    "pump",
    "reporting",
    "rescue",
    "schema_check",
    "share",
    "sockets",
    "store_numbers",
]
LOOPS: Final[tuple[LoopName, ...]] = get_args(LoopName)
#: Pauses between failed steps of a loop that can wait.
BACK_OFF: Final = RetryRules(first=timedelta(seconds=1), factor=2, longest=timedelta(minutes=1), jitter=0.1)
#: Pauses of a loop that holds leases or that callers wait for.
SERVING: Final = RetryRules(first=timedelta(seconds=1), factor=2, longest=timedelta(seconds=5), jitter=0.1)
#: The same error of a loop is logged at most this often.
LOG_EVERY: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Trouble:
    """A loop whose last step failed. It ends with the next step that succeeds."""

    loop: LoopName
    since_ms: int
    #: Failed steps in a row.
    failures: int
    #: The class of the last error. Its text is in the log only: it may name hosts and users.
    error: str


class Logged(NamedTuple):
    """What a loop has logged last: the class of an error, and when."""

    error: str
    at_ms: int


def trouble_after(before: Trouble | None, loop: LoopName, error: BaseException, now_ms: int) -> Trouble:
    """Return the trouble of a loop after a failed step."""
    if before is None:
        return Trouble(loop, now_ms, 1, type(error).__name__)
    return Trouble(loop, before.since_ms, before.failures + 1, type(error).__name__)


def is_news(last: Logged | None, error: BaseException, now_ms: int) -> bool:
    """Return whether a failure is logged: the first, one of another class, and one a minute.

    Clean steps in between change nothing: a loop whose every second step fails does not fill the log.
    """
    if last is None or last.error != type(error).__name__:
        return True
    # A clock that was set back must not silence the log.
    return not last.at_ms <= now_ms < last.at_ms + span_ms(LOG_EVERY)
