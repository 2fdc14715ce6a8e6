"""A consumer over the network: the same promises as one on a timeline."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from batchline import Consumer, Later, LeasedMessage, NewMessage, RetryRules, Timeline, open_store
from batchline.client import Client
from batchline.client.connection import Connection
from batchline.core.message import moment_ms
from batchline.errors import ConsumerReplaced, InvalidInput, TopicDeleted, Unauthorized, UnknownTopic
from batchline.runtime.intake import Pushing
from batchline.runtime.polling import Polling
from tests.doubles import HandClock, leases_of_all_sessions, new_id
from tests.service.serving import Place, placed

PATIENCE_S = 20
SOON = RetryRules(first=timedelta(milliseconds=5), factor=1, longest=timedelta(milliseconds=5), jitter=0)


@pytest.fixture
def topic(timeline: Timeline) -> str:
    return timeline.create_topic(new_id(), lease=timedelta(seconds=30)).name


def put(timeline: Timeline, topic: str, count: int) -> None:
    messages = [NewMessage(id=f"m{number}", body=b"%d" % number) for number in range(count)]
    timeline.create(topic, messages, producer_group="p")


async def until(wanted: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not wanted():
            await asyncio.sleep(0.005)


def run(consumer: Consumer, beside: Callable[[], Awaitable[None]]) -> None:
    """Run a consumer until what is beside it has come to its end."""

    async def both() -> None:
        running = asyncio.ensure_future(consumer.run())
        try:
            await beside()
        finally:
            consumer.stop()
            await asyncio.wait_for(running, PATIENCE_S)

    asyncio.run(both())


def consumer_of(place: Pushing, topic: str, handler: Any, **options: Any) -> Consumer:
    usual: dict[str, Any] = {"consumer": "worker", "retry": SOON}
    return Consumer(place, topic, handler, **(usual | options))


def test_every_message_is_handled_once_and_no_more_than_so_many_at_once(
    place: Place, timeline: Timeline, topic: str
) -> None:
    put(timeline, topic, 60)
    handled: Counter[bytes] = Counter()
    now = most = 0

    async def handle(message: LeasedMessage) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.002)
        handled[message.body] += 1
        now -= 1

    consumer = consumer_of(place, topic, handle, concurrency=4)
    run(consumer, lambda: until(lambda: timeline.count(topic).total == 0))
    assert handled == {b"%d" % number: 1 for number in range(60)}
    assert most == 4
    assert consumer.outcomes == {"done": 60}
    assert timeline.consumers(topic) == []


def test_what_fails_comes_again_and_what_is_for_later_later(place: Place, timeline: Timeline, topic: str) -> None:
    put(timeline, topic, 2)

    def handle(message: LeasedMessage) -> Later | None:
        if message.attempts < 3 and message.id == "m0":
            raise RuntimeError("not yet")
        return Later(timedelta(milliseconds=5), "not now") if message.attempts == 1 else None

    consumer = consumer_of(place, topic, handle)
    run(consumer, lambda: until(lambda: timeline.count(topic).total == 0))
    assert consumer.outcomes == {"released": 3, "done": 2}


def test_later_goes_by_the_clock_of_the_service_even_if_that_of_the_consumer_jumps() -> None:
    brokers, ours, seven = HandClock(), HandClock(), timedelta(minutes=7)
    with open_store("memory://") as store, placed(store, clock=brokers) as place:
        assert place.service is not None
        timeline = place.service.parts.timeline
        topic = timeline.create_topic("jobs").name
        put(timeline, topic, 2)

        async def handle(message: LeasedMessage) -> Later | None:
            ours.us += 3_600_000_000
            if message.id == "m0":
                raise RuntimeError("not yet")
            return Later(seven, "not now")

        retry = RetryRules(first=seven, factor=1, longest=seven, jitter=0)
        with Client(place.url, clock=ours) as client:
            consumer = consumer_of(client, topic, handle, retry=retry)
            run(consumer, lambda: until(lambda: timeline.count(topic).waiting == 2))
        assert consumer.outcomes == {"released": 2}
        for id in ("m0", "m1"):
            assert timeline.read(topic, id, producer_group="p").at == moment_ms(timeline.now_ms() + 1) + seven


def test_a_consumer_whose_clock_jumps_knows_when_its_leases_end(place: Place, timeline: Timeline, topic: str) -> None:
    """Else one whose clock jumps ahead extends its leases all the time, and one whose clock goes back loses them."""

    async def look(client: Client, ours: HandClock) -> None:
        push = client.subscription(topic, "worker", prefetch=0, duration=None)
        await push.resume()
        for hours in (1, -2):
            ours.us += hours * 3_600_000_000
            assert abs(push.now_ms() - timeline.now_ms()) < 60_000
        await push.leave()

    ours = HandClock()
    with Client(place.url, clock=ours) as client:
        asyncio.run(look(client, ours))


def test_leases_are_extended_while_handlers_work(place: Place, timeline: Timeline, topic: str) -> None:
    put(timeline, topic, 1)
    attempts: list[int] = []
    ends: set[int] = set()

    def extended_twice() -> bool:
        ends.update(message.lease.until_ms for message in leases_of_all_sessions(timeline, "worker", topic))
        return len(ends) == 3

    async def handle(message: LeasedMessage) -> None:
        attempts.append(message.attempts)
        await until(extended_twice)

    consumer = consumer_of(place, topic, handle, lease=timedelta(seconds=1))
    run(consumer, lambda: until(lambda: timeline.count(topic).total == 0))
    assert attempts == [1]
    assert consumer.outcomes == {"done": 1}


def test_it_goes_on_with_what_it_had_and_gives_back_what_does_not_end_in_time(
    place: Place, timeline: Timeline, topic: str
) -> None:
    put(timeline, topic, 5)
    held = {message.id for message in timeline.lease(topic, "worker", limit=2)}
    begun: list[tuple[str, int]] = []

    async def handle(message: LeasedMessage) -> None:
        begun.append((message.id, message.attempts))
        await asyncio.Event().wait()

    consumer = consumer_of(place, topic, handle, concurrency=3, drain=timedelta(milliseconds=20))
    run(consumer, lambda: until(lambda: len(begun) == 3))
    assert held == {id for id, attempts in begun if attempts == 2}, "a lease taken over is another attempt"
    assert consumer.outcomes == {"released": 3}
    assert timeline.my_leases("worker", topic=topic) == []
    assert timeline.count(topic).available == 5


def test_a_handler_outlives_its_connection_and_its_message_is_done_by_the_lease_it_has(
    place: Place, timeline: Timeline, topic: str
) -> None:
    put(timeline, topic, 3)
    begun: list[str] = []
    go_on = asyncio.Event()

    async def handle(message: LeasedMessage) -> None:
        begun.append(message.id)
        await go_on.wait()

    consumer = consumer_of(place, topic, handle, concurrency=2)

    async def cut() -> None:
        await until(lambda: len(begun) == 2)
        for _ in range(3):
            consumer._intake.abort()
            await asyncio.sleep(0.05)
        go_on.set()
        await until(lambda: timeline.count(topic).total == 0)

    run(consumer, cut)
    assert sorted(begun) == ["m0", "m1", "m2"]
    assert consumer.outcomes == {"done": 3}


def test_a_service_that_comes_again_is_found_again() -> None:
    handled: list[str] = []

    async def handle(message: LeasedMessage) -> None:
        handled.append(message.id)

    with open_store("memory://") as store:
        timeline = Timeline(store)
        timeline.create_topic("jobs")
        with placed(store) as place:
            listen = place.url.removeprefix("http://")
        consumer = consumer_of(Place(place.url), "jobs", handle)

        async def restart() -> None:
            for number in range(2):
                timeline.create("jobs", [NewMessage(id=f"m{number}")], producer_group="p")
                with ExitStack() as stack:
                    await asyncio.to_thread(stack.enter_context, placed(store, listen))
                    await until(lambda: timeline.count("jobs").total == 0)
                    await asyncio.to_thread(stack.close)

        run(consumer, restart)
        assert handled == ["m0", "m1"]


def test_what_no_new_connection_would_mend_ends_it(place: Place, timeline: Timeline, topic: str) -> None:
    with pytest.raises(UnknownTopic):
        asyncio.run(consumer_of(place, "nowhere", print).run())
    consumer = consumer_of(place, topic, print)

    async def delete() -> None:
        await until(lambda: bool(timeline.consumers(topic)))
        timeline.create(topic, [NewMessage(at=timeline.now_ms() + 3_600_000)], producer_group="p")
        timeline.delete_topic(topic)

    async def both() -> None:
        await asyncio.wait_for(asyncio.gather(consumer.run(), delete()), PATIENCE_S)

    with pytest.raises(TopicDeleted):
        asyncio.run(both())


def test_an_older_consumer_of_the_same_name_ends_with_an_error(place: Place, timeline: Timeline, topic: str) -> None:
    async def both() -> None:
        first, second = (consumer_of(place, topic, print) for _ in range(2))
        older = asyncio.ensure_future(first.run())
        await until(lambda: bool(timeline.consumers(topic)))
        newer = asyncio.ensure_future(second.run())
        with pytest.raises(ConsumerReplaced, match="was started again by another process"):
            await asyncio.wait_for(older, PATIENCE_S)
        second.stop()
        await asyncio.wait_for(newer, PATIENCE_S)

    asyncio.run(both())


def test_messages_that_share_an_id_are_each_handled_and_done(place: Place, timeline: Timeline, topic: str) -> None:
    """A dead-letter topic may hold several messages of one id: the second is not the first, pushed again."""
    dead = timeline.create_topic(new_id(), lease=timedelta(seconds=30)).name
    timeline.update_topic(topic, max_attempts=1, dead_letter=dead)
    handled: list[bytes] = []

    async def handle(message: LeasedMessage) -> None:
        handled.append(message.body)
        await until(partial(has_handled, 3))

    def has_handled(count: int) -> bool:
        return len(handled) == count

    async def bury_three() -> None:
        for number in range(3):
            await until(partial(has_handled, number))
            timeline.create(topic, [NewMessage(b"%d" % number, id="same")], producer_group="p")
            timeline.release(timeline.lease(topic, "w"))
            assert timeline.lease(topic, "w") == []
        await until(lambda: timeline.count(dead).total == 0)

    consumer = consumer_of(place, dead, handle, concurrency=3)
    run(consumer, bury_three)
    assert handled == [b"0", b"1", b"2"]
    assert consumer.outcomes == {"done": 3}


def test_a_message_created_under_the_id_of_one_in_hand_is_not_finished_in_its_place() -> None:
    brokers = HandClock()
    handled: list[bytes] = []
    is_created, is_over = asyncio.Event(), asyncio.Event()
    with open_store("memory://") as store, placed(store, clock=brokers) as place:
        assert place.service is not None
        timeline = place.service.parts.timeline
        topic = timeline.create_topic("jobs").name
        timeline.create(topic, [NewMessage(b"old", id="a")], producer_group="p")

        async def handle(message: LeasedMessage) -> None:
            handled.append(message.body)
            await (is_created if message.body == b"old" else is_over).wait()

        async def replace_message() -> None:
            await until(lambda: handled == [b"old"])
            brokers.us += 3_600_000_000  # its lease has ended
            assert timeline.cancel(topic, ["a"], producer_group="p")[0].ok
            assert timeline.create(topic, [NewMessage(b"new", id="a")], producer_group="p")[0].outcome == "created"
            await until(lambda: timeline.count(topic).processing == 1)
            is_created.set()
            await until(lambda: handled == [b"old", b"new"] and consumer.in_hand == 1)
            assert timeline.count(topic).processing == 1, "the end of the old handler is not that of the new message"
            is_over.set()
            await until(lambda: timeline.count(topic).total == 0)

        consumer = consumer_of(place, topic, handle)
        run(consumer, replace_message)


def test_a_wrong_token_ends_it_and_is_not_shown() -> None:
    with open_store("memory://") as store, placed(store) as place:
        assert place.service is not None
        place.service.parts.tokens.create(admin=True)
        wrong = Place(place.url, "bl_0123_secret")
        with pytest.raises(Unauthorized) as caught:
            asyncio.run(consumer_of(wrong, "jobs", print).run())
        assert "secret" not in str(caught.value)


def test_a_client_is_all_that_a_consumer_needs(place: Place, timeline: Timeline, topic: str) -> None:
    with Client(place.url) as client:
        client.create(topic, [NewMessage(id="m")], producer_group="p")
        consumer = Consumer(client, topic, lambda _: None, consumer="worker")
        run(consumer, lambda: until(lambda: timeline.count(topic).total == 0))
    assert consumer.outcomes == {"done": 1}


def test_both_ways_to_messages_are_intakes_and_nothing_else_is(place: Place, timeline: Timeline, topic: str) -> None:
    polling = Polling(timeline, topic, "c", lease=None, look_every=timedelta(seconds=1))
    pushing = place.subscription(topic, "c", prefetch=1, duration=None)
    assert isinstance(place, Pushing)
    assert polling.lease_ms == 30_000
    assert pushing.lease_ms == 0
    with pytest.raises(InvalidInput, match="Timeline or a Client"):
        Consumer(object(), topic, print)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="finish"):
        Consumer(place, topic, print, finish=lambda _: [])


def test_an_error_of_ours_in_a_connection_is_logged_and_the_consumer_connects_again(
    place: Place, timeline: Timeline, topic: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled: Counter[str] = Counter()
    read, failures = Connection._heard, iter([1, 2])

    def heard(self: Connection, *arguments: Any) -> None:
        if next(failures, None):
            raise ZeroDivisionError
        read(self, *arguments)

    async def handle(message: LeasedMessage) -> None:
        handled[message.id] += 1

    async def story() -> None:
        await asyncio.sleep(0)
        put(timeline, topic, 3)
        await until(lambda: bool(consumer.troubles()))
        assert [(one.loop, one.error) for one in consumer.troubles()] == [("consume", "ZeroDivisionError")]
        await until(lambda: len(handled) == 3 and not consumer.troubles())

    monkeypatch.setattr(Connection, "_heard", heard)
    consumer = consumer_of(place, topic, handle)
    run(consumer, story)
    assert f"loop consume ({topic}) failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text
    assert consumer.supervisor.failures()["consume"] >= 2
