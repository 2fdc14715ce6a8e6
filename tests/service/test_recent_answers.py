"""Answers of the last second are for who asks the same with the same token, and says that it may be old."""

from starlette.requests import Request
from starlette.responses import Response

from batchline.core.token import Token
from batchline.service.caller import Caller
from batchline.service.recent_answers import MOST_KEPT, RecentAnswers


class Seconds:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def request(
    path: str = "/v1/topics", query: str = "", method: str = "GET", header: str = "batchline-may-be-old"
) -> Request:
    headers = [(header.encode(), b"1")]
    scope = {"type": "http", "method": method, "raw_path": path.encode(), "query_string": query.encode()}
    return Request(scope | {"headers": headers, "path": path})


ADA, BEN, OPEN = Caller(Token("a")), Caller(Token("b")), Caller(None)


def test_an_answer_is_given_again_for_a_second() -> None:
    clock = Seconds()
    recent = RecentAnswers(clock)
    answer = recent.keep(recent.question(request(), ADA), Response(b"1"))
    clock.now += 0.99
    assert recent.find(recent.question(request(), ADA)) is answer
    clock.now += 0.01
    assert recent.find(recent.question(request(), ADA)) is None


def test_another_token_group_address_or_query_is_another_question() -> None:
    recent = RecentAnswers(Seconds())
    recent.keep(recent.question(request(), ADA), Response(b"1"))
    asked = [(request(), BEN), (request(), OPEN), (request(), Caller(Token("a"), "g")), (request("/v1/caller"), ADA)]
    assert [recent.find(recent.question(*one)) for one in [*asked, (request(query="x=1"), ADA)]] == [None] * 5


def test_who_does_not_say_so_or_changes_something_gets_no_old_answer() -> None:
    recent = RecentAnswers(Seconds())
    assert recent.question(request(method="POST"), ADA) is None
    assert recent.question(request(header="accept"), ADA) is None
    recent.keep(None, Response(b"1"))
    recent.keep(recent.question(request(), ADA), Response(b"no", 404))
    assert recent.find(recent.question(request(), ADA)) is None
    assert recent.find(None) is None


def test_only_so_many_are_kept() -> None:
    recent = RecentAnswers(Seconds())
    for number in range(MOST_KEPT + 9):
        recent.keep(recent.question(request(query=str(number)), ADA), Response(b"1"))
    assert len(recent._kept) == MOST_KEPT + 1
    assert recent.find(recent.question(request(query="0"), ADA)) is None
