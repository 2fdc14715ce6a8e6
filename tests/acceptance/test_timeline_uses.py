"""What the timeline is for, use by use, as `docs/howto/messages-at-a-moment.md` tells it."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from batchline import (
    Consumer,
    Later,
    LeasedMessage,
    NewMessage,
    OnComplete,
    RetryRules,
    Services,
    Store,
    Timeline,
    Tracker,
    open_store,
)
from batchline.core.moment import moment_of
from tests.runtime.pace import Pace

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store, embedded and on a server."""
    url = f"sqlite:///{tmp_path / 'batchline.db'}"
    with open_store(url if request.param == "sqlite" else request.getfixturevalue("postgresql_database")) as store:
        yield store


class Scene:
    """A timeline, and a clock that is moved by hand, or by a consumer that has nothing to do."""

    def __init__(self, store: Store):
        self.pace = Pace()
        self.store = store
        self.timeline = Timeline(store, clock=self.pace.clock)

    def moment(self) -> datetime:
        return moment_of(self.pace.clock.us)

    def pass_time(self, span: timedelta) -> None:
        self.pace.clock.us += span // timedelta(microseconds=1)

    def consume(self, topic: str, handler: Callable[[LeasedMessage], Any], **options: Any) -> Consumer:
        """Run a consumer until nothing is left on a topic."""
        usual: dict[str, Any] = {"consumer": "worker", "look_every": MINUTE, "chance": lambda: 0.0}
        consumer = Consumer(self.timeline, topic, handler, wait=self.pace.wait, **(usual | options))

        async def stop_when_done() -> None:
            await self.pace.until(lambda: self.timeline.count(topic).total == 0)
            consumer.stop()

        async def both() -> None:
            await asyncio.gather(consumer.run(), stop_when_done())

        asyncio.run(asyncio.wait_for(both(), 60))
        return consumer

    def finish_due(self, topic: str) -> list[str]:
        """Lease all that is due, and finish it."""
        due = self.timeline.lease(topic, "worker", limit=1000)
        assert all(outcome.outcome == "done" for outcome in self.timeline.done([message.lease for message in due]))
        return sorted(message.id for message in due)


@pytest.fixture
def scene(store: Store) -> Scene:
    return Scene(store)


def words(outcomes: list[Any]) -> list[str]:
    return [outcome.outcome for outcome in outcomes]


def test_mails_some_days_after_a_registration_until_the_user_leaves(scene: Scene) -> None:
    timeline, days = scene.timeline, (1, 3, 7)
    timeline.create_topic("mails")

    def register(user: str) -> list[str]:
        messages = [NewMessage(id=f"{user}/{day}", at=scene.moment() + day * DAY) for day in days]
        return words(timeline.create("mails", messages, producer_group="accounts"))

    assert register("ada") == register("bob") == ["created"] * 3
    assert register("bob") == ["exists"] * 3
    scene.pass_time(DAY - timedelta(milliseconds=1))
    assert scene.finish_due("mails") == []
    scene.pass_time(timedelta(milliseconds=2))  # a moment is rounded up to the next millisecond
    assert scene.finish_due("mails") == ["ada/1", "bob/1"]
    ids = [f"bob/{day}" for day in days]
    assert words(timeline.cancel("mails", ids, producer_group="sales")) == ["unknown", "foreign", "foreign"]
    assert words(timeline.cancel("mails", ids, producer_group="accounts")) == ["unknown", "cancelled", "cancelled"]
    later = {"ada/7": scene.moment() + 20 * DAY}
    assert words(timeline.move("mails", later, producer_group="accounts")) == ["moved"]
    scene.pass_time(10 * DAY)
    assert scene.finish_due("mails") == ["ada/3"]
    scene.pass_time(10 * DAY + timedelta(milliseconds=1))
    assert scene.finish_due("mails") == ["ada/7"]
    assert timeline.count("mails").total == 0


