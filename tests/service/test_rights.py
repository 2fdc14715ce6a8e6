"""Every operation × everybody who may not: 401 or 403, and the database is the same to the byte."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from batchline import EstimatedTracker, EstimateStore, NewMessage, Timeline, Tracker, lease_text, open_store
from batchline.cli.live_tables import LiveTables
from batchline.core.batch import Batch, CloseReason
from batchline.core.failure_budget import FailureBudget
from batchline.runtime.clock import now_us
from batchline.runtime.tokens import Tokens
from batchline.service.group_commit import GroupCommit
from batchline.service.operation import Operation
from batchline.service.service import OPERATIONS
from batchline.sources.landing import Landing
from tests.doubles import HandClock, new_id
from tests.service.serving import serving

HOUR_US = 3_600_000_000
#: What changes by itself, whoever asks.
ALIVE = ("batchline_brokers", "batchline_reports")

#: After these nothing else can be done with what they end.
ENDS = (
    "seal_fanout",
    "ack_items",
    "expire_fanout",
    "cancel_messages",
    "finish_leases",
    "delete_topic",
    "seal_estimate",
    "close_batch",
    "close_estimated_batch",
    "remove_estimated_batch",
)
#: Tables have the keys of all topics.
OF_ALL_TOPICS = ("list_keys", "read_windows")
WINDOW = Batch("pump-1", 0, 500_000, 900_000, 900_000, CloseReason.TIMEOUT, 0, ())
#: A batch of Carlyle's.
BATCH = 7


@dataclass
class Scene:
    """A service with tokens, a topic and a fanout of one group, and the requests that its owner could make."""

    client: httpx2.Client
    path: Path
    tokens: dict[str, str]
    lease: str
    item: str
    batch_item: str
    estimate: str

    def dump(self) -> list[str]:
        """All that is in the database."""
        connection = sqlite3.connect(self.path)
        try:
            return [
                line
                for line in connection.iterdump()
                if not line.startswith(tuple(f'INSERT INTO "{name}"' for name in ALIVE))
            ]
        finally:
            connection.close()

    def ask(self, operation: Operation, token: str | None, **more: str) -> httpx2.Response:
        names, query, body = self.samples()[operation.name]
        headers = more | ({} if token is None else {"authorization": f"Bearer {token}"})
        path = operation.path.format(**names)
        sent = body if operation.has_body or operation.reads else None
        return self.client.request(operation.method, path, params=query, json=sent, headers=headers)

    def samples(self) -> dict[str, tuple[dict[str, str], dict[str, Any], Any]]:
        """For each operation a request that its owner may make: names in the address, query, body."""
        topic, fanout, consumer = {"topic": "t1"}, {"fanout": "f1"}, {"topic": "t1", "consumer": "c1"}
        leases = {"leases": [self.lease]}
        return {
            "list_topics": ({}, {}, {}),
            "create_topic": ({}, {}, {"name": "t2"}),
            "read_topic": (topic, {}, {}),
            "update_topic": (topic, {}, {"lease": "1m"}),
            "delete_topic": (topic, {}, {}),
            "count_messages": (topic, {}, {}),
            "read_load": (topic, {"within": "1h"}, {}),
            "list_consumers": (topic, {}, {}),
            "heartbeat": (consumer, {}, {"messages_per_second": 1.0}),
            "unsubscribe": (consumer, {}, {}),
            "create_messages": (topic, {}, {"messages": [{"body": "x", "id": "new"}]}),
            "move_messages": (topic, {}, {"moments": {"waits": 4102444800000}}),
            "cancel_messages": (topic, {}, {"ids": ["waits"]}),
            "read_message": (topic | {"id": "waits"}, {}, {}),
            "my_messages": ({}, {}, {}),
            "lease_messages": (topic, {}, {"consumer": "c1"}),
            "lease_one": (topic, {}, {"consumer": "c1", "id": "due", "version": 1}),
            "extend_leases": (topic, {}, leases),
            "release_leases": (topic, {}, leases),
            "finish_leases": (topic, {}, leases),
            "my_leases": ({}, {"consumer": "c1", "topic": "t1"}, {}),
            "list_upcoming": (topic, {"consumer": "c1"}, {}),
            "next_due": (topic, {"consumer": "c1"}, {}),
            "list_fanouts": ({}, {}, {}),
            "open_fanout": ({}, {}, {"id": "f2"}),
            "read_fanout": (fanout, {}, {}),
            "add_items": (fanout, {}, {"count": 3}),
            "seal_fanout": (fanout, {}, {}),
            "pending_items": (fanout, {}, {}),
            "failed_items": (fanout, {}, {}),
            "expire_fanout": (fanout, {}, {}),
            "ack_items": ({}, {}, {"items": [self.item]}),
            "fail_items": ({}, {}, {"items": [self.item], "reason": "x"}),
            "expire_due": ({}, {}, {}),
            "read_caller": ({}, {}, {}),
            "read_overview": ({}, {}, {}),
            "read_capacity": ({}, {}, {}),
            "list_reports": ({}, {}, {}),
            "list_keys": ({}, {}, {}),
            "read_windows": ({}, {"key": "pump-1"}, {}),
            **dict.fromkeys(("read_live", "read_ready", "read_metrics"), ({}, {}, {})),
            "land_measurements": ({}, {}, []),
            **self._estimates(),
            **self._batches(),
        }

    def _estimates(self) -> dict[str, tuple[dict[str, str], dict[str, Any], Any]]:
        fanout = {"fanout": self.estimate}
        return {
            "open_estimate": ({}, {}, {"id": new_id()}),
            "read_estimate": (fanout, {}, {}),
            "add_to_estimate": (fanout, {}, {"count": 3}),
            "seal_estimate": (fanout, {}, {}),
            "ack_estimate": (fanout, {}, {}),
            "fail_estimate": (fanout, {}, {}),
        }

    def _batches(self) -> dict[str, tuple[dict[str, str], dict[str, Any], Any]]:
        exact, estimated = {"batchId": str(BATCH)}, {"batchId": self.estimate}
        return {
            "create_batch": ({}, {}, {}),
            "read_batch": (exact, {}, {}),
            "close_batch": (exact, {}, {}),
            "add_batch_items": ({}, {}, {"batchId": BATCH, "items": 2}),
            "ack_batch_items": ({}, {}, {"batchItemIds": [self.batch_item]}),
            "remove_open_batches": ({}, {"since": 1}, {}),
            "remove_closed_batches": ({}, {"since": 1}, {}),
            "create_estimated_batch": ({}, {}, {}),
            "read_estimated_batch": (estimated, {}, {}),
            "close_estimated_batch": (estimated, {}, {}),
            "increment_batch": (estimated, {"by": 1}, {}),
            "decrement_batches": ({}, {}, {"acks": [{"batchId": self.estimate}]}),
            "remove_estimated_batch": (estimated, {}, {}),
        }


@contextmanager
def set_up(directory: Path, redis_url: str) -> Iterator[Scene]:
    path, clock = directory / "batchline.db", HandClock()
    with (
        open_store(f"sqlite:///{path}") as store,
        EstimateStore(redis_url) as redis,
        Landing(directory / "landing", "http") as landing,
    ):
        tokens = Tokens(store, clock)
        mine: dict[str, Any] = {"producer_group": "g", "consumers": ["c*"], "topics": ["t*"]}
        texts = {
            "owner": tokens.create("owner", **mine)[1],
            "admin": tokens.create("admin", admin=True)[1],
            "expired": tokens.create("expired", **mine, expires=timedelta(minutes=1))[1],
            "other group": tokens.create("other group", producer_group="h", consumers=["d*"], topics=["t*"])[1],
            "other topic": tokens.create("other topic", **mine | {"topics": ["u*"]})[1],
            "reader": tokens.create("reader", topics=["t*"])[1],
        }
        revoked, texts["revoked"] = tokens.create("revoked", **mine)
        tokens.revoke(revoked.id)
        clock.us += HOUR_US
        timeline, tracker = Timeline(store, clock=clock), Tracker(store, clock=clock)
        timeline.create_topic("t1", lease=timedelta(hours=1))
        timeline.create("t1", [NewMessage(b"held", id="held")], producer_group="g")
        (held,) = timeline.lease("t1", "c1")
        messages = [NewMessage(b"due", id="due"), NewMessage(b"waits", timeline.now_ms() + 60_000, "waits")]
        timeline.create("t1", messages, producer_group="g")
        tracker.open("f1", labels={"producer_group": "g"})
        (group,) = tracker.add("f1", 2)
        tracker.open(str(BATCH), labels={"producer_group": "g"})
        (batch_group,) = tracker.add(str(BATCH), 2)
        estimates = EstimatedTracker(redis)
        estimate = estimates.open(labels={"producer_group": "g"}).id
        tables = directory / "tables"
        LiveTables(tables).write([WINDOW], [], 0)
        more: dict[str, Any] = {"estimates": estimates, "landing": GroupCommit(landing, now_us), "tables": tables}
        failures = FailureBudget(burst=1_000_000)  # here every request is refused
        with serving(store, clock=clock, failures=failures, **more) as url, httpx2.Client(base_url=url) as client:
            items = next(group.items()), next(batch_group.items())
            yield Scene(client, path, texts, lease_text(held.lease), *items, estimate)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Iterator[Scene]:
    with set_up(tmp_path_factory.mktemp("rights"), redis_url) as scene:
        yield scene


GUARDED = [one for one in OPERATIONS if one.right != "none"]
named = pytest.mark.parametrize("operation", GUARDED, ids=lambda one: one.name)


def check_refused(scene: Scene, operation: Operation, token: str | None, status: int, **more: str) -> None:
    before = scene.dump()
    answer = scene.ask(operation, token, **more)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    assert answer.json()["type"] == {401: "/problems/Unauthorized", 403: "/problems/Forbidden"}[status]
    assert scene.dump() == before


def test_there_is_a_request_for_every_operation(scene: Scene) -> None:
    assert {one.name for one in OPERATIONS} == set(scene.samples())


@named
@pytest.mark.parametrize("token", [None, "bl_", "expired", "revoked", "wrong", "unknown"])
def test_without_a_token_that_counts_it_is_401(scene: Scene, operation: Operation, token: str | None) -> None:
    owner = scene.tokens["owner"]
    swapped = {"wrong": owner[:-1] + ("0" if owner[-1] != "0" else "1"), "unknown": f"bl_{'0' * 12}_{'0' * 64}"}
    check_refused(scene, operation, (scene.tokens | swapped).get(token, token) if token else token, 401)


@named
def test_a_token_of_another_producer_group_is_403(scene: Scene, operation: Operation) -> None:
    """Whoever says that they are of the group, and is not; on the group's own fanouts and leases without saying so."""
    other = scene.tokens["other group"]
    check_refused(scene, operation, other, 403, **{"batchline-producer-group": "g"})
    names_theirs = "{fanout}" in operation.path or "{batchId}" in operation.path
    # Items of an estimate have no ids: who knows it may finish some.
    if operation.right in ("consume", "admin") or (names_theirs and operation.right != "finish"):
        check_refused(scene, operation, other, 403)


