"""What a client does with an answer: as steps, without a server and without waiting."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from batchline import RetryRules, errors
from batchline.client import Client
from batchline.client.exchange import Lost, Pause, Reply, Request, Steps, address, request
from batchline.errors import (
    BatchlineError,
    CallTaken,
    InvalidInput,
    InvalidRules,
    Overloaded,
    ServiceRefused,
    ServiceUnavailable,
    UnknownTopic,
)
from batchline.wire.problems import problem_of

RETRY = RetryRules(timedelta(seconds=1), 2.0, timedelta(seconds=3), jitter=0.0)
TOPIC = b'{"name":"t","buckets":1,"max_ahead":"1d","lease":"5m","longest_lease":"12h","max_attempts":null,"dead_letter":null,"rate_limit":null,"keep":"1m","deleted":false}'  # noqa: E501


@pytest.fixture
def client() -> Iterator[Client]:
    with Client("http://127.0.0.1:1/", retry=RETRY, tries=4) as client:
        yield client


def refusal(error: BatchlineError, **headers: Any) -> Reply:
    problem = problem_of(error)
    return Reply(problem.status, msgspec.json.encode(problem), **headers)


def asked(steps: Steps[Any], answer: Any = None) -> Request:
    found = steps.send(answer)
    assert isinstance(found, Request)
    return found


def paused(steps: Steps[Any], answer: Any) -> float:
    found = steps.send(answer)
    assert isinstance(found, Pause)
    return found.seconds


def test_pauses_become_longer_up_to_the_longest_and_the_request_stays_the_same(client: Client) -> None:
    steps = Client.topic.steps(client, "t")
    first = asked(steps)
    pauses = []
    for _ in range(3):
        pauses.append(paused(steps, Lost(OSError("gone"))))
        assert asked(steps) == first
    assert pauses == [1.0, 2.0, 3.0]
    with pytest.raises(ServiceUnavailable, match="the service cannot be reached: OSError: gone"):
        steps.send(Lost(OSError("gone")))


def test_a_request_is_not_repeated_beyond_the_patience_of_its_client() -> None:
    seconds = 0.0
    with Client("http://127.0.0.1:1/", retry=RETRY, patience=timedelta(seconds=40), elapsed=lambda: seconds) as client:
        steps = Client.topic.steps(client, "t")
        assert asked(steps).timeout_s == 30.0
        seconds = 30.0
        assert paused(steps, Lost(OSError("late"))) == 1.0
        seconds = 31.0
        assert asked(steps).timeout_s == 9.0  # what is left, although an answer may take longer
        seconds = 38.5
        with pytest.raises(ServiceUnavailable):
            steps.send(Lost(OSError("after the next pause there would be no time")))


def test_a_service_that_asks_for_a_pause_longer_than_the_patience_is_not_asked_again(client: Client) -> None:
    steps = Client.topic.steps(client, "t")
    asked(steps)
    with pytest.raises(Overloaded):
        steps.send(refusal(Overloaded("busy"), retry_after="60"))


@pytest.mark.parametrize(
    ("said", "seconds"), [("7", 7.0), ("0", 1.0), ("44", 44.0), ("soon", 1.0), ("-5", 1.0), (None, 1.0)]
)
def test_it_waits_for_as_long_as_the_service_says_within_reason(
    client: Client, said: str | None, seconds: float
) -> None:
    steps = Client.topic.steps(client, "t")
    asked(steps)
    assert paused(steps, refusal(Overloaded("busy"), retry_after=said)) == seconds


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_what_may_pass_is_asked_again_although_nobody_says_why(client: Client, status: int) -> None:
    steps = Client.topic.steps(client, "t")
    for _ in range(3):
        asked(steps)
        paused(steps, Reply(status, b"<html>"))
    asked(steps)
    with pytest.raises(ServiceUnavailable, match=f"the service answered {status} without saying why"):
        steps.send(Reply(status, b"<html>"))


@pytest.mark.parametrize("status", [200, 301, 400, 404, 500])
def test_an_answer_of_something_else_is_refused_at_once(client: Client, status: int) -> None:
    steps = Client.topic.steps(client, "t")
    asked(steps)
    with pytest.raises(ServiceRefused):
        steps.send(Reply(status, b"<html>"))


def every_error() -> list[type[BatchlineError]]:
    kinds = [getattr(errors, name) for name in errors.__all__]
    kinds = [kind for kind in kinds if isinstance(kind, type) and kind is not errors.PartlyDelivered]
    return [kind for kind in kinds if kind not in (BatchlineError,)]


@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: kind.__name__)
def test_every_problem_is_raised_as_the_error_that_it_was(client: Client, kind: type[BatchlineError]) -> None:
    client._tries = 1
    steps = Client.topic.steps(client, "t")
    asked(steps)
    with pytest.raises(BatchlineError, match="what was expected, what came") as raised:
        steps.send(refusal(kind("what was expected, what came")))
    assert raised.type is kind


def test_a_problem_that_this_program_does_not_know_is_refused_with_its_words(client: Client) -> None:
    steps = Client.topic.steps(client, "t")
    asked(steps)
    unknown = b'{"type":"/problems/Newer","title":"","status":418,"detail":"a teapot"}'
    with pytest.raises(ServiceRefused, match="a teapot"):
        steps.send(Reply(418, unknown))


def test_numbers_that_another_call_has_are_replaced(client: Client) -> None:
    steps = Client.create.steps(client, "t", [b"x"], producer_group="g")
    first = asked(steps)
    second = asked(steps, refusal(CallTaken("taken")))
    numbers = [msgspec.json.decode(one.body or b"")["call_number"] for one in (first, second)]
    assert numbers[0] < numbers[1]


def test_numbers_that_may_be_taken_by_the_same_call_are_not(client: Client) -> None:
    steps = Client.create.steps(client, "t", [b"x"], producer_group="g")
    first = asked(steps)
    paused(steps, Lost(OSError("gone")))
    assert asked(steps) == first
    with pytest.raises(CallTaken):
        steps.send(refusal(CallTaken("taken")))


def test_a_share_that_the_topic_has_not_any_more_is_forgotten(client: Client) -> None:
    client._shares["t", "w"] = (range(8, 16), client._now_us())
    steps = Client.lease.steps(client, "t", "w")
    assert msgspec.json.decode(asked(steps).body or b"")["buckets"] == [8, 16]
    again = asked(steps, refusal(InvalidInput("buckets must be a range within 4 buckets")))
    assert "buckets" not in msgspec.json.decode(again.body or b"")
    assert client._shares == {}


def test_who_waits_for_messages_is_waited_for(client: Client) -> None:
    found = asked(Client.lease.steps(client, "t", "w", wait=timedelta(seconds=20)))
    assert (found.wait_s, found.timeout_s) == (20.0, 50.0)
    assert msgspec.json.decode(found.body or b"") == {"consumer": "w", "wait": "20s"}


@pytest.mark.parametrize("wait", [timedelta(seconds=-1), timedelta(seconds=31), 5, "5s"])
def test_nobody_waits_for_longer_than_the_service_does(client: Client, wait: Any) -> None:
    with pytest.raises(InvalidRules, match="wait must be"):
        asked(Client.lease.steps(client, "t", "w", wait=wait))


def test_a_rule_of_a_topic_that_there_is_not_is_refused(client: Client) -> None:
    with pytest.raises(TypeError, match="bucket"):
        asked(Client.create_topic.steps(client, "t", bucket=5))
    steps = Client.update_topic.steps(client, "t", number=5)
    asked(steps)
    with pytest.raises(InvalidInput, match="number is no rule"):
        steps.send(Reply(200, TOPIC))


def test_what_the_topic_is_refused_for_is_told(client: Client) -> None:
    steps = Client.update_topic.steps(client, "t", lease=timedelta(days=1))
    asked(steps)
    with pytest.raises(InvalidRules, match="lease must be at most 12 hours"):
        steps.send(Reply(200, TOPIC))
    steps = Client.topic.steps(client, "t")
    asked(steps)
    with pytest.raises(UnknownTopic):
        steps.send(refusal(UnknownTopic("no topic 't'")))


def test_every_name_is_one_segment_of_an_address() -> None:
    assert address("v1", "a/b", ".", "..", "ü %") == "/v1/a%2Fb/%2E/%2E%2E/%C3%BC%20%25"
    assert request("GET", "/x", from_=5, to=None, name="a&b").target == "/x?from=5&name=a%26b"
