"""Asking until there is an answer: what is tried again, when, and what is raised."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from http import HTTPStatus
from itertools import count
from typing import Any, Final, TypeVar

import msgspec

from batchline.client.exchange import Lost, Pause, Reply, Request, Steps
from batchline.core.retry import RetryRules
from batchline.errors import BatchlineError, Overloaded, ServiceRefused, ServiceUnavailable
from batchline.wire.form import Form
from batchline.wire.problems import ProblemForm, error_of

__all__ = ["RETRY", "TRIES", "Calls", "Nothing", "Trial", "encode"]

F = TypeVar("F", bound=Form)
RETRY: Final = RetryRules(timedelta(milliseconds=100), 2.0, timedelta(seconds=5), jitter=0.5)
TRIES: Final = 8
#: The least time that a request is given.
SHORTEST_S: Final = 0.001
#: The longest pause that the service may ask for.
LONGEST_PAUSE_S: Final = 60.0
#: Answers of one that cannot answer now, or of what stands before it.
AGAIN: Final = frozenset((429, 502, 503, 504))
encode: Final = msgspec.json.Encoder().encode


class Nothing(Form):
    """An answer that says nothing (204)."""


@dataclass(slots=True)
class Trial:
    """How a request went: whether it may have been done before the answer that was got."""

    lost: bool = False


class Calls:
    """What the verbs share: how they ask, and what a client remembers."""

    _retry: RetryRules | None
    _tries: int
    _timeout_s: float
    _patience_s: float
    _now_us: Callable[[], int]
    _elapsed_s: Callable[[], float]
    _shares: dict[tuple[str, str], tuple[range, int]]

    def _ask(self, asked: Request, form: type[F], trial: Trial | None = None) -> Steps[F]:
        """Ask until there is an answer, no more tries, or no more time; what the service refuses is raised."""
        trial, until_s = trial or Trial(), self._elapsed_s() + self._patience_s + asked.wait_s
        for attempt in count(1):
            left_s = until_s - self._elapsed_s()
            answer = yield replace(asked, timeout_s=max(min(self._timeout_s + asked.wait_s, left_s), SHORTEST_S))
            if isinstance(answer, Reply) and answer.status < 300:
                return _read(answer, form)
            trial.lost |= isinstance(answer, Lost) or _status(answer) in (502, 504)
            error = _error(answer)
            again = isinstance(answer, Lost) or _status(answer) in AGAIN
            if not again or self._retry is None or attempt >= self._tries:
                raise error
            own_s = self._retry.pause_ms(attempt, secrets.randbelow(1_000) / 1_000) / 1_000
            pause_s = max(own_s, _asked_for_s(answer))
            if self._elapsed_s() + pause_s >= until_s:
                raise error
            yield Pause(pause_s)
        raise AssertionError

    def _send(self, method: str, path: str, form: Form, answer: type[F], trial: Trial | None = None) -> Steps[F]:
        return self._ask(Request(method, path, encode(form)), answer, trial)


def _read(answer: Reply, form: type[F]) -> F:
    if answer.status == HTTPStatus.NO_CONTENT:
        return form()
    try:
        return msgspec.json.decode(answer.body, type=form)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ServiceRefused(f"expected {form.__name__} from the service: {error}") from error


def _status(answer: Any) -> int:
    return answer.status if isinstance(answer, Reply) else 0


def _error(answer: Reply | Lost | None) -> BatchlineError:
    """What is raised, unless it is tried again."""
    if not isinstance(answer, Reply):
        return _unreachable(answer)
    try:
        problem = msgspec.json.decode(answer.body, type=ProblemForm)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        kind = ServiceUnavailable if answer.status in AGAIN else ServiceRefused
        return kind(f"the service answered {answer.status} without saying why")
    error = error_of(problem.type, problem.detail)
    if isinstance(error, Overloaded) and answer.retry_after is not None:
        error.retry_after = timedelta(seconds=_asked_for_s(answer))
    return error


def _unreachable(answer: Lost | None) -> ServiceUnavailable:
    why = answer.why if answer else None
    error = ServiceUnavailable(f"the service cannot be reached: {type(why).__name__}: {why}")
    error.__cause__ = why
    return error


def _asked_for_s(answer: Reply | Lost | None) -> float:
    """The seconds in which the service wants to be asked again; a date, which proxies may say, counts for none."""
    said = answer.retry_after if isinstance(answer, Reply) else None
    return min(float(said), LONGEST_PAUSE_S) if said and said.isascii() and said.isdecimal() else 0.0
