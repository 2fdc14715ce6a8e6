"""What is wrong with a request, as `application/problem+json` (RFC 9457): errors and their problems, both ways."""

import math
from typing import Final

import msgspec

from batchline import errors
from batchline.errors import BatchlineError, Degraded, ServiceRefused, StoreError
from batchline.wire.form import AnswerForm

__all__ = [
    "PROBLEM_JSON",
    "RETRY_AFTER_S",
    "ProblemForm",
    "error_of",
    "problem_of",
    "problem_type",
    "raw_answer",
    "retry_after_s",
    "status_of",
]

PROBLEM_JSON: Final = "application/problem+json"
#: In which a client that was told to come again does so.
RETRY_AFTER_S: Final = 1
TYPES: Final = "/problems/"
#: The first that an error is one of counts.
STATUSES: Final[tuple[tuple[type[BatchlineError], int], ...]] = (
    (errors.Unauthorized, 401),
    (errors.Forbidden, 403),
    (errors.UnknownRoute, 404),
    (errors.UnknownToken, 404),
    (errors.UnknownKey, 404),
    (errors.WrongMethod, 405),
    (errors.TooSlow, 408),
    (errors.TooLarge, 413),
    (errors.AddressTooLong, 414),
    (errors.HeadTooLarge, 431),
    (errors.TooManyFailures, 429),
    (errors.WrongMedia, 415),
    (errors.Overloaded, 503),
    (errors.NotReady, 503),
    (errors.InvalidInput, 400),
    (errors.InvalidRules, 400),
    (errors.UnknownFanout, 404),
    (errors.UnknownTopic, 404),
    (errors.UnknownMessage, 404),
    (errors.UnknownGroup, 404),
    (errors.UnknownItem, 404),
    (errors.ForeignMessage, 403),
    (errors.ForeignGroup, 403),
    (errors.FanoutExpired, 410),
    (errors.FanoutRefused, 409),
    (errors.TopicRefused, 409),
    (errors.ConsumerReplaced, 409),
    (Degraded, 503),
    (StoreError, 503),
    (ServiceRefused, 400),
)


class ProblemForm(AnswerForm):
    """A request that was refused, and why."""

    #: What is wrong, by the name of an error in the reference.
    type: str
    title: str
    status: int
    #: What was expected, and what came.
    detail: str


def status_of(error: BatchlineError) -> int:
    """The status of the answer that tells of an error."""
    return next((status for kind, status in STATUSES if isinstance(error, kind)), 500)


def problem_type(error: BatchlineError) -> str:
    """The stable name of an error."""
    return f"{TYPES}{type(error).__name__}"


def problem_of(error: BatchlineError) -> ProblemForm:
    """An error as it is answered."""
    title = (type(error).__doc__ or "").partition("\n")[0]
    return ProblemForm(problem_type(error), title, status_of(error), str(error))


def retry_after_s(error: BatchlineError) -> int:
    """Return what `Retry-After` says in an answer of 429 or 503."""
    wanted = getattr(error, "retry_after", None)
    return RETRY_AFTER_S if wanted is None else max(math.ceil(wanted.total_seconds()), RETRY_AFTER_S)


def raw_answer(error: BatchlineError) -> tuple[int, bytes]:
    """Return a status, and the rest of an answer that ends its connection, as bytes of HTTP/1.1."""
    problem = problem_of(error)
    body = msgspec.json.encode(problem)
    retry = f"retry-after: {retry_after_s(error)}\r\n" if problem.status in (429, 503) else ""
    head = f"content-type: {PROBLEM_JSON}\r\ncontent-length: {len(body)}\r\n{retry}connection: close\r\n\r\n"
    return problem.status, head.encode() + body


def error_of(type_: str, detail: str) -> BatchlineError:
    """The error that a problem tells of; one that this program does not know is ServiceRefused."""
    kind = getattr(errors, type_.removeprefix(TYPES), None)
    if isinstance(kind, type) and issubclass(kind, BatchlineError):
        return kind(detail)
    return ServiceRefused(detail)
