"""A store as a fleet fills it in a month: topics, messages, fanouts in all states, and what processes report."""

import json
import math
import random
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from batchline.core.message import NewMessage
from batchline.runtime.clock import now_us
from batchline.runtime.timeline import Timeline
from batchline.runtime.tracker import Tracker
from batchline.stores.report_rows import ReportRow
from batchline.stores.store import Store

GROUP = "local"
DAY_MS, MINUTE_MS = 86_400_000, 60_000
REPORT_EVERY_MS = 10_000
ENDED_FANOUTS = 12


class Ago:
    """A clock that shows what was, some time ago."""

    def __init__(self) -> None:
        self.us = 0

    def __call__(self) -> int:
        """The moment it shows."""
        return now_us() - self.us

    def back(self, **span: float) -> None:
        """Show so long ago."""
        self.us = timedelta(**span) // timedelta(microseconds=1)


def fill(store: Store, messages: int = 4_000) -> None:
    """Fill a store."""
    store.migrate()
    rng = random.Random(8)
    timeline = Timeline(store)
    fill_topics(timeline, rng, messages)
    fill_fanouts(store, rng)


def fill_topics(timeline: Timeline, rng: random.Random, messages: int) -> None:
    """Topics with messages over a month, consumers, and some that have been leased."""
    now_ms = timeline.now_ms()
    for name in ("orders-dead", "parcels-dead"):
        timeline.create_topic(name)
    for name, dead, share in (
        ("orders", "orders-dead", 0.6),
        ("parcels", "parcels-dead", 0.3),
        ("reminders", None, 0.1),
    ):
        timeline.create_topic(name, dead_letter=dead, max_attempts=5 if dead else None)
        timeline.create(name, drafts(rng, name, now_ms, int(messages * share)), producer_group=GROUP)
        timeline.heartbeat(name, f"{name}-worker-1", messages_per_second=rng.uniform(0.5, 2))
    timeline.heartbeat("parcels", "parcels-worker-2", clock_ms=now_ms - 2_300, messages_per_second=1.2)
    timeline.create("orders-dead", [NewMessage(b"poison", now_ms, f"dead-{n}") for n in range(3)], producer_group=GROUP)
    known = NewMessage(b'{"order": 4711, "customer": "Ada", "lines": 3}', now_ms - DAY_MS, "order-4711")
    timeline.create("orders", [known], producer_group=GROUP)
    for reason in ("connection refused", "the receiver answered 503: try again tomorrow"):
        leased = timeline.lease("orders", "orders-worker-1", limit=1)
        timeline.release(leased, now_ms - DAY_MS if "refused" in reason else now_ms + DAY_MS, reason=reason)
    timeline.lease("orders", "orders-worker-1", limit=20)


def drafts(rng: random.Random, name: str, now_ms: int, count: int) -> list[NewMessage]:
    """Messages whose moments are dense soon, and in daily waves later."""
    found = []
    for number in range(count):
        ahead_ms = int(30 * DAY_MS * rng.random() ** rng.choice((2, 6, 14)))
        wave = 1 + math.sin(2 * math.pi * (now_ms + ahead_ms) / DAY_MS)
        if rng.random() * 2 > wave:
            ahead_ms += DAY_MS // 3
        body = json.dumps({"topic": name, "number": number}).encode()
        found.append(NewMessage(body, now_ms + ahead_ms - 2_000, f"{name}-{number}"))
    return found


def fill_fanouts(store: Store, rng: random.Random) -> None:
    """Fanouts in all states, opened over some days."""
    clock = Ago()
    tracker = Tracker(store, clock=clock)
    for number in range(ENDED_FANOUTS):
        clock.back(hours=60 - 4 * number)
        items = opened(tracker, f"nightly-{number + 1:02d}", rng.randrange(20, 400), job="nightly")
        clock.back(hours=59.5 - 4 * number)
        tracker.ack(items)
    fill_live(tracker, clock)


def fill_live(tracker: Tracker, clock: Ago) -> None:
    """Those that go on, are stuck, failed or expired."""
    clock.back(hours=26)
    stuck = opened(tracker, "backfill-2026-10", 5_000, job="backfill", site="north")
    clock.back(minutes=47)
    tracker.ack(stuck[:4_312])
    broken = opened(tracker, "import/3", 640, job="import", site="south")
    clock.back(minutes=12)
    tracker.ack(broken[:600])
    tracker.fail(broken[600:603], "the receiver answered 422: value out of range")
    expired = opened(tracker, "trial-1", 10, job="trial")
    tracker.ack(expired[:2])
    tracker.expire("trial-1")
    clock.back(minutes=9)
    brisk = opened(tracker, "import/4", 2_000, job="import", site="south")
    growing = opened(tracker, "live-2026-11-16", 900, seal=False, job="live")
    clock.back(seconds=3)
    tracker.ack(brisk[:1_480])
    tracker.ack(growing[:770])


