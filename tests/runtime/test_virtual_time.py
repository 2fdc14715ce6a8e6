"""Virtual time: it passes when everybody waits, and only then."""

import asyncio
import math
import threading

import pytest

from batchline.runtime.clock import elapsed_seconds, wait_for
from batchline.runtime.virtual_time import BEGIN_US, run_virtually, virtual_seconds, virtual_wall_us


def test_a_day_passes_at_once_and_in_order() -> None:
    async def story() -> list[tuple[str, float]]:
        ended: list[tuple[str, float]] = []

        async def wait(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            ended.append((name, round(virtual_seconds(), 6)))

        await asyncio.gather(wait("a day", 86_400), wait("a second", 1), wait("a millisecond", 0.001))
        return ended

    began = elapsed_seconds()
    assert run_virtually(story()) == [("a millisecond", 0.001), ("a second", 1), ("a day", 86_400)]
    assert elapsed_seconds() - began < 60


def test_the_wall_clock_goes_with_it() -> None:
    async def story() -> tuple[int, int]:
        before = virtual_wall_us()
        await asyncio.sleep(1.5)
        return before, virtual_wall_us()

    assert run_virtually(story()) == (BEGIN_US, BEGIN_US + 1_500_000)


def test_who_waits_for_its_own_clock_is_never_woken_early() -> None:
    async def story() -> None:
        for _ in range(1_000):
            due = virtual_seconds() + 0.1
            await asyncio.sleep(due - virtual_seconds())
            assert virtual_seconds() >= due

    run_virtually(story())


@pytest.mark.parametrize("at_s", [0.0, 0.3, 2.6, 1e5])
def test_who_waits_for_the_very_next_moment_there_is_comes_to_it(at_s: float) -> None:
    async def story() -> int:
        await asyncio.sleep(at_s)
        due, waits = math.nextafter(virtual_seconds(), math.inf), 0
        while virtual_seconds() < due and waits < 1_000:
            await asyncio.sleep(due - virtual_seconds())
            waits += 1
        return waits

    assert run_virtually(story()) == 1


def test_time_stands_still_while_a_thread_is_at_work() -> None:
    async def story() -> float:
        go = threading.Event()
        asyncio.get_running_loop().call_later(3_600, go.set)
        assert not await asyncio.to_thread(go.wait, 0.2)
        return virtual_seconds()

    assert run_virtually(story()) < 1


def test_inline_what_is_for_a_thread_is_done_at_once_in_the_same_one() -> None:
    async def story() -> tuple[int, float]:
        return await asyncio.to_thread(threading.get_ident), virtual_seconds()

    assert run_virtually(story(), inline=True) == (threading.get_ident(), 0.0)


@pytest.mark.parametrize("inline", [False, True])
def test_what_a_thread_raises_is_raised_to_who_waits_for_it(inline: bool) -> None:
    def work() -> None:
        raise ValueError("no")

    async def story() -> None:
        with pytest.raises(ValueError, match="no"):
            await asyncio.to_thread(work)

    run_virtually(story(), inline=inline)


def test_a_signal_ends_a_wait_before_its_time() -> None:
    async def story() -> float:
        signal = asyncio.Event()
        asyncio.get_running_loop().call_later(2, signal.set)
        await wait_for(signal, 10)
        await wait_for(signal, 10)
        return virtual_seconds()

    assert run_virtually(story()) == pytest.approx(2)


@pytest.mark.parametrize("turns", range(4))
def test_who_is_cancelled_when_the_signal_is_given_is_cancelled_or_has_ended(turns: int) -> None:
    async def story() -> None:
        signal = asyncio.Event()
        waiting = asyncio.ensure_future(wait_for(signal, 10))
        await asyncio.sleep(1)
        signal.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        accepted = waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled() is accepted

    run_virtually(story())


def test_an_exception_of_the_story_comes_out() -> None:
    async def story() -> None:
        await asyncio.sleep(5)
        raise LookupError("here")

    with pytest.raises(LookupError, match="here"):
        run_virtually(story())