def test_a_payment_is_tried_again_later_each_time(scene: Scene) -> None:
    scene.timeline.create_topic("payments")
    scene.timeline.create("payments", [NewMessage(id="invoice-7")], producer_group="shop")
    tried: list[float] = []

    async def pay(message: LeasedMessage) -> None:
        tried.append(scene.pace.seconds)
        if message.attempts < 5:
            raise ConnectionError("the bank does not answer")

    retry = RetryRules(first=timedelta(seconds=10), factor=2, longest=MINUTE, jitter=0)
    consumer = scene.consume("payments", pay, retry=retry)
    pauses = [later - earlier for earlier, later in pairwise(tried)]
    assert pauses == pytest.approx([10, 20, 40, 60], abs=0.1)
    assert consumer.outcomes == {"released": 4, "done": 1}


def test_a_job_goes_on_with_a_restarted_worker_and_comes_to_another_from_a_dead_one(scene: Scene) -> None:
    timeline = scene.timeline
    timeline.create_topic("reports", lease=5 * MINUTE)
    timeline.create("reports", [NewMessage(id="2027-01", body=b"january")], producer_group="office")
    (job,) = timeline.lease("reports", "worker-1")
    scene.pass_time(4 * MINUTE)
    (extended,) = timeline.extend(job.lease)
    assert extended.lease is not None
    assert words(timeline.cancel("reports", ["2027-01"], producer_group="office")) == ["leased"]
    scene.pass_time(4 * MINUTE)

    restarted = Timeline(scene.store, clock=scene.pace.clock)
    (held,) = restarted.my_leases("worker-1")
    assert (held.lease, held.body, held.attempts) == (extended.lease, b"january", 1)
    assert restarted.lease("reports", "worker-2") == []
    scene.pass_time(MINUTE)
    (taken,) = restarted.lease("reports", "worker-2")
    assert (taken.id, taken.attempts) == ("2027-01", 2)
    for late in (timeline.done, timeline.extend, timeline.release):
        assert words(late(held.lease)) == ["lost"]
    assert words(timeline.done(taken.lease)) == words(timeline.done(taken.lease)) == ["done"]


def test_a_buffer_passes_each_message_on_two_hours_later(scene: Scene) -> None:
    timeline, outgoing = scene.timeline, dict[str, bytes]()
    timeline.create_topic("cool-off")
    arrived: dict[str, float] = {}
    passed: dict[str, float] = {}
    for number in range(50):
        for _ in range(1 + (number % 10 == 0)):  # some are delivered twice
            message = NewMessage(b"%d" % number, id=f"orders-0-{number}", at=scene.moment() + 2 * HOUR)
            assert timeline.create("cool-off", [message], producer_group="buffer")[0].ok
        arrived[f"orders-0-{number}"] = scene.pace.seconds
        scene.pass_time(timedelta(seconds=1))

    scene.pass_time(2 * HOUR - MINUTE)

    async def pass_on(message: LeasedMessage) -> None:
        outgoing[message.id] = message.body
        passed[message.id] = scene.pace.seconds

    assert scene.consume("cool-off", pass_on, concurrency=50).outcomes == {"done": 50}
    assert outgoing == {f"orders-0-{number}": b"%d" % number for number in range(50)}
    assert all(0 <= passed[id] - arrived[id] - 7200 <= 0.02 for id in arrived)


def test_a_handler_that_is_overloaded_gets_its_messages_later(scene: Scene) -> None:
    scene.timeline.create_topic("pictures")
    scene.timeline.create("pictures", [b"%d" % number for number in range(50)], producer_group="shop")
    resized: list[float] = []

    async def resize(_: LeasedMessage) -> Later | None:
        if scene.pace.seconds < 60:
            return Later(timedelta(seconds=40), "the resizer is overloaded")
        resized.append(scene.pace.seconds)
        return None

    assert scene.consume("pictures", resize).outcomes == {"released": 100, "done": 50}
    assert all(80 <= second < 82 for second in resized)


