"""The benchmark of the dispatcher measures what it says: all operations arrive, all shares are drawn."""

import asyncio

import pytest

from batchline.leases.opening import open_leases
from tests.benchmarks.dispatcher_leases import turns
from tests.benchmarks.dispatcher_rate import Row
from tests.benchmarks.dispatcher_throughput import (
    THREAD_WAYS,
    WAYS,
    Run,
    Workload,
    drain_queue,
    drain_thread_queue,
)

RUNS = [*(way.dispatch for way in (*WAYS, *THREAD_WAYS)), drain_queue, drain_thread_queue]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("made", [True, False])
@pytest.mark.parametrize("producers", [1, 4])
def test_every_way_hands_out_every_operation(run: Run, made: bool, producers: int) -> None:
    shares = Workload(12_000, producers, made).shares()
    assert asyncio.run(run(shares)) == 12_000


def test_the_bound_of_a_row_is_a_second_one_operation_and_one_slice() -> None:
    assert Row(20_000, 1_500, 100).bound == 20_200 + 1_500 + 2_000
    assert Row(5, 1, 100).bound == pytest.approx(5.05 + 1 + 0.5)


def test_rows_whose_operations_are_dear_take_longer() -> None:
    assert Row(20_000, 10, 1).seconds(1) * 2 == Row(20_000, 3_000, 1).seconds(1) == Row(5, 1, 100).seconds(1)


def test_turns_leave_nothing_leased() -> None:
    with open_leases("memory://", "bench") as manager:
        manager.provision(10, "bench", 0)
        done, seconds = turns(manager, 10, 0.01)
        assert done > 0
        assert seconds >= 0.01
        assert manager.holders(0) == {}
