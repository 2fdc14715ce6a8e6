"""Carlyle's own routes, asked as its client asks: the same paths, verbs and JSON."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from batchline import EstimatedTracker, EstimateStore, Store, open_store
from batchline.core.item_group import MOST_ITEMS
from batchline.runtime.tokens import Tokens
from batchline.service.service import Service
from tests.doubles import HandClock
from tests.service.asking import Asking

EXACT, ESTIMATED = "/api/v1/batch/exact", "/api/v1/batch/estimated"


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("memory://") as store:
        yield store


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def asking(store: Store, redis_url: str, clock: HandClock) -> Iterator[Asking]:
    with (
        EstimateStore(redis_url) as estimates,
        closing(Service(store, estimates=EstimatedTracker(estimates), threads=2, clock=clock)) as service,
    ):
        yield Asking(service)


def answered(asking: Asking, path: str, form: Any = None) -> Any:
    answer = asking.post(path, form)
    assert answer.status == 200, answer
    return answer.json()


def items_of(asking: Asking, batch: int, count: int) -> list[str]:
    """As its client expands them."""
    groups = answered(asking, f"{EXACT}/items", {"batchId": batch, "items": count})["batchItemGroupIds"]
    assert all(group.keys() == {"id", "upto"} for group in groups)
    return [f"{batch}:{group['id']}:{index}" for group in groups for index in range(group["upto"])]


def test_an_exact_batch_is_complete_when_it_is_closed_and_every_item_is_acknowledged(asking: Asking) -> None:
    batch = answered(asking, EXACT, {})["batchId"]
    assert 0 <= batch < 2**53
    items = items_of(asking, batch, 1000)
    assert len(set(items)) == 1000
    read = asking.get(f"{EXACT}/{batch}").json()
    assert read == {"batchId": batch, "isComplete": False, "isClosed": False}
    assert answered(asking, f"{EXACT}/close/{batch}") == {"isComplete": False}
    told = [
        answered(asking, f"{EXACT}/items/ack", {"batchItemIds": items[first : first + 100]})["batchCompletions"]
        for first in range(0, 1000, 100)
    ]
    assert told == [[]] * 9 + [[{"batchId": batch}]]
    assert asking.get(f"{EXACT}/{batch}").json() == {"batchId": batch, "isComplete": True, "isClosed": True}


def test_the_user_key_comes_back_with_the_batch_and_its_completion(asking: Asking) -> None:
    batch = answered(asking, f"{EXACT}/", {"userKey": "foo", "somethingElse": 1})["batchId"]
    (item,) = items_of(asking, batch, 1)
    answered(asking, f"{EXACT}/close/{batch}")
    for _ in range(2):  # who asks again after a lost answer is told again, as Carlyle does
        told = answered(asking, f"{EXACT}/items/ack", {"batchItemIds": [item]})
        assert told == {"batchCompletions": [{"batchId": batch, "userKey": "foo"}]}
    assert asking.get(f"{EXACT}/{batch}").json()["userKey"] == "foo"


def test_a_batch_whose_items_were_acknowledged_before_is_complete_when_it_is_closed(asking: Asking) -> None:
    batch = answered(asking, EXACT, {"userKey": None})["batchId"]
    items = items_of(asking, batch, 3)
    assert answered(asking, f"{EXACT}/items/ack", {"batchItemIds": items}) == {"batchCompletions": []}
    assert answered(asking, f"{EXACT}/close/{batch}") == {"isComplete": True}
    assert answered(asking, f"{EXACT}/close/{batch}") == {"isComplete": True}


def test_what_an_exact_batch_cannot_do_is_a_problem(asking: Asking) -> None:
    batch = answered(asking, EXACT, {})["batchId"]
    answered(asking, f"{EXACT}/close/{batch}")
    assert asking.post(f"{EXACT}/items", {"batchId": batch, "items": 1}).problem == "FanoutSealed"
    assert asking.get(f"{EXACT}/12345").problem == "UnknownFanout"
    assert asking.get(f"{EXACT}/none").problem == "WrongContent"
    assert asking.post(f"{EXACT}/items", {"batchId": 5, "items": 1}).problem == "UnknownFanout"
    assert asking.post(f"{EXACT}/items/ack", {"batchItemIds": ["5"]}).problem == "MalformedItem"


def test_an_exact_ack_counts_the_other_items_of_a_call_and_names_each_that_did_not_count(asking: Asking) -> None:
    batch, another = (answered(asking, EXACT, {})["batchId"] for _ in range(2))
    (first, last), (foreign,) = items_of(asking, batch, 2), items_of(asking, another, 1)
    answered(asking, f"{EXACT}/close/{batch}")
    wrong = {
        "nonsense": "MalformedItem",
        foreign.replace(str(another), "import-7"): "MalformedItem",  # a fanout of this id may exist; no batch can
        "5:00000000-0000-8000-8000-000000000000:0": "UnknownFanout",
        foreign.replace(str(another), str(batch)): "ForeignGroup",
        last.removesuffix(":1") + ":2": "UnknownItem",
    }
    for item, completions in ((first, []), (last, [{"batchId": batch}])):
        told = answered(asking, f"{EXACT}/items/ack", {"batchItemIds": [*wrong, item, "nonsense"]})
        assert told["batchCompletions"] == completions
        assert {one["item"]: one["type"].removeprefix("/problems/") for one in told["errors"]} == wrong
        assert len(told["errors"]) == len(wrong)
    assert asking.get(f"{EXACT}/{another}").json()["isComplete"] is False


def test_batches_without_activity_are_removed(asking: Asking, clock: HandClock) -> None:
    open_, closed = (answered(asking, EXACT, {})["batchId"] for _ in range(2))
    items_of(asking, open_, 5)
    answered(asking, f"{EXACT}/close/{closed}")
    before, after = clock.us // 1_000 - 1, clock.us // 1_000 + 1
    assert asking.ask("DELETE", f"{EXACT}/open?since={before}").json() == {"batchesRemoved": 0, "itemsRemoved": 0}
    assert asking.ask("DELETE", f"{EXACT}/open?since={after}").json() == {"batchesRemoved": 1, "itemsRemoved": 5}
    assert asking.get(f"{EXACT}/{open_}").problem == "FanoutExpired"
    assert asking.get(f"{EXACT}/{closed}").json()["isComplete"] is True
    assert asking.ask("DELETE", f"{EXACT}/closed?since={after}").json()["batchesRemoved"] == 1


def test_an_estimated_batch_is_counted_down(asking: Asking) -> None:
    batch = answered(asking, ESTIMATED, {"userKey": "foo"})["batchId"]
    assert len(batch) == 36
    assert asking.post(f"{ESTIMATED}/{batch}/incr?by=5").status == 204
    for _ in range(2):
        told = answered(asking, f"{ESTIMATED}/decr", {"acks": [{"batchId": batch, "by": 1}, {"batchId": batch}]})
        assert told == {"results": [{"batchId": batch, "isComplete": False, "userKey": "foo"}]}
    read = asking.get(f"{ESTIMATED}/{batch}").json()
    assert read == {"isComplete": False, "isClosed": False, "userKey": "foo"}
    closed = answered(asking, f"{ESTIMATED}/{batch}/close")
    assert closed == {"batchId": batch, "isComplete": False, "userKey": "foo"}
    told = answered(asking, f"{ESTIMATED}/decr", {"acks": [{"batchId": batch}]})
    assert told["results"][0]["isComplete"] is True
    assert asking.ask("DELETE", f"{ESTIMATED}/{batch}").status == 204
    assert asking.ask("DELETE", f"{ESTIMATED}/{batch}").status == 204
    assert asking.get(f"{ESTIMATED}/{batch}").problem == "UnknownFanout"


def test_an_estimated_batch_counted_down_before_anything_was_added_is_complete_when_closed(asking: Asking) -> None:
    batch = answered(asking, ESTIMATED, {})["batchId"]
    told = answered(asking, f"{ESTIMATED}/decr", {"acks": [{"batchId": batch, "by": 5}]})
    assert told["results"] == [{"batchId": batch, "isComplete": False}]
    assert answered(asking, f"{ESTIMATED}/{batch}/close")["isComplete"] is True


def test_a_decrement_counts_the_other_batches_of_a_call_and_names_each_that_did_not_count(asking: Asking) -> None:
    batch, full = (answered(asking, ESTIMATED, {})["batchId"] for _ in range(2))
    too_many = [{"batchId": full, "by": MOST_ITEMS}] * 2
    acks = [{"batchId": "none"}, *too_many, {"batchId": "tab\t"}, {"batchId": batch, "by": 2}]
    told = answered(asking, f"{ESTIMATED}/decr", {"acks": acks})
    assert told["results"] == [{"batchId": batch, "isComplete": False}]
    wrong = {one["batchId"]: one["type"].removeprefix("/problems/") for one in told["errors"]}
    assert wrong == {"none": "UnknownFanout", full: "InvalidCount", "tab\t": "InvalidName"}
    estimates = asking.service.parts.estimates
    assert estimates is not None
    assert [estimates.status(id).pending for id in (batch, full)] == [-2, 0]


def test_what_an_estimated_batch_cannot_do_is_a_problem_and_counts_nothing(asking: Asking) -> None:
    batch = answered(asking, ESTIMATED, {})["batchId"]
    assert asking.post(f"{ESTIMATED}/decr", {"acks": [{"batchId": "none"}]}).problem == "UnknownFanout"
    assert asking.post(f"{ESTIMATED}/decr", {"acks": [{"batchId": batch, "by": 0}]}).problem == "WrongContent"
    assert asking.post(f"{ESTIMATED}/{batch}/incr").problem == "WrongContent"
    assert asking.post(f"{ESTIMATED}/{batch}/incr?by=0").problem == "InvalidCount"
    status = asking.service.parts.estimates.status(batch)  # type: ignore[union-attr]
    assert (status.total, status.pending) == (0, 0)


def test_batches_belong_to_the_producer_group_that_made_them(asking: Asking, store: Store) -> None:
    tokens = Tokens(store)
    mine = asking.bearing(tokens.create(producer_group="mine", topics=["*"])[1])
    theirs = asking.bearing(tokens.create(producer_group="theirs", topics=["*"])[1])
    worker = asking.bearing(tokens.create(consumers=["w"], topics=["*"])[1])
    exact, estimated = mine.post(EXACT, {}).json()["batchId"], mine.post(ESTIMATED, {}).json()["batchId"]
    (item,) = items_of(mine, exact, 1)
    for answer in (
        theirs.get(f"{EXACT}/{exact}"),
        theirs.post(f"{EXACT}/close/{exact}"),
        theirs.post(f"{EXACT}/items", {"batchId": exact, "items": 1}),
        theirs.ask("DELETE", f"{EXACT}/open?since=1"),
        theirs.get(f"{ESTIMATED}/{estimated}"),
        theirs.post(f"{ESTIMATED}/{estimated}/close"),
        theirs.post(f"{ESTIMATED}/{estimated}/incr?by=1"),
        theirs.ask("DELETE", f"{ESTIMATED}/{estimated}"),
        worker.post(EXACT, {}),
    ):
        assert (answer.status, answer.problem) == (403, "Forbidden")
    assert mine.get(f"{EXACT}/{exact}").json()["isClosed"] is False
    assert mine.get(f"{ESTIMATED}/{estimated}").json()["isClosed"] is False
    mine.post(f"{EXACT}/close/{exact}")
    told = worker.post(f"{EXACT}/items/ack", {"batchItemIds": [item]}).json()
    assert told == {"batchCompletions": [{"batchId": exact}]}