@pytest.mark.parametrize("operation", [one for one in GUARDED if "{topic}" in one.path], ids=lambda one: one.name)
def test_a_token_for_other_topics_is_403(scene: Scene, operation: Operation) -> None:
    check_refused(scene, operation, scene.tokens["other topic"], 403)


@pytest.mark.parametrize("name", OF_ALL_TOPICS)
def test_tables_are_not_read_by_who_may_know_of_some_topics_only(scene: Scene, name: str) -> None:
    reading = next(one for one in OPERATIONS if one.name == name)
    check_refused(scene, reading, scene.tokens["owner"], 403)


def test_leases_of_another_topic_are_not_listed_for_who_may_not_see_it(scene: Scene) -> None:
    listing = next(one for one in OPERATIONS if one.name == "my_leases")
    check_refused(scene, listing, scene.tokens["other topic"], 403)
    headers = {"authorization": f"Bearer {scene.tokens['other topic']}"}
    assert scene.client.get("/v1/leases?consumer=c1", headers=headers).json() == {"messages": []}


@pytest.mark.parametrize(
    "operation", [one for one in GUARDED if one.right not in ("read", "none")], ids=lambda one: one.name
)
def test_a_token_that_only_reads_changes_nothing(scene: Scene, operation: Operation) -> None:
    check_refused(scene, operation, scene.tokens["reader"], 403)


