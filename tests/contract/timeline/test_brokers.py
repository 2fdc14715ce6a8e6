"""Brokers whose clocks are off answer, and change nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from batchline import Lease, NewMessage, Store, Timeline
from batchline.errors import Degraded
from batchline.runtime.clock import now_us
from batchline.stores.rows import Rows
from batchline.stores.timeline_rows import BrokerRow, broker_row_name
from tests.contract.conftest import KINDS
from tests.contract.timeline.line import MINUTE, ids_of

#: Far enough that the time a test takes does not matter.
FAR = timedelta(hours=1)


@dataclass
class SkewedClock:
    """The real clock, off by so much: the database's own is the real one."""

    skew: timedelta = timedelta(0)

    def __call__(self) -> int:
        return now_us() + self.skew // timedelta(microseconds=1)


@dataclass
class Broker:
    """A broker, on a host of its own."""

    name: str
    clock: SkewedClock
    timeline: Timeline

    def beat(self) -> bool:
        """Whether it is degraded."""
        return self.timeline.beat(self.name, host=f"host of {self.name}").degraded


def brokers(store: Store, *skews: timedelta) -> list[Broker]:
    clocks = [SkewedClock(skew) for skew in skews]
    return [
        Broker(f"broker-{number}", clock, Timeline(store, clock=clock, max_drift=timedelta(minutes=1)))
        for number, clock in enumerate(clocks)
    ]


#: The stores with a clock of their own: memory is of one process, and has its clock.
CLOCKED = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "memory"])


@CLOCKED
@pytest.mark.parametrize("skew", [FAR, -FAR], ids=["ahead", "behind"])
def test_of_three_only_the_one_whose_clock_is_off_is_degraded(fresh_store: Store, skew: timedelta) -> None:
    three = brokers(fresh_store, timedelta(0), skew, timedelta(0))
    for one in three:
        one.beat()
    assert [one.beat() for one in three] == [False, True, False]
    health = three[1].timeline.health()
    assert health is not None
    assert (health.name, health.degraded, health.brokers, health.hosts) == ("broker-1", True, 3, 3)
    assert abs(health.drift - skew) < timedelta(minutes=1)


@CLOCKED
def test_three_hosts_that_agree_outvote_the_database(fresh_store: Store) -> None:
    three = brokers(fresh_store, FAR, FAR, FAR)
    for one in three:
        one.beat()
    assert [one.beat() for one in three] == [False, False, False]


@CLOCKED
def test_a_host_that_agrees_with_an_outvoted_database_is_degraded(fresh_store: Store) -> None:
    four = brokers(fresh_store, FAR, timedelta(0), FAR, FAR)
    for one in four:
        one.beat()
    assert [one.beat() for one in four] == [False, True, False, False]


@CLOCKED
def test_two_wrong_hosts_do_not_outvote_a_right_one_and_the_database(fresh_store: Store) -> None:
    three = brokers(fresh_store, FAR, timedelta(0), FAR)
    for one in three:
        one.beat()
    assert [one.beat() for one in three] == [True, False, True]


@CLOCKED
def test_a_host_that_is_restarted_ten_times_has_one_vote(fresh_store: Store) -> None:
    right, *wrong = brokers(fresh_store, timedelta(0), *[FAR] * 10)
    right.beat()
    found = [one.timeline.beat(one.name, host="one host") for one in wrong]
    assert [one.degraded for one in found] == [True] * 10
    assert not right.beat()
    health = right.timeline.health()
    assert health is not None
    assert (health.brokers, health.hosts) == (11, 2)


@CLOCKED
def test_the_last_process_of_a_host_has_its_vote(fresh_store: Store) -> None:
    one, two, three, wrong, right = brokers(fresh_store, FAR, FAR, timedelta(0), FAR, timedelta(0))
    for broker, host in ((one, "one"), (two, "two"), (three, "three"), (wrong, "four")):
        broker.timeline.beat(broker.name, host=host)
    assert three.timeline.beat(three.name, host="three").degraded
    right.timeline.beat(right.name, host="four")
    assert not three.timeline.beat(three.name, host="three").degraded


@CLOCKED
def test_of_two_the_one_that_is_off_the_databases_clock_is_degraded(fresh_store: Store) -> None:
    two = brokers(fresh_store, timedelta(0), FAR)
    assert [one.beat() for one in two] == [False, True]
    assert [one.beat() for one in two] == [False, True]


@CLOCKED
def test_one_alone_is_compared_with_the_database(fresh_store: Store) -> None:
    (right,) = brokers(fresh_store, timedelta(0))
    assert not right.beat()
    right.clock.skew = -FAR
    assert right.beat()


@CLOCKED
def test_a_broker_recovers_when_its_clock_is_right(fresh_store: Store) -> None:
    two = brokers(fresh_store, timedelta(0), FAR)
    assert [one.beat() for one in two] == [False, True]
    with pytest.raises(Degraded):
        two[1].timeline.create_topic("t")
    two[1].clock.skew = timedelta(0)
    assert not two[1].beat()
    two[1].timeline.create_topic("t")


