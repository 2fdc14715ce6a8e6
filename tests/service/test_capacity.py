"""/v1/capacity and /v1/reports: who holds what, and what processes said, put together from the store alone."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from batchline.core.partitions import Asking
from batchline.leases.store_leases import StoreLeases
from batchline.runtime.clock import now_us
from batchline.runtime.tokens import Tokens
from batchline.service.reports import thinned
from batchline.stores import Store, open_store
from batchline.stores.report_rows import ReportRow
from tests.service.serving import serving

Report = Callable[..., None]
SIZE = "shared=100.0 factor=10.0"


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("memory://") as store:
        store.migrate()
        yield store


@pytest.fixture
def client(store: Store) -> Iterator[httpx2.Client]:
    with serving(store) as url, httpx2.Client(base_url=url) as client:
        yield client


@pytest.fixture
def report(store: Store) -> Report:
    """What a process said so long before the test's one moment: rates between two reports are exact."""
    now_ms = now_us() // 1_000

    def report(name: str, ago_ms: int, **numbers: Any) -> None:
        body = {"started_ms": 1, "ended": False, "topic": "parcels", "used": 0} | numbers
        row = ReportRow("work", name, now_ms - ago_ms, json.dumps(body))
        store.transact(lambda rows: rows.insert_reports([row]))

    return report


def limit(**more: Any) -> dict[str, Any]:
    return {"name": "api", "shared": True, "cost": "parcel", "limit": 100, "granted": 40, "wanted": 55} | more


def share(store: Store, resource: str = "api") -> None:
    """Two instances: one has four of ten partitions and wants six, the other only wants."""
    leases = StoreLeases(store, resource)
    leases.provision(10, SIZE, now_us())
    leases.acquire("i-1", range(10), 4, 15_000, now_us())
    leases.ask(Asking("i-1", 6, (0, 1, 2, 3)), 15_000, now_us())
    leases.ask(Asking("i-2", 3), 15_000, now_us())


def test_a_shared_capacity_tells_who_holds_what_and_who_reports(
    store: Store, client: httpx2.Client, report: Report
) -> None:
    share(store)
    for ago_ms, used in ((6_000, 100), (2_000, 300)):
        report("worker-1", ago_ms, used=used, waiting=7, paused=True, pauses=2, capacity=limit(instance="i-1"))
    (resource,) = client.get("/v1/capacity").json()["resources"]
    told = {name: resource[name] for name in ("name", "shared", "limit", "cost", "partitions", "used")}
    assert told == {"name": "api", "shared": True, "limit": 100, "cost": "parcel", "partitions": 10, "used": 50.0}
    first, second = resource["instances"]
    assert (first["worker"], first["instance"], first["partitions"], first["asks_for"]) == (
        "worker-1", "i-1", [0, 1, 2, 3], 6,
    )  # fmt: skip
    assert (first["granted"], first["wanted"], first["used"], first["waiting"]) == (40, 55, 50, 7)
    assert (first["paused"], first["pauses"], first["until"] > first["heard"]) == (True, 2, True)
    assert (second["worker"], second["instance"], second["partitions"], second["asks_for"]) == (None, "i-2", [], 3)


def test_a_shared_capacity_that_nobody_reports_on_has_the_limit_it_was_provisioned_with(
    store: Store, client: httpx2.Client
) -> None:
    share(store)
    (resource,) = client.get("/v1/capacity").json()["resources"]
    assert (resource["limit"], resource["cost"], resource["used"]) == (100, None, None)


def test_a_capacity_of_ones_own_stands_below_and_who_has_ended_or_has_none_is_left_out(
    store: Store, client: httpx2.Client, report: Report
) -> None:
    share(store)
    own = limit(name=None, shared=False, instance=None, limit=5)
    report("alone", 1_000, capacity=own)
    report("ended", 1_000, capacity=own, ended=True)
    report("silent", 60_000, capacity=own)
    report("free", 1_000, capacity=None)
    names = [(one["name"], one["shared"], one["limit"]) for one in client.get("/v1/capacity").json()["resources"]]
    assert names == [("api", True, 100), ("alone", False, 5)]


def test_a_rate_begins_anew_with_its_process(client: httpx2.Client, report: Report) -> None:
    report("worker-1", 6_000, used=9_000, capacity=limit())
    report("worker-1", 4_000, used=10, started_ms=2, capacity=limit())
    report("worker-1", 2_000, used={"a": 20, "b": 10}, started_ms=2, capacity=limit())
    (resource,) = client.get("/v1/capacity").json()["resources"]
    assert resource["used"] == 10


def test_reports_are_listed_by_kind_and_since_when(client: httpx2.Client, report: Report) -> None:
    for ago_ms in (400_000, 9_000, 3_000):
        report("worker-1", ago_ms, used=ago_ms)
    listed = client.get("/v1/reports", params={"kind": "work"}).json()["reports"]
    assert [one["numbers"]["used"] for one in listed] == [9_000, 3_000]
    assert client.get("/v1/reports", params={"kind": "run"}).json()["reports"] == []
    everything = client.get("/v1/reports", params={"since": "2020-01-01T00:00:00Z"}).json()["reports"]
    assert [one["numbers"]["used"] for one in everything] == [400_000, 9_000, 3_000]
    assert client.get("/v1/reports?every=soon").status_code == 400


def test_reports_are_thinned_to_the_last_of_each_process_in_a_span() -> None:
    rows = [ReportRow("work", name, at_ms, "{}") for at_ms in (0, 900, 1_000, 1_999) for name in ("a", "b")]
    assert [(row.name, row.at_ms) for row in thinned(rows, 1_000)] == [
        ("a", 900),
        ("b", 900),
        ("a", 1_999),
        ("b", 1_999),
    ]


def test_who_may_know_of_some_topics_is_told_of_no_process_of_another(
    store: Store, client: httpx2.Client, report: Report
) -> None:
    report("seen", 1_000, topic="orders", capacity=limit(name=None, shared=False))
    report("unseen", 1_000, topic="secret", capacity=limit(name=None, shared=False))
    _, text = Tokens(store).create("reader", topics=["orders"])
    headers = {"authorization": f"Bearer {text}"}
    assert [one["name"] for one in client.get("/v1/reports", headers=headers).json()["reports"]] == ["seen"]
    assert [one["name"] for one in client.get("/v1/capacity", headers=headers).json()["resources"]] == ["seen"]
