"""The naive limiter has the faults that it is there to show."""

import asyncio

import pytest

from batchline.runtime.virtual_time import run_virtually, virtual_seconds
from tests.benchmarks.dispatcher_handouts import mean_rate
from tests.benchmarks.dispatcher_naive import Naive
from tests.benchmarks.dispatcher_producer import meanwhile


async def sent(capacity: float, cost: float, by_hand_s: float | None = None, seconds: float = 10.0) -> float:
    """The mean rate of some seconds, as a part of the capacity."""
    handouts: list[tuple[float, float]] = []
    naive = Naive(capacity, cost, 0.1, lambda cost: handouts.append((virtual_seconds(), cost)), clock=virtual_seconds)

    async def ask() -> None:
        while by_hand_s is not None:
            await asyncio.sleep(by_hand_s)
            naive.flush()

    with meanwhile(naive.run(), ask()):
        await asyncio.sleep(seconds)
    return mean_rate(handouts) / capacity


def test_it_holds_the_rate_when_slices_are_whole_and_costs_divide_them() -> None:
    assert run_virtually(sent(20_000, 10)) == pytest.approx(1)


def test_it_sends_too_much_when_costs_do_not_divide_a_slice() -> None:
    assert run_virtually(sent(20_000, 1_500)) == pytest.approx(1.5)


def test_it_sends_a_slice_more_whenever_it_is_flushed_by_hand() -> None:
    assert run_virtually(sent(20_000, 10, by_hand_s=0.025)) == pytest.approx(5, rel=0.02)


def test_it_sends_nothing_when_a_slice_is_less_than_one_and_loses_what_is_beyond() -> None:
    assert run_virtually(sent(5, 1)) == 0
    assert run_virtually(sent(19, 1)) == pytest.approx(10 / 19)