@CLOCKED
def test_less_than_max_drift_is_nothing(fresh_store: Store) -> None:
    three = brokers(fresh_store, timedelta(0), timedelta(seconds=20), timedelta(0))
    for one in three:
        one.beat()
    assert [one.beat() for one in three] == [False, False, False]


@pytest.mark.parametrize(("ago_ms", "brokers"), [(10_000, 4), (31_000, 1), (-31_000, 1)])
def test_who_has_not_beaten_for_live_for_has_no_say(fresh_store: Store, ago_ms: int, brokers: int) -> None:
    others_are_behind(fresh_store, ago_ms)
    health = Timeline(fresh_store, clock=SkewedClock()).beat("one")
    assert (health.brokers, health.degraded) == (brokers, brokers == 4)


def test_a_broker_of_a_version_that_names_no_host_is_counted_and_has_no_vote(fresh_store: Store) -> None:
    others_are_behind(fresh_store, 0, row_name=lambda name, _: name)
    health = Timeline(fresh_store, clock=SkewedClock()).beat("one")
    assert (health.brokers, health.hosts, health.degraded) == (4, 1, False)


def others_are_behind(store: Store, ago_ms: int, row_name: Callable[[str, str], str] = broker_row_name) -> None:
    """Three others on three hosts, all an hour behind the database, were seen this long ago."""

    def note(rows: Rows) -> None:
        seen_ms = rows.database_ms(now_us() // 1_000) - ago_ms
        for number in range(3):
            rows.write_broker(BrokerRow(row_name(f"other-{number}", f"host-{number}"), seen_ms, -3_600_000))

    store.transact(note)


def test_no_broker_is_degraded_before_it_has_beaten(fresh_store: Store) -> None:
    timeline = Timeline(fresh_store, clock=SkewedClock(FAR))
    assert timeline.health() is None
    timeline.create_topic("t")


@pytest.mark.parametrize("kind", ["memory"])
def test_in_memory_brokers_have_one_clock(fresh_store: Store) -> None:
    assert [one.beat() for one in brokers(fresh_store, timedelta(0), FAR, -FAR)] == [False] * 3


WRITES: dict[str, Callable[[Timeline, Lease], Any]] = {
    "create_topic": lambda timeline, _: timeline.create_topic("new"),
    "update_topic": lambda timeline, _: timeline.update_topic("t", lease=MINUTE),
    "delete_topic": lambda timeline, _: timeline.delete_topic("t"),
    "create": lambda timeline, _: timeline.create("t", [NewMessage(id="new")], producer_group="g"),
    "move": lambda timeline, _: timeline.move("t", {"b": 0}, producer_group="g"),
    "cancel": lambda timeline, _: timeline.cancel("t", ["b"], producer_group="g"),
    "lease": lambda timeline, _: timeline.lease("t", "w"),
    "lease_one": lambda timeline, _: timeline.lease_one("t", "b", 1, "w"),
    "extend": lambda timeline, lease: timeline.extend(lease),
    "release": lambda timeline, lease: timeline.release(lease),
    "done": lambda timeline, lease: timeline.done(lease),
    "subscribe": lambda timeline, _: timeline.subscribe("t", "w"),
    "heartbeat": lambda timeline, _: timeline.heartbeat("t", "w"),
    "unsubscribe": lambda timeline, _: timeline.unsubscribe("t", "v"),
}


def test_a_degraded_broker_answers_reads_and_refuses_every_write(kind: str, fresh_store: Store) -> None:
    right, wrong = Broker("right", SkewedClock(), Timeline(fresh_store)), brokers(fresh_store, FAR)[0]
    right.timeline.create_topic("t")
    right.timeline.create("t", [NewMessage(id="a")], producer_group="g")
    (leased,) = right.timeline.lease("t", "v", duration=timedelta(hours=12))
    right.timeline.create("t", [NewMessage(id="b")], producer_group="g")
    right.timeline.subscribe("t", "v")
    if kind == "memory":
        others_are_behind(fresh_store, -3_600_000)
    assert wrong.beat()

    def all_there_is() -> tuple[Any, ...]:
        timeline = right.timeline
        messages = timeline.my_messages("g").messages
        return timeline.topics(), messages, timeline.my_leases("v"), timeline.consumers("t"), timeline.count("t")

    before = all_there_is()
    for verb, write in WRITES.items():
        with pytest.raises(Degraded, match=r"the clock of broker 'broker-0' is off by \+3[56]\d\d\.\d{3} s"):
            write(wrong.timeline, leased.lease)
        assert all_there_is() == before, verb
    assert wrong.timeline.topic("t") == right.timeline.topic("t")
    assert wrong.timeline.read("t", "b", producer_group="g").version == 1
    assert wrong.timeline.read("t", "a", lease=leased.lease).body == b""
    assert ids_of(wrong.timeline.my_messages("g").messages) == ["a", "b"]
    assert ids_of(wrong.timeline.my_leases("v")) == ["a"]
    assert wrong.timeline.count("t").total == 2
    assert wrong.timeline.load("t", to=(now_us() + 10**12) // 1_000).bins
    assert [one.id for one in wrong.timeline.upcoming("t", "w")] == ["b"]
    assert wrong.timeline.next_due("t", "w") is not None