def opened(tracker: Tracker, id: str, count: int, *, seal: bool = True, **labels: str) -> list[str]:
    """The items of a new fanout."""
    tracker.open(id, labels=labels)
    items = [f"{group.id}:{index}" for group in tracker.add(id, count) for index in range(group.upto)]
    if seal:
        tracker.seal(id)
    return [item if item.startswith(f"{id}:") else f"{id}:{item}" for item in items]


@contextmanager
def reporting(store: Store) -> Iterator[None]:
    """Within it, processes report; they did so for ten minutes, and one of them says nothing any more."""
    began_ms = now_us() // 1_000 - 2 * 3_600_000
    ended = threading.Event()

    def say(moments: Iterable[int], *silent: str) -> None:
        rows = [row for at_ms in moments for row in reports(began_ms, at_ms) if row.name not in silent]
        store.transact(lambda given: given.insert_reports(rows))

    def go_on() -> None:
        while not ended.wait(2):
            say([now_us() // 1_000], "worker-2")

    now_ms = now_us() // 1_000
    say(range(now_ms - 10 * MINUTE_MS, now_ms - 4 * MINUTE_MS, REPORT_EVERY_MS))
    say(range(now_ms - 4 * MINUTE_MS, now_ms + 1, REPORT_EVERY_MS), "worker-2")
    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def reports(began_ms: int, at_ms: int) -> Iterator[ReportRow]:
    """What four processes say at a moment."""
    seconds = (at_ms - began_ms) / 1_000
    done = 420 * seconds + 9_000 * math.sin(seconds / 90)
    yield _row("run", "plant", at_ms, began_ms, run_numbers(done, seconds))
    yield _row("ingest", "gateway-mqtt", at_ms, began_ms, ingest_numbers(done))
    yield _row("work", "worker-1", at_ms, began_ms, work_numbers(0.6 * done))
    yield _row("work", "worker-2", at_ms, began_ms, work_numbers(0.4 * done))


def _row(kind: str, name: str, at_ms: int, began_ms: int, numbers: dict[str, Any]) -> ReportRow:
    return ReportRow(kind, name, at_ms, json.dumps({"started_ms": began_ms, "ended": False} | numbers))


def run_numbers(done: float, seconds: float) -> dict[str, Any]:
    """Of `batchline run`."""
    return {
        "pipeline": "plant",
        "source": "mqtt",
        "topic": "parcels",
        "read": int(done * 1.02),
        "batched": int(done),
        "rejected": {"late": int(done * 0.011), "duplicate": int(done * 0.004), "future": int(done * 0.0004)},
        "batches": int(done / 40),
        "parcels": int(done / 400),
        "published": int(done - 900),
        "acked": int(done / 400 - 12),
        "failed": 3,
        "fanouts": int(done / 40_000),
        "complete": False,
        "epoch": int(seconds),
        "epochs": [],
        "open_rows": 12_400 + int(800 * math.sin(seconds / 40)),
        "open_batches": 310,
        "state_rows": 14_000,
        "state_bytes": 1_900_000,
        "steps": {},
    }


def ingest_numbers(done: float) -> dict[str, Any]:
    """Of `batchline ingest`."""
    received = int(done * 1.03)
    return {
        "source": "mqtt",
        "series": "mqtt",
        "received": received,
        "landed": received,
        "malformed": int(done / 9_000),
    }


def work_numbers(done: float) -> dict[str, Any]:
    """Of `batchline work`."""
    parcels = int(done / 400)
    return {
        "topic": "parcels",
        "parcels": {"delivered": parcels, "repeated": 2, "refused": 3, "failed": int(parcels / 50)},
        "measurements": {"delivered": int(done), "refused": 900},
        "fanouts_ended": int(done / 40_000),
        "throttled": 4,
        "pauses": 1,
        "paused_ms": 5_000,
        "paused": False,
        "in_hand": 14,
        "lanes": 9,
        "waiting": 6,
        "on_their_way": 8,
        "used": int(done),
        "capacity": None,
    }
