"""One pump for all who wait on a topic, in virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from batchline import LeasedMessage, NewMessage, Timeline, open_store
from batchline.errors import Degraded, InvalidInput, StoreUnavailable, TopicDeleted, Unauthorized
from batchline.runtime.clock import now_us
from batchline.runtime.virtual_time import run_virtually, virtual_seconds, virtual_wall_us
from batchline.service.pump import Pump, Pumps
from batchline.service.waiting import LOOK_S, Line, Waiter, Wanted, rest_s

THREADS = ThreadPoolExecutor(1)  # in virtual time, what is for a thread is done at once


class Counted(Timeline):
    """A timeline that counts how it is asked, and whose store may be away."""

    looks = leases = 0
    away: Exception | None = None
    #: Called when it was looked what is due, and when messages were leased, before who wants them knows.
    on_look: Callable[[], object] = staticmethod(lambda: None)
    on_lease: Callable[[], object] = staticmethod(lambda: None)

    def next_due(self, topic: str, consumer: str | None = None) -> int | None:
        self.looks += 1
        if self.away is not None:
            raise self.away
        found = super().next_due(topic, consumer)
        self.on_look()
        return found

    def lease(self, *arguments: Any, **options: Any) -> list[LeasedMessage]:
        self.leases += 1
        found = super().lease(*arguments, **options)
        self.on_lease()
        return found


class Scene:
    def __init__(self, clock: Callable[[], int] = virtual_wall_us) -> None:
        self.timeline = Counted(open_store("memory://"), clock=clock)
        self.timeline.create_topic("jobs", lease=timedelta(minutes=1))
        self.pump = Pump(self.timeline, "jobs", THREADS)

    def put(self, *ids: str, after_s: float = 0) -> None:
        at = self.timeline.now_ms() + round(after_s * 1_000)
        self.timeline.create("jobs", [NewMessage(id=id, at=at) for id in ids], producer_group="p")

    async def lease(self, consumer: str, limit: int = 1, within_s: float | None = None, **options: Any) -> list[str]:
        wanted = Wanted(consumer, lambda: limit, **options)
        return [message.id for message in await self.pump.lease(wanted, within_s)]


def play(story: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    async def begin() -> None:
        await story(Scene())

    run_virtually(begin(), inline=True)


def test_it_rests_until_the_next_is_due_but_never_for_longer_than_a_look() -> None:
    assert rest_s(None, 5_000) == LOOK_S
    assert rest_s(5_004, 5_000) == 0.004
    assert rest_s(9_000, 5_000) == LOOK_S
    assert rest_s(4_000, 5_000) == 0


def test_who_came_first_is_first_and_who_was_served_stands_at_the_end() -> None:
    async def stand() -> None:
        line, future = Line(), asyncio.get_running_loop().create_future
        one, two = (Waiter(Wanted(name, lambda: 1), future()) for name in ("one", "two"))
        line.enter(one)
        line.enter(two)
        assert line.first() is one
        line.enter(one)
        assert line.first() is two
        line.leave(two)
        line.leave(two)
        assert line.clear() == [one]
        assert line.first() is None

    run_virtually(stand())


def test_a_message_is_handed_over_at_its_moment_and_never_before() -> None:
    async def story(scene: Scene) -> None:
        for after_s in (0.0004, 0.0333, 1.0, 7.7777):
            begin, due_ms = virtual_seconds(), scene.timeline.now_ms() + round(after_s * 1_000)
            scene.put(f"m{after_s}", after_s=after_s)
            assert await scene.lease("c") == [f"m{after_s}"]
            assert due_ms <= scene.timeline.now_ms()
            assert virtual_seconds() - begin <= after_s + 0.020

    play(story)


def test_those_who_wait_are_served_in_turn() -> None:
    async def story(scene: Scene) -> None:
        served: list[str] = []

        async def wait(consumer: str) -> None:
            for _ in range(3):
                await scene.lease(consumer)
                served.append(consumer)

        waiting = asyncio.gather(*(wait(consumer) for consumer in "abc"))
        await asyncio.sleep(1)
        scene.put(*(f"m{number}" for number in range(9)))
        await waiting
        assert served == [*"abc"] * 3

    play(story)


def test_an_idle_topic_costs_the_same_however_many_wait_and_nothing_when_nobody_does() -> None:
    async def story(scene: Scene) -> None:
        waiting = [asyncio.ensure_future(scene.lease(f"c{number}", within_s=10)) for number in range(500)]
        assert await asyncio.gather(*waiting) == [[]] * 500
        assert scene.timeline.looks <= 10 / LOOK_S + 501  # each has woken it once
        assert scene.timeline.leases == 0
        looks = scene.timeline.looks
        await asyncio.sleep(3600)
        assert scene.timeline.looks <= looks + 1
        assert scene.pump.is_idle

    play(story)


def test_a_message_of_this_process_wakes_it() -> None:
    async def story(scene: Scene) -> None:
        pumps = Pumps(scene.timeline, THREADS)
        waiting = asyncio.ensure_future(pumps.of("jobs").lease(Wanted("c", lambda: 1)))
        await asyncio.sleep(LOOK_S * 10.5)
        begin = virtual_seconds()
        scene.put("m")
        pumps.wake("jobs")
        pumps.wake("nobody waits here")
        (message,) = await waiting
        assert message.id == "m"
        assert virtual_seconds() - begin < 0.001

    play(story)


def test_what_was_leased_for_who_went_meanwhile_is_given_back_at_once() -> None:
    async def story(scene: Scene) -> None:
        waiting = asyncio.ensure_future(scene.lease("gone"))
        await asyncio.sleep(1)
        scene.timeline.on_lease = waiting.cancel
        scene.put("m")
        with pytest.raises(asyncio.CancelledError):
            await waiting
        scene.timeline.on_lease = lambda: None
        begin = virtual_seconds()
        assert await scene.lease("other") == ["m"]
        assert virtual_seconds() - begin < 0.020
        assert scene.timeline.my_leases("gone") == []

    play(story)


def test_nothing_is_leased_for_a_waiter_whose_token_has_ended_and_the_next_is_served() -> None:
    async def story(scene: Scene) -> None:
        async def refuse() -> None:
            raise Unauthorized("ended")

        refused = asyncio.ensure_future(scene.lease("refused", check=refuse))
        await asyncio.sleep(0)
        served = asyncio.ensure_future(scene.lease("served"))
        await asyncio.sleep(1)
        scene.put("m")
        assert await served == ["m"]
        with pytest.raises(Unauthorized):
            await refused
        assert scene.timeline.leases == 1

    play(story)


def test_what_was_leased_as_the_token_of_its_waiter_ended_goes_to_the_next() -> None:
    async def story(scene: Scene) -> None:
        has_ended = False

        def end() -> None:
            nonlocal has_ended
            has_ended = True

        async def check() -> None:
            if has_ended:
                raise Unauthorized("ended")

        refused = asyncio.ensure_future(scene.lease("refused", check=check))
        await asyncio.sleep(0)
        served = asyncio.ensure_future(scene.lease("served"))
        await asyncio.sleep(1)
        scene.timeline.on_lease = end
        scene.put("m")
        assert await served == ["m"]
        with pytest.raises(Unauthorized):
            await refused

    play(story)


def test_a_waiter_is_not_lost_while_its_token_cannot_be_looked_at() -> None:
    async def story(scene: Scene) -> None:
        looks = iter([StoreUnavailable("away")] * 2)

        async def check() -> None:
            if error := next(looks, None):
                raise error

        waiting = asyncio.ensure_future(scene.lease("c", check=check))
        await asyncio.sleep(1)
        scene.put("m")
        assert await waiting == ["m"]
        assert scene.timeline.leases == 1

    play(story)


def test_what_was_given_to_who_is_cancelled_before_it_knows_is_given_back() -> None:
    async def story(scene: Scene) -> None:
        waiting = asyncio.ensure_future(scene.lease("gone"))
        await asyncio.sleep(1)
        waiter = scene.pump._line.first()
        assert waiter is not None
        waiter.answer.add_done_callback(lambda _: waiting.cancel())
        scene.put("m")
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await scene.lease("other") == ["m"]

    play(story)


def test_who_has_waited_long_enough_gets_none_and_loses_none() -> None:
    async def story(scene: Scene) -> None:
        begin = virtual_seconds()
        assert await scene.lease("c", within_s=2) == []
        assert virtual_seconds() - begin == pytest.approx(2, abs=0.001)
        scene.put("m")
        assert await scene.lease("d") == ["m"]

    play(story)


def test_nothing_is_leased_for_who_goes_while_it_is_looked_what_is_due() -> None:
    async def story() -> None:
        scene, loop = Scene(now_us), asyncio.get_running_loop()
        scene.put("m")
        gone = asyncio.ensure_future(scene.lease("gone"))
        scene.timeline.on_look = lambda: loop.call_soon_threadsafe(gone.cancel)
        await asyncio.wait([gone])
        async with asyncio.timeout(20):
            while not scene.pump.is_idle:
                await asyncio.sleep(0.001)
        assert (scene.timeline.looks, scene.timeline.leases) == (1, 0)

    asyncio.run(story())  # in real threads: it is gone before they have answered


@pytest.mark.parametrize("error", [StoreUnavailable("away"), Degraded("off")])
def test_those_who_wait_go_on_waiting_while_the_store_is_away_and_it_is_not_asked_all_the_time(
    error: Exception,
) -> None:
    async def story(scene: Scene) -> None:
        scene.put("m")
        scene.timeline.away = error
        waiting = [asyncio.ensure_future(scene.lease(f"c{number}")) for number in range(50)]
        await asyncio.sleep(60)
        assert scene.timeline.looks < 70
        scene.timeline.away = None
        done, others = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=5)
        assert [task.result() for task in done] == [["m"]]
        for task in others:
            task.cancel()
        await asyncio.wait(others)

    play(story)


def test_all_are_told_that_the_topic_is_deleted() -> None:
    async def story(scene: Scene) -> None:
        waiting = [asyncio.ensure_future(scene.lease(f"c{number}")) for number in range(3)]
        await asyncio.sleep(1)
        scene.put("m", after_s=3600)
        scene.timeline.delete_topic("jobs")
        for answer in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(answer, TopicDeleted)

    play(story)


def test_what_is_wrong_with_one_is_told_to_that_one_alone() -> None:
    async def story(scene: Scene) -> None:
        wrong = asyncio.ensure_future(scene.lease("wrong", buckets=range(5_000)))
        right = asyncio.ensure_future(scene.lease("right"))
        scene.put("m")
        with pytest.raises(InvalidInput, match="buckets"):
            await wrong
        assert await right == ["m"]

    play(story)


def test_who_waits_in_other_buckets_does_not_stand_in_the_way() -> None:
    async def story(scene: Scene) -> None:
        others = [asyncio.ensure_future(scene.lease(f"o{number}", buckets=range(0))) for number in range(40)]
        await asyncio.sleep(1)
        right = asyncio.ensure_future(scene.lease("right"))
        scene.put("m")
        assert await asyncio.wait_for(right, 1) == ["m"]
        for other in others:
            other.cancel()
        await asyncio.wait(others)

    play(story)


def test_at_the_end_of_a_process_all_may_go() -> None:
    async def story(scene: Scene) -> None:
        pumps = Pumps(scene.timeline, THREADS)
        waiting = [asyncio.ensure_future(pumps.of("jobs").lease(Wanted("c", lambda: 1))) for _ in range(3)]
        await asyncio.sleep(1)
        pumps.dismiss()
        assert await asyncio.gather(*waiting) == [[]] * 3

    play(story)