def test_poison_ends_as_a_dead_letter_with_its_history_and_can_be_put_back(scene: Scene) -> None:
    timeline = scene.timeline
    timeline.create_topic("imports", max_attempts=3, dead_letter="imports.dead")
    timeline.create("imports", [NewMessage(b"shoe;;black", id="file-9"), b"hat;12.90;red"], producer_group="shop")
    read: list[bytes] = []

    async def take(message: LeasedMessage) -> None:
        if b";;" in message.body:
            raise ValueError("line 1 has no price")
        read.append(message.body)

    consumer = scene.consume("imports", take, consumer="importer-1")
    assert consumer.outcomes == {"released": 3, "done": 1}
    dead = timeline.read("imports.dead", "file-9", producer_group="shop")
    assert (dead.state, dead.attempts) == ("available", 0)
    assert [(one.attempt, one.consumer, one.ending, one.reason) for one in dead.history] == [
        (attempt, "importer-1", "released", "ValueError: line 1 has no price") for attempt in (1, 2, 3)
    ]
    (letter,) = timeline.lease("imports.dead", "mender")
    again = NewMessage(letter.body.replace(b";;", b";39.90;"), id=letter.id)
    assert words(timeline.create("imports", [again], producer_group="shop")) == ["created"]
    assert words(timeline.done(letter.lease)) == ["done"]
    scene.consume("imports", take)
    assert read == [b"hat;12.90;red", b"shoe;39.90;black"]


def test_a_message_whose_worker_died_each_time_is_rescued_though_nobody_asks(scene: Scene) -> None:
    timeline = scene.timeline
    timeline.create_topic("imports", max_attempts=2, dead_letter="imports.dead", lease=MINUTE)
    timeline.create("imports", [NewMessage(id="file-9")], producer_group="shop")
    for _ in range(2):
        assert len(timeline.lease("imports", "importer-1")) == 1
        scene.pass_time(MINUTE)
    services = Services(scene.store, clock=scene.pace.clock)
    while services.run_once():
        pass
    dead = timeline.read("imports.dead", "file-9", producer_group="shop")
    assert [(one.attempt, one.ending) for one in dead.history] == [(1, "lost"), (2, "lost")]


def test_the_future_load_shows_its_spikes(scene: Scene) -> None:
    timeline = scene.timeline
    timeline.create_topic("alarms")
    seven = scene.moment() + 7 * HOUR
    many = [NewMessage(at=seven + timedelta(milliseconds=number % 100)) for number in range(3000)]
    few = [NewMessage(at=scene.moment() + hour * HOUR + MINUTE) for hour in range(12)]
    timeline.create("alarms", [*many, *few], producer_group="clocks")
    end = scene.moment() + 12 * HOUR
    assert timeline.load("alarms", to=end, bins=12).spikes == ()  # nobody has shown anything yet
    timeline.heartbeat("alarms", "bell-1", messages_per_second=0.5)
    load = timeline.load("alarms", to=end, bins=12)
    (spike,) = load.spikes
    assert spike.begin <= seven < spike.end
    assert (spike.count >= 3000, sum(one.count for one in load.bins)) == (True, 3012)
    timeline.heartbeat("alarms", "bell-2", messages_per_second=5.0)  # two together can take it
    assert timeline.load("alarms", to=end, bins=12).spikes == ()
    assert timeline.count("alarms", to=scene.moment() + 6 * HOUR).waiting == 6


def test_a_follow_up_starts_once_when_all_is_done(scene: Scene) -> None:
    timeline, tracker = scene.timeline, Tracker(scene.store, clock=scene.pace.clock)
    timeline.create_topic("products")
    timeline.create_topic("publish")
    tracker.open("catalog-7", on_complete=OnComplete("publish", b"catalog-7", after=MINUTE))
    items = [item for group in tracker.add("catalog-7", 100) for item in group.items()]
    messages = [NewMessage(item.encode(), id=item) for item in items]
    timeline.create("products", messages, producer_group="import")
    tracker.seal("catalog-7")

    async def process(message: LeasedMessage) -> None:
        await asyncio.to_thread(tracker.ack, [message.body.decode()])
        await asyncio.to_thread(tracker.ack, [message.body.decode()])  # as if it had come twice

    scene.consume("products", process, concurrency=20)
    assert tracker.status("catalog-7").state == "complete"
    published: list[tuple[str, bytes]] = []

    async def publish(message: LeasedMessage) -> None:
        published.append((message.id, message.body))

    scene.consume("publish", publish)
    assert published == [("catalog-7", b"catalog-7")]
