"""The clock by which a process writes: compared with the database's before, and refused while it is off."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from batchline import Beat, NewMessage, Services, Store, Timeline, Tracker, open_store
from batchline.errors import Degraded
from batchline.runtime.broker_clock import BrokerClock, clock_on
from batchline.runtime.clock import elapsed_seconds, now_us
from batchline.runtime.consumer_session import ConsumerSession
from batchline.runtime.deliveries import Deliveries
from batchline.runtime.expire import Expire
from batchline.runtime.prune import Prune
from batchline.runtime.publisher import Publisher, make_topics
from batchline.runtime.rescue import Rescue
from batchline.runtime.resend import Resend
from batchline.runtime.tokens import Tokens
from batchline.stores.attending import ComparedClock, compare_clock
from batchline.stores.delivering import Delivery
from tests.contract.parcels.posting import parcels_of

HOUR_US = 3_600_000_000


@dataclass
class Skewed:
    """The machine's clock, and how far a test has set it."""

    ahead_us: int = 0
    #: How much later it is by the steady clock than it was: a test does not wait.
    passed_s: float = 0.0

    def wall(self) -> int:
        return now_us() + self.ahead_us

    def steady(self) -> float:
        return elapsed_seconds() + self.passed_s


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store whose database has a clock of its own."""
    with open_store(f"sqlite:///{tmp_path / 'b.db'}") as store:
        yield store


def compared(store: Store, skewed: Skewed) -> BrokerClock:
    clock = BrokerClock(store, skewed.wall, skewed.steady)
    clock.require_comparison()
    return clock


def test_a_comparison_holds_for_ten_seconds(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    skewed, reads, read = Skewed(), list[str](), store.read
    clock = compared(store, skewed)

    def counting(work: Callable[[Any], Any]) -> Any:
        reads.append("read")
        return read(work)

    monkeypatch.setattr(store, "read", counting)
    for passed_s in (0, 0, 9):
        # Both clocks of the machine moved on. The database's did not, which only a comparison shows.
        skewed.passed_s, skewed.ahead_us = passed_s, passed_s * 1_000_000
        clock.checked_us()
    assert len(reads) == 1
    skewed.passed_s, skewed.ahead_us = 11, 11_000_000
    with pytest.raises(Degraded):
        clock.checked_us()
    assert len(reads) == 2


def test_a_clock_that_is_off_is_refused_from_the_first_write_on(store: Store) -> None:
    clock = compared(store, Skewed(HOUR_US))
    with pytest.raises(Degraded, match=r"clock of this process is off by \+3[56]\d\d\.\d{3} s, expected at most 1 s"):
        clock.checked_us()
    assert clock.health() is None


@pytest.mark.parametrize("ahead_us", [HOUR_US, -HOUR_US, 2_000_000])
def test_a_clock_that_is_set_after_a_beat_is_refused_at_once(store: Store, ahead_us: int) -> None:
    skewed = Skewed()
    clock = compared(store, skewed)
    assert not clock.beat("one").degraded
    clock.checked_us()
    skewed.ahead_us = ahead_us
    with pytest.raises(Degraded, match="the clock of broker 'one' is off by"):
        clock.checked_us()
    skewed.ahead_us = 0
    clock.checked_us()


def test_a_clock_that_is_set_while_it_is_compared_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    skewed, read = Skewed(), store.read
    clock = compared(store, skewed)

    def reading(work: Callable[[Any], Any]) -> Any:
        found = read(work)
        skewed.ahead_us = HOUR_US
        return found

    monkeypatch.setattr(store, "read", reading)
    with pytest.raises(Degraded):
        clock.checked_us()


def test_a_clock_that_is_set_with_that_of_its_store_is_not_refused() -> None:
    """As on SQLite, whose clock is the machine's."""
    skewed = Skewed()
    with open_store("memory://") as store:
        clock = compared(store, skewed)
        clock.checked_us()
        skewed.ahead_us = HOUR_US
        clock.checked_us()


def test_a_clock_that_was_off_is_compared_again_a_second_later(store: Store) -> None:
    skewed = Skewed(70_000_000)
    clock = compared(store, skewed)
    clock.max_drift_ms = 60_000
    with pytest.raises(Degraded):
        clock.checked_us()
    # Slewed, not set: it moved by less than the drift that is allowed.
    skewed.ahead_us, skewed.passed_s = 50_000_000, 2
    clock.checked_us()


def test_a_made_up_clock_is_trusted_until_its_process_beats(store: Store) -> None:
    skewed = Skewed(HOUR_US)
    timeline = Timeline(store, clock=skewed.wall)
    timeline.create_topic("before")
    assert timeline.beat("one").degraded
    with pytest.raises(Degraded):
        timeline.create_topic("after")


def test_what_works_on_a_store_shares_the_machines_clock(store: Store, tmp_path: Path) -> None:
    assert Timeline(store).clock is Timeline(store).clock is clock_on(store)
    with open_store(f"sqlite:///{tmp_path / 'other.db'}") as other:
        assert Timeline(other).clock is not Timeline(store).clock


class FailingBeat(Beat):
    """A beat with a defect."""

    def run_once(self) -> bool:
        raise RuntimeError("no beat")