@pytest.mark.parametrize("operation", [one for one in GUARDED if one.right == "admin"], ids=lambda one: one.name)
def test_what_is_an_admins_is_refused_to_the_owner_of_something(scene: Scene, operation: Operation) -> None:
    check_refused(scene, operation, scene.tokens["owner"], 403)


def test_messages_of_another_group_are_foreign_one_by_one(scene: Scene) -> None:
    before = scene.dump()
    for name in ("move_messages", "cancel_messages"):
        operation = next(one for one in OPERATIONS if one.name == name)
        answer = scene.ask(operation, scene.tokens["other group"])
        assert [one["outcome"] for one in answer.json()["outcomes"]] == ["foreign"]
    read = scene.ask(next(one for one in OPERATIONS if one.name == "read_message"), scene.tokens["other group"])
    assert (read.status_code, read.json()["type"]) == (403, "/problems/ForeignMessage")
    assert scene.dump() == before


def test_its_owner_or_an_admin_may(tmp_path: Path, redis_url: str) -> None:
    """So each of the requests above is one that could have done something."""
    with set_up(tmp_path, redis_url) as scene:
        for operation in sorted(GUARDED, key=lambda one: one.name in ENDS):
            admin = operation.right == "admin" or operation.name in OF_ALL_TOPICS
            answer = scene.ask(operation, scene.tokens["admin" if admin else "owner"])
            assert answer.status_code < 300, answer.text
