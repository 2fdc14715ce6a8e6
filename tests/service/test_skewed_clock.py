"""Services, workers and commands whose clock is off, as processes of their own: they change nothing that is shared."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from batchline import NewMessage, OnComplete, Store, Timeline, Tracker, open_store
from batchline.core.moment import us_of
from batchline.runtime.clock import now_us
from batchline.runtime.publisher import make_topics
from batchline.runtime.reporting import Reporter
from tests.doubles import new_id
from tests.servers.server import REPOSITORY
from tests.waiting import wait_until

#: Seconds.
HOUR, MONTH = 3_600, 30 * 86_400
HALF = timedelta(minutes=30)


@pytest.fixture(params=["postgresql", "mariadb"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    with open_store(request.getfixturevalue(f"{request.param}_database")) as store:
        yield store


@contextmanager
def skewed(off: object, *words: object, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """`batchline` with a clock ahead by a number of seconds, or by the number in a file."""
    command = [sys.executable, "-m", "tests.faults.skewed_worker", str(off), *map(str, words)]
    with subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True, **options) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def service(store: Store, off: object, *more: str) -> Iterator[httpx2.Client]:
    with skewed(off, "serve", "--store", store.address, "--listen", "127.0.0.1:0", *more) as process:
        assert process.stderr is not None
        found = re.search(r"http://\S+", process.stderr.readline())
        assert found is not None
        with httpx2.Client(base_url=found[0], timeout=60) as client:
            yield client


class Shared:
    """What others rely on: a message that is held, one that is due later, a fanout that is alive."""

    def __init__(self, store: Store) -> None:
        self.timeline, self.tracker = Timeline(store), Tracker(store)
        self.timeline.create_topic("jobs", max_attempts=1, dead_letter="dead")
        for topic in ("dead", "after"):
            self.timeline.create_topic(topic)
        make_topics(self.timeline, "parcels")
        self.timeline.create("jobs", [NewMessage(id="held")], producer_group="p")
        (self.held,) = self.timeline.lease("jobs", "owner", duration=HALF)
        self.timeline.create("jobs", [NewMessage(id="later", after=HALF)], producer_group="p")
        self.tracker.open("live", on_complete=OnComplete("after"))
        self.items = list(self.tracker.add("live", 1)[0].items())
        self.tracker.seal("live")

    def check(self) -> None:
        """All is as it was, and the work can be finished: at once, as its moment is now."""
        assert [one.id for one in self.timeline.my_leases("owner")] == ["held"]
        assert self.timeline.count("dead").total == 0
        assert self.timeline.read("jobs", "later", producer_group="p").version == 1
        assert self.tracker.status("live").state == "sealed"
        assert [one.outcome for one in self.timeline.done(self.held)] == ["done"]
        before_ms = self.timeline.now_ms()
        assert self.tracker.ack(self.items).completed == ("live",)
        due_ms = self.timeline.next_due("after")
        assert due_ms is not None
        assert due_ms - before_ms < 120_000


def compared(client: httpx2.Client) -> dict[str, Any]:
    """Return what a service says of itself, once it has beaten: its `drift_ms`, or what is wrong."""

    def said() -> dict[str, Any]:
        found: dict[str, Any] = client.get("/health/ready").json()
        return found

    wait_until(lambda: said().get("drift_ms", 0.0) is not None)
    return said()


def failures(client: httpx2.Client, loop: str) -> float:
    found = re.search(rf'^batchline_loop_failures_total{{loop="{loop}"}} (\S+)$', client.get("/metrics").text, re.M)
    return float(found[1]) if found else 0.0


def test_a_service_whose_clock_is_off_buries_expires_schedules_and_leases_nothing(store: Store) -> None:
    shared = Shared(store)
    with service(store, MONTH) as client:
        # Until each has taken its first step, whether that was refused or not.
        wait_until(lambda: failures(client, "rescue") or shared.timeline.count("dead").total)
        wait_until(lambda: failures(client, "expire") or shared.tracker.status("live").state != "sealed")
        assert "the clock is off by" in compared(client).get("detail", "nothing is wrong")
        refused = [
            client.post("/v1/topics/jobs/messages/lease", json={"consumer": "thief"}),
            client.post("/v1/fanouts/ack", json={"items": shared.items}),
            client.post("/v1/fanouts", json={"id": "new"}),
            client.post("/v1/fanouts/live/expire", json={}),
            client.post("/v1/fanouts/expire-due", json={}),
            client.post("/v1/topics/jobs/messages", json={"messages": [{"id": "new"}]}),
        ]
        assert [(one.status_code, one.json().get("type")) for one in refused] == [(503, "/problems/Degraded")] * 6
    shared.check()


def test_a_worker_whose_clock_is_off_buries_expires_and_delivers_nothing(store: Store, tmp_path: Path) -> None:
    shared = Shared(store)
    Reporter(store, "work", "right", dict).run_once()
    words = ("work", "--store", store.address, "--sink", f"files:{tmp_path}", "--name", "wrong")
    with skewed(MONTH, *words, stdout=subprocess.DEVNULL):

        def troubles() -> set[str]:
            found = store.read(lambda rows: rows.latest_reports())
            return {one["loop"] for row in found if row.name == "wrong" for one in json.loads(row.body)["degraded"]}

        wait_until(lambda: {"rescue", "expire"} <= troubles() or shared.timeline.count("dead").total)
        # It says so at the right moment, although its own clock does not know that.
        reports = {row.name: row for row in store.read(lambda rows: rows.latest_reports())}
        assert "right" in reports, "it forgot the reports of others"
        report = reports["wrong"]
        assert abs(report.at_ms - now_us() // 1_000) < 120_000
        assert abs(json.loads(report.body)["started_ms"] - report.at_ms) < 120_000
    shared.check()


def test_a_host_that_is_started_three_times_with_a_wrong_clock_stays_degraded(store: Store) -> None:
    shared = Shared(store)
    for _ in range(3):
        with service(store, HOUR) as client:
            assert "the clock is off by" in compared(client).get("detail", "nothing is wrong")
            for consumer in ("owner", "thief"):
                answer = client.post("/v1/topics/jobs/messages/lease", json={"consumer": consumer, "limit": 10})
                assert answer.status_code == 503
    shared.check()


def test_estimates_of_a_service_whose_clock_is_off_have_the_moments_of_redis(
    postgresql_database: str, redis_url: str
) -> None:
    id = new_id()
    with open_store(postgresql_database) as store, service(store, MONTH, "--estimates", redis_url) as client:
        client.post("/v1/estimates", json={"id": id}).raise_for_status()
        client.post(f"/v1/estimates/{id}/seal").raise_for_status()
        kept = client.get(f"/v1/estimates/{id}").json()
    for name in ("opened_at", "last_activity_at", "sealed_at", "completed_at"):
        assert abs(us_of(datetime.fromisoformat(kept[name])) - now_us()) < 120_000_000


def test_a_clock_that_is_set_while_a_service_runs_is_noticed_at_the_next_write(store: Store, tmp_path: Path) -> None:
    shared, off = Shared(store), tmp_path / "off"
    off.write_text("0")
    with service(store, off) as client:

        def ask() -> httpx2.Response:
            return client.post("/v1/topics/jobs/messages/lease", json={"consumer": "thief", "limit": 10})

        assert (ask().status_code, ask().json()["messages"]) == (200, [])
        set_to(off, HOUR)
        assert ask().status_code == 503
        set_to(off, 0)
        wait_until(lambda: ask().status_code == 200)
        assert ask().json()["messages"] == []
    shared.check()


def set_to(file: Path, seconds: int) -> None:
    """Whole, in one moment: the process reads it all the time."""
    new = file.with_suffix(".new")
    new.write_text(str(seconds))
    os.replace(new, file)  # noqa: PTH105 - atomic


@pytest.mark.parametrize(
    "words",
    [
        ("tidy",),
        ("fanout", "expire"),
        ("fanout", "open", "new"),
        ("put", "jobs", "--id", "new"),
        ("lease", "jobs", "--consumer", "thief"),
    ],
    ids=" ".join,
)
def test_a_command_whose_clock_is_off_changes_nothing_and_says_so(
    words: tuple[str, ...], postgresql_database: str
) -> None:
    with open_store(postgresql_database) as store:
        shared = Shared(store)
        with skewed(MONTH, *words, "--store", store.address, stdout=subprocess.PIPE) as process:
            out, said = process.communicate(timeout=120)
        assert process.returncode, out
        assert "the clock of" in said, said
        assert re.search(r"off by \+2[56]9\d{4}\.", said), said
        shared.check()
