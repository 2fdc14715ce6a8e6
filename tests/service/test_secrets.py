"""No secret is seen: neither a token's nor a password, in logs, problems, metrics or documents."""

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from batchline import EstimatedTracker, EstimateStore, Store, open_store
from batchline.runtime.tokens import Tokens
from batchline.service.observer import Sighting
from batchline.service.operation import Call, NoForm, Operation
from batchline.service.request_log import RequestLog
from batchline.service.service import OPERATIONS, Service
from tests.doubles import HandClock
from tests.service.asking import Asking

PASSWORD = "hunter2"


def break_down(_: Call[NoForm]) -> None:
    """Raise what nobody expects."""
    raise ZeroDivisionError


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("memory://") as store:
        yield store


def _service(store: Store, redis: EstimateStore, lines: list[str]) -> Service:
    operations = (*OPERATIONS, Operation("GET", "/broken", "read", break_down))
    observers = [RequestLog(lines.append)]
    return Service(store, estimates=EstimatedTracker(redis), operations=operations, observers=observers)


def test_neither_a_token_nor_a_password_is_seen_anywhere(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    token, text = Tokens(store).create("t", producer_group="g", consumers=["*"], admin=True)
    secret = text.removeprefix(f"bl_{token.id}_")
    lines: list[str] = []
    with (
        caplog.at_level(logging.DEBUG),
        EstimateStore(f"redis://me:{PASSWORD}@127.0.0.1:1/0") as redis,
        closing(_service(store, redis, lines)) as service,
    ):
        asking = Asking(service, text)
        wrong = asking.bearing(text[:-1] + ("0" if text[-1] != "0" else "1"))
        answers = [
            asking.post("/v1/estimates", {"id": "a"}),
            asking.get(f"/v1/topics/{secret}?token={secret}"),
            asking.get("/broken"),
            wrong.get("/v1/topics"),
            asking.post("/v1/topics", b"{"),
            *(asking.get(path) for path in ("/openapi.json", "/metrics", "/health/ready", "/v1/fanouts", "/nothing")),
        ]
    assert [answer.status for answer in answers] == [503, 404, 500, 401, 400, 200, 200, 200, 200, 404]
    # Of what the caller has sent itself, a problem repeats what was wrong.
    seen = [answer.body.decode() for answer in (*answers[:1], *answers[2:])] + lines + [caplog.text]
    for text in seen:
        assert secret not in text
        assert PASSWORD not in text
    assert len(lines) == len(answers)
    assert sum(f'"token": "{token.id}"' in line for line in lines) == 6
    assert "in break_down" in caplog.text


def test_a_line_of_the_log_says_what_was_asked_and_what_came_of_it() -> None:
    lines: list[str] = []
    log = RequestLog(lines.append, HandClock())
    log.ended(Sighting("POST", "lease_messages", 403, "Forbidden", "abc", 0.0, 0.01234))
    log.ended(Sighting("GET" * 100, seconds=1.0))
    first, second = map(json.loads, lines)
    assert first == {
        "at": "2027-01-15T08:00:00.123Z",
        "method": "POST",
        "operation": "lease_messages",
        "status": 403,
        "ms": 12.3,
        "problem": "Forbidden",
        "token": "abc",
    }
    assert (len(second["method"]), second["operation"], second["status"]) == (20, "unknown", 499)


def test_a_client_that_goes_away_is_seen_as_gone(store: Store) -> None:
    lines: list[str] = []

    async def go_away(service: Service) -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "http.disconnect"}

        async def send(_: Any) -> None:
            raise AssertionError("nobody is there")

        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": "/v1/topics", "raw_path": b"/v1/topics"}
        await service.app(scope | {"query_string": b"", "headers": headers}, receive, send)

    with closing(Service(store, observers=[RequestLog(lines.append)])) as service:
        asyncio.run(go_away(service))
    assert [json.loads(line)["status"] for line in lines] == [499]
