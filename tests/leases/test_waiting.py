"""Who had to wait for a lock neither keeps what ran out meanwhile, nor loses the time it waited."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.leases.keeping import SHORT_MS, Keeper, Leases, wait_until
from tests.stores.observing import beside

pytestmark = pytest.mark.parametrize("kind", ["postgresql", "mysql"])


def while_locked(leases: Leases, keeper: Keeper, call: Callable[[], list[int]], wait_ms: int) -> list[int]:
    """What a call answers that has to wait for so long."""
    with beside(keeper.address) as observer, beside(keeper.address) as locker, ThreadPoolExecutor(1) as threads:
        with locker.holding("batchline_partitions", f"resource = '{keeper.resource}'"):
            answer = threads.submit(call)
            observer.wait_for_waiting(1)
            leases.clock.wait(wait_ms)
        return answer.result(30)


def test_what_ran_out_while_a_renewal_waited_is_lost(leases: Leases, keeper: Keeper) -> None:
    leases.acquire("a", [0], lease_ms=SHORT_MS)
    leases.acquire("a", [1])
    assert while_locked(leases, keeper, lambda: leases.renew("a", [0, 1]), SHORT_MS + 50) == [1]
    assert leases.acquire("b", [0, 1]) == [0]


def test_the_time_of_a_lease_begins_when_it_is_given(leases: Leases, keeper: Keeper) -> None:
    taken = while_locked(leases, keeper, lambda: leases.acquire("a", [0], lease_ms=SHORT_MS), SHORT_MS + 50)
    assert taken == [0]
    assert leases.holders() == {0: "a"}
    wait_until(leases.clock, lambda: leases.holders() == {})


def test_what_another_took_while_one_waited_is_passed_over(leases: Leases, keeper: Keeper) -> None:
    with beside(keeper.address) as observer, beside(keeper.address) as other, ThreadPoolExecutor(1) as threads:
        other.run("BEGIN")
        other.run(
            f"UPDATE batchline_partitions SET holder = 'b', until_ms = 9000000000000 "
            f"WHERE resource = '{keeper.resource}' AND number = 0"
        )
        answer = threads.submit(leases.acquire, "a", [0, 1, 2], 2)
        observer.wait_for_waiting(1)
        other.run("COMMIT")
        assert answer.result(30) == [1, 2]
    assert leases.holders() == {0: "b", 1: "a", 2: "a"}