@pytest.mark.parametrize("kind", [Beat, FailingBeat])
def test_services_with_a_beat_go_by_its_clock_and_take_no_step_before_it(store: Store, kind: type[Beat]) -> None:
    """Without a window: not even the first step of the first service is taken by a clock that is off."""
    skewed = Skewed()
    timeline = Timeline(store, clock=skewed.wall)
    timeline.create_topic("dead")
    timeline.create_topic("jobs", max_attempts=1, dead_letter="dead")
    timeline.create("jobs", [NewMessage(id="held")], producer_group="p")
    timeline.lease("jobs", "owner", duration=timedelta(minutes=30))
    skewed.ahead_us = HOUR_US
    with pytest.raises((Degraded, RuntimeError)):
        Services(store, beat=kind(timeline, "one")).run_once()
    skewed.ahead_us = 0
    assert [one.id for one in timeline.my_leases("owner")] == ["held"]


def writers(store: Store, clock: BrokerClock) -> dict[str, Callable[[], object]]:
    """All that writes moments, by name."""
    timeline, tracker = Timeline(store, clock=clock), Tracker(store, clock=clock)
    right = Timeline(store)
    right.create_topic("jobs", max_attempts=1, dead_letter="jobs.dead")
    right.create_topic("jobs.dead")
    right.create("jobs.dead", [NewMessage(id="dead")], producer_group="p")
    make_topics(right, "parcels")
    live = Tracker(store).open("live").id
    (item,) = Tracker(store).add(live, 1)[0].items()
    Publisher(store, "parcels", live).post(parcels_of("import", 0, 1, 1))
    (held,) = right.lease("parcels", "w")
    parcel = parcels_of("import", 0, 1, 1)[0]
    return {
        "rescue": Rescue(store, clock=clock).run_once,
        "prune": Prune(store, clock=clock).run_once,
        "expire": Expire(store, clock=clock).run_once,
        "resend": Resend(store, "jobs.dead", "jobs", timeline=timeline).run,
        "open": lambda: tracker.open("new"),
        "open again": lambda: tracker.open("live"),
        "add": lambda: tracker.add(live, 1),
        "seal": lambda: tracker.seal(live),
        "ack": lambda: tracker.ack([item]),
        "fail": lambda: tracker.fail([item], "no use"),
        "expire one": lambda: tracker.expire(live),
        "expire due": tracker.expire_due,
        "publish": lambda: Publisher(store, "parcels", live, clock=clock).post(parcels_of("import", 1, 1, 1)),
        "settle": lambda: Deliveries(store, timeline, "parcels").settle([Delivery(held, parcel)]),
        "token": lambda: Tokens(store, clock).create("t", admin=True),
    }


def test_all_that_writes_moments_refuses_while_the_clock_is_off_and_works_when_it_is_right(store: Store) -> None:
    skewed = Skewed(HOUR_US)
    clock = compared(store, skewed)
    named = writers(store, clock)
    for name, write in named.items():
        with pytest.raises(Degraded):
            write()
        assert Tracker(store).status("live").state == "open", name
    assert not Tokens(store).list()
    skewed.ahead_us = 0
    clock.beat("one")
    for name in ("rescue", "prune", "expire", "open", "publish", "settle", "ack", "token"):
        named[name]()


def test_a_token_is_revoked_by_whichever_clock(store: Store) -> None:
    token, _ = Tokens(store).create("t", admin=True)
    revoked = Tokens(store, compared(store, Skewed(HOUR_US))).revoke(token.id)
    assert revoked.revoked_at is not None
    assert token.created_at is not None
    assert abs(revoked.revoked_at - token.created_at) < timedelta(minutes=2)


def by_readings(*seconds_ahead: float) -> ComparedClock:
    """A clock that is read before and after each query, and jumps as it does where a database is slow."""
    ahead = iter([*seconds_ahead, *seconds_ahead[-1:] * 20])
    return ComparedClock(lambda: now_us() // 1_000 + round(next(ahead) * 1_000), 30_000, 1_000)


def test_a_slow_answer_of_the_database_makes_no_wrong_clock_right(store: Store) -> None:
    # Eight seconds ahead. The first answer takes ten, so that it shows a moment between the readings.
    found = store.read(lambda rows: compare_clock(rows, by_readings(-2, 8)))
    assert found.drift_ms == pytest.approx(8_000, abs=2_000)


def test_a_database_that_is_always_slow_refuses_no_clock_that_may_be_right(store: Store) -> None:
    found = store.read(lambda rows: compare_clock(rows, by_readings(*[0, 2] * 3)))
    assert abs(found.drift_ms) < 1_000


def test_a_database_that_is_always_slow_makes_a_clock_right_by_no_more_than_a_query_takes(store: Store) -> None:
    found = store.read(lambda rows: compare_clock(rows, by_readings(*[3_600, 3_602] * 3)))
    assert found.drift_ms == pytest.approx(3_600_000, abs=3_000)


def test_a_session_that_is_refused_takes_no_number_by_the_wrong_clock(store: Store) -> None:
    """Else all numbers of the process would be of the future, also when its clock is right again."""
    timeline = Timeline(store, clock=compared(store, Skewed(HOUR_US)))
    Timeline(store).create_topic("jobs")
    session = ConsumerSession(timeline, "jobs", "w")
    with pytest.raises(Degraded):
        session.begin()
    assert not session.number
