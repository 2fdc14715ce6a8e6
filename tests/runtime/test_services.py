"""Background work: steps, and the loop that makes them."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from batchline import Beat, NewMessage, Services, Timeline, Tracker, open_store
from batchline.errors import StoreUnavailable
from batchline.runtime.services import Paced
from tests.runtime.pace import Pace


def test_one_step_removes_rescues_and_expires() -> None:
    pace, store = Pace(), open_store("memory://")
    timeline, tracker = Timeline(store, clock=pace.clock), Tracker(store, clock=pace.clock)
    timeline.create_topic("jobs", max_attempts=1, dead_letter="dead", lease=timedelta(minutes=1))
    timeline.create("jobs", [NewMessage(id="done"), NewMessage(id="poison")], producer_group="p")
    leased = {message.id: message.lease for message in timeline.lease("jobs", "w", limit=2)}
    timeline.done(leased["done"])
    tracker.open("idle")
    pace.clock.us += 10**15
    services = Services(store, clock=pace.clock)
    while services.run_once():
        pass
    assert timeline.read("dead", "poison", producer_group="p").attempts == 0
    assert [one.outcome for one in timeline.create("jobs", [NewMessage(id="done")], producer_group="q")] == ["created"]
    assert tracker.status("idle").state == "expired"


def test_services_run_until_they_are_stopped() -> None:
    pace, store = Pace(), open_store("memory://")
    timeline = Timeline(store, clock=pace.clock)
    timeline.create_topic("jobs")
    timeline.create("jobs", [NewMessage(id="one")], producer_group="p")
    timeline.done([message.lease for message in timeline.lease("jobs", "w")])
    services = Services(store, clock=pace.clock, wait=pace.wait)
    number = timeline.topic("jobs").number

    def is_free() -> bool:
        return not store.read(lambda rows: rows.message_ids(number, ["one"]))

    async def stop_when_pruned() -> None:
        await pace.until(is_free)
        services.stop()

    async def both() -> None:
        await asyncio.gather(services.run(), stop_when_pruned())

    asyncio.run(asyncio.wait_for(both(), 60))
    assert is_free()


class Away:
    """A service whose store does not answer at first."""

    def __init__(self) -> None:
        self.steps = 0

    def run_once(self) -> bool:
        """One step."""
        self.steps += 1
        if self.steps < 3:
            raise StoreUnavailable("not yet")
        return False


def test_a_store_that_is_away_does_not_end_them() -> None:
    pace, away = Pace(), Away()
    services = Services(open_store("memory://"), wait=pace.wait)
    services._paced = (Paced("prune", away, timedelta(seconds=1)),)

    async def stop_when_back() -> None:
        await pace.until(lambda: away.steps > 3)
        services.stop()

    async def both() -> None:
        await asyncio.gather(services.run(), stop_when_back())

    asyncio.run(asyncio.wait_for(both(), 60))
    assert away.steps > 3


def test_a_broker_among_others_whose_clock_is_off_is_found_out_by_its_beat() -> None:
    pace, store = Pace(), open_store("memory://")
    timeline = Timeline(store, clock=pace.clock)
    services = Services(store, beat=Beat(timeline, "one"))
    services.run_once()
    health = timeline.health()
    assert health is not None
    assert (health.name, health.degraded, health.brokers) == ("one", False, 1)


def test_a_topic_with_a_corrupt_row_stops_neither_other_topics_nor_other_services(tmp_path: Path) -> None:
    pace, path = Pace(), tmp_path / "b.db"
    with open_store(f"sqlite:///{path}") as store:
        timeline, tracker = Timeline(store, clock=pace.clock), Tracker(store, clock=pace.clock)
        for topic in ("bad", "good"):
            timeline.create_topic(topic, max_attempts=1, dead_letter="dead", lease=timedelta(minutes=1))
            # More than one step of each service takes on: the others come to their end before the failure is raised.
            timeline.create(topic, [NewMessage(id=f"{topic}{n}") for n in range(2_000)], producer_group="p")
            leased = timeline.lease(topic, "w", limit=2_000)
            timeline.done([message.lease for message in leased[:1_000]])
        bad = timeline.topic("bad").number
        with closing(sqlite3.connect(path, isolation_level=None)) as raw:
            raw.execute(
                "DELETE FROM batchline_bundles WHERE number IN (SELECT bundle FROM batchline_spots WHERE topic = ?)",
                [bad],
            )
        for n in range(300):
            tracker.open(f"idle{n}")
        pace.clock.us += 10**15
        with pytest.raises(KeyError) as raised:
            Services(store, clock=pace.clock).run_once()
        assert raised.value.__notes__[0].startswith("in topic 'bad'")
        assert timeline.count("dead").total == 1_000
        assert tracker.list("expired", limit=1_000).next is None
        assert len(tracker.list("expired", limit=1_000).fanouts) == 300
        good = timeline.topic("good").number
        assert not store.read(lambda rows: rows.message_ids(good, ["good0"]))
