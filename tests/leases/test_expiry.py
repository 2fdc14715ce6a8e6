"""A lease runs out by the clock of who keeps it: not before its time, and then for good."""

import pytest

from batchline.runtime.clock import elapsed_seconds
from tests.leases.conftest import SHORT_LEASES
from tests.leases.keeping import SHORT_MS, Clock, Keeper, Leases, wait_until

pytestmark = pytest.mark.parametrize("kind", SHORT_LEASES)


def ms_of(clock: Clock) -> float:
    return elapsed_seconds() * 1_000 if clock.real else clock.us / 1_000


def test_a_lease_lasts_as_long_as_it_was_asked_for_and_then_another_may_have_it(leases: Leases, keeper: Keeper) -> None:
    other = keeper.leases()
    for _ in range(3):
        sent = ms_of(leases.clock)
        assert leases.acquire("a", [0, 1], lease_ms=SHORT_MS) == [0, 1]
        wait_until(leases.clock, lambda: other.acquire("b", [1, 0]) == [1, 0])
        assert ms_of(leases.clock) - sent >= SHORT_MS
        assert leases.renew("a", [0, 1]) == []
        assert leases.acquire("a", [0, 1]) == []
        assert leases.holders() == {0: "b", 1: "b"}
        other.release("b", [0, 1])


def test_a_lease_that_ran_out_is_lost_though_nobody_else_has_it(leases: Leases) -> None:
    leases.acquire("a", [0], lease_ms=SHORT_MS)
    leases.acquire("a", [1])
    wait_until(leases.clock, lambda: leases.holders() == {1: "a"})
    assert leases.renew("a", [0, 1]) == [1]
    leases.release("a", [0])
    assert leases.acquire("a", [0], lease_ms=SHORT_MS) == [0]


def test_renewing_and_acquiring_again_begin_a_lease_anew(leases: Leases) -> None:
    leases.acquire("a", [0, 1, 2], lease_ms=SHORT_MS)
    assert leases.renew("a", [0]) == [0]
    assert leases.acquire("a", [1]) == [1]
    wait_until(leases.clock, lambda: leases.acquire("b", [0, 1, 2]) == [2])
    assert leases.holders() == {0: "a", 1: "a", 2: "b"}
