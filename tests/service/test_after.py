"""`after_ms` over HTTP and on a socket: milliseconds from now, by the clock of the service."""

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any

import pytest

from batchline import open_store
from batchline.core.due_time import LONGEST_AFTER_MS
from batchline.core.message import moment_ms
from batchline.service.service import Service
from tests.doubles import HandClock
from tests.service.asking import Asked, Asking

TOPIC = "/v1/topics/jobs"
MESSAGES = f"{TOPIC}/messages"
GROUP = {"batchline-producer-group": "p"}


class Jobs:
    """A topic of a service whose clock is moved by hand."""

    def __init__(self, service: Service, clock: HandClock) -> None:
        self.asking, self.clock = Asking(service), clock
        self.asking.post("/v1/topics", {"name": "jobs"})

    def create(self, *messages: dict[str, Any]) -> Asked:
        return self.asking.post(MESSAGES, {"messages": messages}, **GROUP)

    def after(self, verb: str, form: dict[str, Any]) -> Asked:
        return self.asking.post(f"{MESSAGES}/{verb}", form, **GROUP)

    def lease(self) -> str:
        leased = self.asking.post(f"{MESSAGES}/lease", {"consumer": "w"}).json()
        return str(leased["messages"][0]["lease"])

    def due(self, id: str) -> timedelta:
        """How long from now a message is due, now rounded up to a whole millisecond."""
        found = self.asking.get(f"{MESSAGES}/{id}", **GROUP).json()
        return datetime.fromisoformat(found["at"]) - moment_ms(self.clock.us // 1_000 + 1)


@pytest.fixture
def jobs() -> Iterator[Jobs]:
    clock = HandClock()
    with open_store("memory://") as store, closing(Service(store, threads=1, clock=clock)) as service:
        yield Jobs(service, clock)


def test_create_move_and_release_take_milliseconds_from_now(jobs: Jobs) -> None:
    created = jobs.create({"id": "a", "after_ms": 1_500}, {"id": "b", "after_ms": 0})
    assert [one["outcome"] for one in created.json()["outcomes"]] == ["created"] * 2
    assert jobs.due("a") == timedelta(milliseconds=1_500)
    assert jobs.after("move", {"moments": {"a": {"after_ms": 60_000}, "x": {"after_ms": 1}}}).status == 200
    assert jobs.due("a") == timedelta(minutes=1)
    assert jobs.after("release", {"leases": [jobs.lease()], "after_ms": 7, "reason": "why"}).status == 200
    assert jobs.due("b") == timedelta(milliseconds=7)


@pytest.mark.parametrize(
    "wrong",
    [
        {"after_ms": -1},
        {"after_ms": LONGEST_AFTER_MS + 1},
        {"after_ms": 10**30},
        {"after_ms": 1.5},
        {"after_ms": True},
        {"after_ms": "5"},
        {"after_ms": 5, "at": 0},
        {"after_ms": 5, "at": "2027-01-15T12:00:00Z"},
        {"after": 5},
    ],
    ids=str,
)
def test_what_is_no_span_is_a_problem_and_changes_nothing(jobs: Jobs, wrong: dict[str, Any]) -> None:
    jobs.create({"id": "a", "after_ms": 5_000}, {"id": "b"})
    lease = jobs.lease()
    for asked in (
        jobs.create({"id": "new"}, {"id": "c", **wrong}),
        jobs.after("move", {"moments": {"b": 0, "a": wrong}}),
        jobs.after("release", {"leases": [lease], **wrong}),
    ):
        assert asked.status == 400
        assert asked.problem in ("InvalidMessage", "WrongContent")
    assert jobs.due("a") == timedelta(seconds=5)
    counts = jobs.asking.get(f"{TOPIC}/count").json()
    assert counts == {"waiting": 1, "processing": 1, "available": 0}


def test_the_longest_span_is_taken_and_further_than_the_topic_allows(jobs: Jobs) -> None:
    (outcome,) = jobs.create({"id": "a", "after_ms": LONGEST_AFTER_MS}).json()["outcomes"]
    assert outcome["outcome"] == "too_far"
