"""A consumer on a clock that is moved by hand."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from batchline import (
    Beat,
    Consumer,
    Later,
    Lease,
    LeasedMessage,
    NewMessage,
    Outcome,
    RetryRules,
    Services,
    Timeline,
    open_store,
)
from batchline.errors import InvalidCount, InvalidName, InvalidRules, StoreUnavailable, UnknownTopic
from batchline.stores.rows import Rows
from batchline.stores.timeline_rows import BrokerRow, broker_row_name
from tests.runtime.pace import Pace

MINUTE = timedelta(minutes=1)
RETRY = RetryRules(first=timedelta(seconds=10), factor=3, longest=timedelta(minutes=5), jitter=0)


class Scene:
    """A topic, and consumers of it that end when there is nothing more to do."""

    def __init__(self, pace: Pace, **rules: Any):
        self.pace = pace
        self.store = open_store("memory://")
        self.timeline = Timeline(self.store, clock=pace.clock)
        self.timeline.create_topic("jobs", **({"lease": MINUTE} | rules))

    def put(self, *seconds: float, **options: Any) -> None:
        """Create messages m0, m1, … due so many seconds after the beginning."""
        begin_ms = self.pace.begin_us // 1_000
        messages = [
            NewMessage(id=f"m{number}", at=begin_ms + round(second * 1_000), body=b"%d" % number, **options)
            for number, second in enumerate(seconds)
        ]
        assert all(outcome.ok for outcome in self.timeline.create("jobs", messages, producer_group="p"))

    def consumer(self, handler: Callable[[LeasedMessage], Any], **options: Any) -> Consumer:
        usual: dict[str, Any] = {"consumer": "worker", "retry": RETRY, "look_every": timedelta(seconds=1)}
        return Consumer(self.timeline, "jobs", handler, wait=self.pace.wait, chance=lambda: 0.0, **(usual | options))

    def left(self) -> int:
        return self.timeline.count("jobs").total

    def run(self, consumer: Consumer, beside: Callable[[], Awaitable[None]] | None = None) -> None:
        """Run a consumer until nothing is left, or until what is beside it has stopped it."""

        async def stop_when_done() -> None:
            await self.pace.until(lambda: self.left() == 0)
            consumer.stop()

        async def both() -> None:
            await asyncio.gather(consumer.run(), (beside or stop_when_done)())

        asyncio.run(asyncio.wait_for(both(), 60))


@pytest.fixture
def pace() -> Pace:
    return Pace()


def test_every_message_is_handled_once_and_is_gone(pace: Pace) -> None:
    scene = Scene(pace)
    scene.put(*range(100))
    handled: list[str] = []

    async def handle(message: LeasedMessage) -> None:
        handled.append(message.id)

    consumer = scene.consumer(handle)
    scene.run(consumer)
    assert handled == [f"m{number}" for number in range(100)]
    assert consumer.outcomes == {"done": 100}


def test_none_is_handled_before_its_moment_and_each_as_soon_as_it_comes(pace: Pace) -> None:
    scene = Scene(pace)
    scene.put(0.5, 1.001, 7, 3600)
    moments: dict[str, float] = {}

    async def handle(message: LeasedMessage) -> None:
        moments[message.id] = pace.seconds

    scene.run(scene.consumer(handle))
    for id, second in (("m0", 0.5), ("m1", 1.001), ("m2", 7), ("m3", 3600)):
        assert second <= moments[id] <= second + 0.02


def test_no_more_than_so_many_are_handled_at_once(pace: Pace) -> None:
    scene = Scene(pace)
    scene.put(*[0] * 30)
    running: list[str] = []
    most = 0

    async def handle(message: LeasedMessage) -> None:
        nonlocal most
        running.append(message.id)
        most = max(most, len(running))
        await asyncio.sleep(0)
        running.remove(message.id)

    scene.run(scene.consumer(handle, concurrency=4))
    assert most == 4


def test_a_function_that_is_no_coroutine_is_handled_in_threads(pace: Pace) -> None:
    scene = Scene(pace)
    scene.put(*[0] * 20)
    handled: list[bytes] = []
    scene.run(scene.consumer(lambda message: handled.append(message.body)))
    assert sorted(handled) == sorted(b"%d" % number for number in range(20))


def test_a_lease_is_extended_while_the_handler_works(pace: Pace) -> None:
    scene = Scene(pace)
    scene.put(0)
    handled: list[int] = []

    async def handle(message: LeasedMessage) -> None:
        handled.append(message.attempts)
        await pace.until(lambda: pace.seconds > 600)

    consumer = scene.consumer(handle)
    scene.run(consumer)
    assert handled == [1]
    assert consumer.outcomes == {"done": 1}


def test_a_handler_that_fails_is_tried_again_later_each_time(pace: Pace) -> None:
    scene = Scene(pace)
    scene.put(0)
    moments: list[float] = []

    async def handle(message: LeasedMessage) -> None:
        moments.append(pace.seconds)
        if message.attempts < 6:
            raise RuntimeError("not yet")

    consumer = scene.consumer(handle)
    scene.run(consumer)
    pauses = [later - earlier for earlier, later in pairwise(moments)]
    assert pauses == pytest.approx([10, 30, 90, 270, 300], abs=0.03)
    assert consumer.outcomes == {"released": 5, "done": 1}


def test_a_plain_handler_that_raises_stop_iteration_has_failed_as_any_other(pace: Pace) -> None:
    scene = Scene(pace)
    scene.put(0)

    def handle(message: LeasedMessage) -> None:
        if message.attempts == 1:
            raise StopIteration

    consumer = scene.consumer(handle)
    scene.run(consumer)
    assert consumer.outcomes == {"released": 1, "done": 1}


def test_a_handler_can_give_a_message_back_for_later(pace: Pace) -> None:
    scene = Scene(pace)
    scene.put(0)
    moments: list[float] = []

    async def handle(message: LeasedMessage) -> Later | None:
        moments.append(pace.seconds)
        return Later(timedelta(minutes=7), "the receiver is down") if message.attempts == 1 else None

    scene.run(scene.consumer(handle))
    assert moments[1] - moments[0] == pytest.approx(420, abs=0.03)


def test_a_poison_message_ends_on_the_dead_letter_topic_with_its_history(pace: Pace) -> None:
    scene = Scene(pace, max_attempts=3, dead_letter="jobs.dead")
    scene.put(0)

    async def handle(message: LeasedMessage) -> None:
        raise ValueError(f"cannot read {message.body!r}")

    consumer = scene.consumer(handle)
    scene.run(consumer)
    assert consumer.outcomes == {"released": 3}
    message = scene.timeline.read("jobs.dead", "m0", producer_group="p")
    assert [(one.attempt, one.ending, one.reason) for one in message.history] == [
        (attempt, "released", "ValueError: cannot read b'0'") for attempt in (1, 2, 3)
    ]


def test_an_answer_that_says_nothing_is_a_failure(pace: Pace) -> None:
    scene = Scene(pace, max_attempts=1, dead_letter="jobs.dead")
    scene.put(0)
    scene.run(scene.consumer(lambda _: "done"))
    (attempt,) = scene.timeline.read("jobs.dead", "m0", producer_group="p").history
    assert "Later" in attempt.reason


def test_stopping_lets_what_is_in_hand_end_and_takes_no_more(pace: Pace) -> None:
    scene = Scene(pace)
    scene.put(*[0] * 10)
    begun: list[str] = []
    go_on = asyncio.Event()

    async def handle(message: LeasedMessage) -> None:
        begun.append(message.id)
        await go_on.wait()

    consumer = scene.consumer(handle, concurrency=3, drain=timedelta(hours=1))

    async def stop() -> None:
        await pace.until(lambda: len(begun) == 3)
        consumer.stop()
        await pace.until(lambda: pace.seconds > 60)
        go_on.set()

    scene.run(consumer, stop)
    assert consumer.outcomes == {"done": 3}
    assert len(begun) == 3
    assert scene.left() == 7
    assert scene.timeline.consumers("jobs") == []


def test_it_ends_as_soon_as_what_is_in_hand_has_ended(pace: Pace) -> None:
    scene = Scene(pace)
    scene.put(0)

    async def handle(_: LeasedMessage) -> None:
        consumer.stop()
        for _step in range(4):  # it goes on for a while after the loop has heard of it
            await asyncio.sleep(0)

    consumer = scene.consumer(handle)
    asyncio.run(consumer.run())
    assert consumer.outcomes == {"done": 1}
    assert pace.seconds < 1


def test_what_does_not_end_in_time_is_given_back_at_once(pace: Pace) -> None:
    scene = Scene(pace)
    scene.put(0)
    begun: list[str] = []

    async def handle(message: LeasedMessage) -> None:
        begun.append(message.id)
        await asyncio.Event().wait()

    consumer = scene.consumer(handle, drain=timedelta(seconds=5))

    async def stop() -> None:
        await pace.until(lambda: bool(begun))
        consumer.stop()

    scene.run(consumer, stop)
    assert consumer.outcomes == {"released": 1}
    (message,) = scene.timeline.lease("jobs", "another")
    assert message.attempts == 2


def test_a_consumer_that_is_started_again_goes_on_with_its_own_leases(pace: Pace) -> None:
    scene = Scene(pace)
    scene.put(0, 0, 0)
    held = scene.timeline.lease("jobs", "worker", limit=2)
    handled: list[tuple[str, int]] = []

    async def handle(message: LeasedMessage) -> None:
        handled.append((message.id, message.attempts))

    scene.run(scene.consumer(handle, concurrency=2))
    assert handled[:2] == [(message.id, 2) for message in held], "a lease taken over is another attempt"
    assert len(handled) == 3


def test_one_that_had_more_in_hand_than_it_may_have_now_goes_on_with_all_of_it(pace: Pace) -> None:
    scene = Scene(pace)
    scene.put(0, 0, 0, 0)
    assert len(scene.timeline.lease("jobs", "worker", limit=3)) == 3
    handled: list[str] = []

    async def handle(message: LeasedMessage) -> None:
        for _step in range(20):
            await asyncio.sleep(0)
        handled.append(message.id)

    scene.run(scene.consumer(handle, concurrency=1))
    assert sorted(handled) == ["m0", "m1", "m2", "m3"]


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
@pytest.mark.parametrize("is_plain", [True, False])
def test_a_handler_that_panics_gives_its_message_back_and_ends_no_other(
    pace: Pace, kind: type[BaseException], is_plain: bool
) -> None:
    scene = Scene(pace)
    scene.put(0, 0)
    handled: list[str] = []

    def handle(message: LeasedMessage) -> None:
        handled.append(message.id)
        if message.id == "m0" and message.attempts == 1:
            raise kind("a panic")

    async def handle_async(message: LeasedMessage) -> None:
        handle(message)

    consumer = scene.consumer(handle if is_plain else handle_async)
    scene.run(consumer)
    assert sorted(handled) == ["m0", "m0", "m1"]
    assert consumer.outcomes == {"done": 2, "released": 1}


def test_an_error_of_a_handler_that_has_no_text_stops_no_other_message(pace: Pace) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    scene = Scene(pace)
    scene.put(0, 0)

    def handle(message: LeasedMessage) -> None:
        if message.id == "m0" and message.attempts == 1:
            raise Mute

    consumer = scene.consumer(handle)
    scene.run(consumer)
    assert consumer.outcomes == {"done": 2, "released": 1}


def test_a_handler_whose_lease_was_lost_is_cancelled(pace: Pace) -> None:
    scene = Scene(pace)
    scene.put(0)
    ends: list[str] = []

    async def handle(message: LeasedMessage) -> None:
        try:
            if message.attempts == 1:
                pace.clock.us += 120_000_000  # the process slept for longer than the lease
                assert scene.timeline.lease("jobs", "another", duration=timedelta(seconds=1))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            if message.attempts == 1:
                await asyncio.Event().wait()
            ends.append("done")
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    consumer = scene.consumer(handle)
    scene.run(consumer)
    assert ends == ["cancelled", "done"]
    assert consumer.outcomes == {"lost": 1, "done": 1}


class Forgetful(Timeline):
    """Its store does not answer the first time that something is given back."""

    failures = 1

    def release(self, *args: Any, **options: Any) -> list[Outcome]:
        self.failures -= 1
        if self.failures >= 0:
            raise StoreUnavailable("it does not answer")
        return super().release(*args, **options)


def test_what_the_store_was_told_is_not_told_again_when_it_fails_to_answer_for_the_rest(pace: Pace) -> None:
    scene = Scene(pace)
    scene.timeline = Forgetful(scene.store, clock=pace.clock)
    scene.put(0, 0)
    told: list[str] = []

    def finish(finished: Sequence[tuple[LeasedMessage, Lease]]) -> list[Outcome]:
        told.extend(message.id for message, _ in finished)
        return scene.timeline.done([lease for _, lease in finished])

    async def handle(message: LeasedMessage) -> Later | None:
        return Later(timedelta(seconds=5), "later") if message.id == "m1" and message.attempts == 1 else None

    consumer = scene.consumer(handle, finish=finish)
    scene.run(consumer)
    assert told == ["m0", "m1"]
    assert consumer.outcomes == {"done": 2, "released": 1}


def test_a_clock_is_compared_with_those_of_others_before_anything_is_leased_by_it(pace: Pace) -> None:
    scene = Scene(pace)
    scene.put(0)
    others_are_behind(scene)

    async def begin() -> float:
        services = Services(scene.store, beat=Beat(scene.timeline, "worker"), wait=pace.wait)
        consumer = scene.consumer(lambda _: None, services=services)
        return await consumer._patiently(consumer._resume)

    assert asyncio.run(begin()) > 0
    assert scene.timeline.consumers("jobs") == []


def test_a_consumer_is_seen_at_once_when_its_clock_and_that_of_its_store_are_set_back(pace: Pace) -> None:
    """As on SQLite. Else it would count as gone for as long as the clock was set back by."""
    scene = Scene(pace)
    scene.put(*[0] * 10)
    consumer = scene.consumer(lambda _: None)

    async def set_back() -> None:
        await pace.until(lambda: consumer.outcomes["done"] == 10)
        pace.clock.us -= 3_600_000_000
        at_ms = pace.clock.us // 1_000
        await pace.until(lambda: pace.clock.us // 1_000 > at_ms + 10_000)
        (row,) = scene.timeline.consumers("jobs")
        assert at_ms <= row.seen_ms <= at_ms + 10_000
        assert row.messages_per_second <= 10, "the best speed is kept for good"
        consumer.stop()

    scene.run(consumer, set_back)


def others_are_behind(scene: Scene) -> None:
    """Brokers on three other hosts, an hour behind, were there just now: they outvote a database without a clock."""

    def note(rows: Rows) -> None:
        for host in ("a", "b", "c"):
            rows.write_broker(BrokerRow(broker_row_name("other", host), scene.pace.begin_us // 1_000, -3_600_000))

    scene.store.transact(note)


def test_what_consumers_show_they_can_take_is_known_to_the_load(pace: Pace) -> None:
    scene = Scene(pace)
    scene.put(*[second / 10 for second in range(300)])
    seen: list[float | None] = []

    async def handle(message: LeasedMessage) -> None:
        if message.id == "m299":
            now_ms = scene.timeline.now_ms()
            seen.append(scene.timeline.load("jobs", to=now_ms + 60_000, bins=1).messages_per_second)

    scene.run(scene.consumer(handle))
    assert seen[0] == pytest.approx(10, rel=0.1)


def test_bad_arguments_are_refused_by_name(pace: Pace) -> None:
    scene = Scene(pace)
    for concurrency in (0, -1, 10_001, True, "3"):
        with pytest.raises(InvalidCount, match="concurrency"):
            scene.consumer(print, concurrency=concurrency)
    with pytest.raises(InvalidName):
        scene.consumer(print, consumer="a\nb")
    with pytest.raises(InvalidRules, match="leases for at most"):
        scene.consumer(print, lease=timedelta(hours=13))
    with pytest.raises(UnknownTopic):
        Consumer(scene.timeline, "nowhere", print)
