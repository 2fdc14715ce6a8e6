"""Answers of the last second, for pages: however many show the same, a process looks once for all of them.

Who does not say that an answer may be old gets a new one. Rights are checked before, and whoever asks with another
token asks another question.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from batchline.service.caller import Caller

__all__ = ["MAY_BE_OLD", "RecentAnswers"]

#: The header of a request whose answer may be up to a second old.
MAY_BE_OLD: Final = "batchline-may-be-old"
FRESH_FOR_S: Final = 1.0
MOST_KEPT: Final = 256
#: Larger ones are rare, and not kept.
LARGEST: Final = 1 << 20


class Question(NamedTuple):
    """What was asked, and by whom."""

    token: str
    said_group: str | None
    path: bytes
    query: bytes


class RecentAnswers:
    """Answers by question, each for a second; the clock shows seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: dict[Question, tuple[float, Response]] = {}

    def question(self, request: Request, caller: Caller) -> Question | None:
        """What is asked, if the answer may be old."""
        if request.method != "GET" or MAY_BE_OLD not in request.headers:
            return None
        token = "" if caller.token is None else caller.token.id
        return Question(token, caller.said_group, request.scope["raw_path"], request.scope["query_string"])

    def find(self, question: Question | None) -> Response | None:
        """The answer that was given lately."""
        made_s, answer = self._kept.get(question, (0.0, None)) if question else (0.0, None)
        return answer if answer is not None and self._clock() - made_s < FRESH_FOR_S else None

    def keep(self, question: Question | None, answer: Response) -> Response:
        """Keep an answer for who asks the same."""
        body = getattr(answer, "body", None)  # one that is streamed has none
        if question is not None and answer.status_code == 200 and body is not None and len(body) <= LARGEST:
            now_s = self._clock()
            fresh = {one: kept for one, kept in self._kept.items() if now_s - kept[0] < FRESH_FOR_S}
            self._kept = dict(list(fresh.items())[-MOST_KEPT:]) | {question: (now_s, answer)}
        return answer
