"""Estimates over HTTP, in Redis."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from batchline import EstimatedTracker, EstimateStore, Store, open_store
from batchline.runtime.tokens import Tokens
from batchline.service.service import Service
from tests.doubles import new_id
from tests.service.asking import Asking


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("memory://") as store:
        yield store


@pytest.fixture
def asking(store: Store, redis_url: str) -> Iterator[Asking]:
    with (
        EstimateStore(redis_url) as estimates,
        closing(Service(store, estimates=EstimatedTracker(estimates), threads=2)) as service,
    ):
        yield Asking(service)


def test_an_estimate_is_opened_counted_and_sealed(asking: Asking) -> None:
    id = new_id()
    opened = asking.post("/v1/estimates", {"id": id, "tolerate": "any", "ttl": "1h", "labels": {"job": "x"}})
    assert (opened.status, opened.json()["state"], opened.json()["ttl"]) == (201, "open", "1h")
    assert asking.post(f"/v1/estimates/{id}/items", {"count": 10}).json() == {"total": 10}
    assert asking.post(f"/v1/estimates/{id}/ack", {"count": 8}).json()["pending"] == 2
    assert asking.post(f"/v1/estimates/{id}/fail", {}).json()["pending"] == 1
    assert asking.post(f"/v1/estimates/{id}/seal").json()["completed"] is False
    assert asking.post(f"/v1/estimates/{id}/items", {"count": 1}).problem == "FanoutSealed"
    assert asking.post(f"/v1/estimates/{id}/ack", {}).json() == {
        "fanout": id, "pending": 0, "completed": True, "failed": False,
    }  # fmt: skip
    read = asking.get(f"/v1/estimates/{id}").json()
    assert (read["state"], read["total"], read["acked"], read["failed"]) == ("complete", 10, 9, 1)
    assert (read["tolerate"], read["labels"]) == ("any", {"job": "x"})


def test_what_is_not_there_or_cannot_be_is_refused(asking: Asking) -> None:
    assert asking.get(f"/v1/estimates/{new_id()}").problem == "UnknownFanout"
    assert asking.post("/v1/estimates", {"ttl": "soon"}).problem == "InvalidRules"
    assert asking.post("/v1/estimates", {"id": ""}).problem == "InvalidName"
    id = asking.post("/v1/estimates", {}).json()["id"]
    assert asking.post(f"/v1/estimates/{id}/items", {"count": 0}).problem == "InvalidCount"


def test_without_redis_they_say_how_to_have_them(store: Store) -> None:
    with closing(Service(store)) as service:
        asking = Asking(service)
        for answer in (
            asking.post("/v1/estimates", {}),
            asking.get("/v1/estimates/a"),
            asking.post("/v1/estimates/a/ack", {}),
            asking.post("/api/v1/batch/estimated", {}),
            asking.ask("DELETE", "/api/v1/batch/estimated/a"),
        ):
            assert (answer.status, answer.problem) == (404, "UnknownRoute")
            assert "batchline serve --estimates redis://" in answer.json()["detail"]


def test_an_estimate_belongs_to_the_producer_group_that_opened_it(asking: Asking, store: Store) -> None:
    tokens = Tokens(store)
    mine = asking.bearing(tokens.create(producer_group="mine", topics=["*"])[1])
    theirs = asking.bearing(tokens.create(producer_group="theirs", topics=["*"])[1])
    worker = asking.bearing(tokens.create(consumers=["w"], topics=["*"])[1])
    id = new_id()
    assert mine.post("/v1/estimates", {"id": id}).json()["labels"] == {"producer_group": "mine"}
    assert mine.post("/v1/estimates", {"labels": {"producer_group": "x"}}).problem == "Forbidden"
    for answer in (
        theirs.post("/v1/estimates", {"id": id}),
        theirs.get(f"/v1/estimates/{id}"),
        theirs.post(f"/v1/estimates/{id}/items", {"count": 1}),
        theirs.post(f"/v1/estimates/{id}/seal"),
        worker.get(f"/v1/estimates/{id}"),
    ):
        assert (answer.status, answer.problem) == (403, "Forbidden")
    assert mine.post(f"/v1/estimates/{id}/items", {"count": 1}).json() == {"total": 1}
    assert worker.post(f"/v1/estimates/{id}/ack", {}).json()["pending"] == 0
    assert mine.get(f"/v1/estimates/{id}").json()["state"] == "open"
