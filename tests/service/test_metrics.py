"""Numbers for Prometheus: of this process, and of the store."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families

from batchline import Store, open_store
from batchline.core.attendance import BrokerHealth
from batchline.core.future_load import Counts
from batchline.runtime.tokens import Tokens
from batchline.service import service as service_module
from batchline.service.metrics import Metrics
from batchline.service.observer import Sighting
from batchline.service.service import Service
from batchline.service.store_families import MOST_NAMED, families
from batchline.service.store_numbers import StoreNumbers, TopicNumbers
from batchline.stores.report_rows import ReportRow
from tests.service.asking import Asked, Asking
from tests.service.test_health import HangingStore


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("memory://") as store:
        yield store


def values(text: bytes, name: str) -> dict[tuple[str, ...], float]:
    """The values of a metric, by those of its labels, which are in the order of their names."""
    found = (sample for family in text_string_to_metric_families(text.decode()) for sample in family.samples)
    return {tuple(sample.labels.values()): sample.value for sample in found if sample.name == name}


def scraped(asking: Asking) -> Asked:
    answer = asking.get("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return answer


def test_requests_are_counted_by_operation_and_status_and_refusals_by_problem(store: Store) -> None:
    with closing(Service(store)) as service:
        asking = Asking(service)
        asking.get("/v1/topics")
        asking.get("/v1/topics/none")
        asking.get("/nowhere/with/a/secret")
        body = scraped(asking).body
    counted = values(body, "batchline_http_requests_total")
    assert counted == {("list_topics", "200"): 1, ("read_topic", "404"): 1, ("unknown", "404"): 1}
    assert values(body, "batchline_http_refused_total") == {("UnknownTopic",): 1, ("UnknownRoute",): 1}
    timed = values(body, "batchline_http_request_duration_seconds_count")
    assert timed == {("list_topics",): 1, ("read_topic",): 1, ("unknown",): 1}
    assert values(body, "batchline_http_requests_under_way") == {(): 1}
    assert values(body, "batchline_store_call_duration_seconds_count")["read",] >= 2
    assert b"secret" not in body


def test_a_service_has_numbers_of_its_own(store: Store) -> None:
    with closing(Service(store)) as one, closing(Service(store)) as other:
        Asking(one).get("/v1/topics")
        assert ("list_topics", "200") not in values(scraped(Asking(other)).body, "batchline_http_requests_total")


def test_connections_to_the_store_that_were_lost_are_counted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(store), "lost_connections", lambda _: 3)
    with closing(Service(store)) as service:
        body = scraped(Asking(service)).body
    assert values(body, "batchline_store_connections_lost_total") == {(): 3}


def test_a_client_that_has_gone_is_counted_too() -> None:
    metrics = Metrics()
    metrics.began()
    metrics.ended(Sighting("POST", "lease_messages"))
    assert values(metrics.text(), "batchline_http_requests_total") == {("lease_messages", "499"): 1}
    assert values(metrics.text(), "batchline_http_requests_under_way") == {(): 0}


def test_the_store_is_told_of_by_topic_state_and_age(store: Store) -> None:
    with closing(Service(store)) as service:
        timeline, tracker = service.parts.timeline, service.parts.tracker
        timeline.create_topic("jobs", max_attempts=3, dead_letter="jobs-dead")
        timeline.create_topic("jobs-dead")
        moment_ms = timeline.now_ms()
        timeline.create("jobs-dead", [b"x"], producer_group="g")
        timeline.create("jobs", [b"1", b"2"], producer_group="g")
        timeline.lease("jobs", "c", limit=1)
        timeline.subscribe("jobs", "c")
        tracker.open("a")
        service.background.compare_clocks()
        store.transact(lambda rows: rows.insert_resource("api", "10 by 1"))
        store.transact(lambda rows: rows.insert_partitions("api", range(10)))
        store.transact(lambda rows: rows.write_partitions("api", [1, 2], "me", moment_ms + 60_000))
        store.transact(lambda rows: rows.insert_reports([_report(moment_ms, rows_a_second=7.5, name="x", good=True)]))
        body = scraped(Asking(service)).body
    assert values(body, "batchline_messages")["processing", "jobs"] == 1
    assert values(body, "batchline_messages")["available", "jobs"] == 1
    assert values(body, "batchline_dead_letters") == {("jobs-dead",): 1}
    assert values(body, "batchline_oldest_message_age_seconds")["jobs",] >= 0
    assert values(body, "batchline_consumers") == {("jobs",): 1, ("jobs-dead",): 0}
    assert values(body, "batchline_fanouts")["open",] == 1
    assert values(body, "batchline_oldest_fanout_age_seconds")["open",] >= 0
    assert values(body, "batchline_partitions") == {("api",): 10}
    assert values(body, "batchline_partitions_held") == {("me", "api"): 2}
    assert values(body, "batchline_brokers") == {(): 1}
    assert values(body, "batchline_clock_degraded") == {(): 0}
    assert values(body, "batchline_store_up") == {(): 1}
    assert values(body, "batchline_reported") == {("run", "rows_a_second", "p"): 7.5, ("run", "good", "p"): 1}


def _report(at_ms: int, **body: object) -> ReportRow:
    return ReportRow("run", "p", at_ms, json.dumps(body))


def test_a_token_sees_the_names_of_its_topics_and_the_others_as_sums(store: Store) -> None:
    token, text = Tokens(store).create("scraper", topics=["mine*"])
    assert token.only_reads
    with closing(Service(store)) as service:
        for name in ("mine-1", "theirs-1", "theirs-2"):
            service.parts.timeline.create_topic(name)
            service.parts.timeline.create(name, [b"1"], producer_group="g")
        theirs = _report(service.parts.timeline.now_ms(), topic="theirs-1", used=3)._replace(name="theirs-worker")
        store.transact(lambda rows: rows.insert_reports([theirs]))
        assert Asking(service).get("/metrics").problem == "Unauthorized"
        body = scraped(Asking(service, text)).body
    found = values(body, "batchline_messages")
    assert (found["available", "mine-1"], found["available", "other"]) == (1, 2)
    assert b"theirs" not in body
    assert values(body, "batchline_tokens") == {(): 1}


def test_topics_and_instances_beyond_a_number_are_other() -> None:
    topics = [TopicNumbers(f"t{number:03}", Counts(1, 0, 0), number, 1, False) for number in range(MOST_NAMED + 5)]
    held = {("api", f"i{number:03}"): 2 for number in range(MOST_NAMED + 5)}
    found = families(StoreNumbers(by_topic=topics, held=held), None, lambda _: True, up=True)
    body = Metrics().text(found)
    messages = values(body, "batchline_messages")
    assert len(messages) == 3 * (MOST_NAMED + 1)
    assert messages["waiting", "other"] == 5
    assert values(body, "batchline_oldest_message_age_seconds")["other",] == (MOST_NAMED + 4) / 1e3
    assert values(body, "batchline_partitions_held")["other", "api"] == 10


def test_a_store_that_hangs_or_fails_does_not_fail_the_scrape(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "LOOK_S", 0.05)
    monkeypatch.setattr(service_module, "NUMBERS_FOR_S", 0.0)
    hanging = HangingStore(store)
    hanging.let.set()
    with closing(Service(hanging)) as service:
        service.parts.timeline.create_topic("jobs")
        assert values(scraped(Asking(service)).body, "batchline_store_up") == {(): 1}
        hanging.let.clear()
        body = scraped(Asking(service)).body
        assert values(body, "batchline_store_up") == {(): 0}
        assert ("jobs",) in values(body, "batchline_consumers")
        hanging.let.set()


def test_names_and_units_are_as_prometheus_wants_them() -> None:
    health = BrokerHealth("b", timedelta(seconds=1), False, 1)
    text = Metrics().text(families(StoreNumbers(), health, lambda _: True, up=True)).decode()
    for family in text_string_to_metric_families(text):
        assert re.fullmatch(r"(batchline|process)_[a-z_]+", family.name)
        assert family.documentation
        assert not re.search(r"_(ms|us|milliseconds|count)$", family.name)
    assert "# TYPE batchline_http_requests_total counter" in text
