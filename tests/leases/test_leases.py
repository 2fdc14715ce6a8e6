"""Who holds what: acquiring, renewing, giving back."""

import pytest

from batchline.core.partitions import Asking
from tests.leases.conftest import OUTSIDE
from tests.leases.keeping import LONG_MS, Keeper, Leases

STRANGE = "worker 'ü' } %s/€\N{SNOWMAN}"


def test_partitions_are_tried_in_the_order_asked_for_and_at_most_so_many(leases: Leases) -> None:
    assert leases.acquire("a", [2, 0, 3, 1], 2) == [2, 0]
    assert leases.acquire("b", [2, 0, 3, 1], 3) == [3, 1]
    assert leases.acquire("c", [0, 1, 2, 3], 1) == []
    assert leases.holders() == {0: "a", 1: "b", 2: "a", 3: "b"}


def test_none_are_leased_if_none_are_asked_for(leases: Leases) -> None:
    assert leases.acquire("a", [0, 1], 0) == []
    assert leases.acquire("a", [], 3) == []
    assert leases.renew("a", []) == []
    leases.release("a", [])
    assert leases.holders() == {}


def test_partitions_that_are_not_there_are_passed_over(leases: Leases) -> None:
    assert leases.acquire("a", [499, 3, 4, 1], 2) == [3, 1]
    assert leases.renew("a", [499, 1]) == [1]
    leases.release("a", [499, 1])
    assert leases.holders() == {3: "a"}


def test_a_partition_named_twice_is_leased_once(leases: Leases) -> None:
    assert leases.acquire("a", [1, 1, 0, 1], 2) == [1, 0]
    assert leases.renew("a", [0, 1, 0]) == [0, 1]


def test_what_an_instance_holds_already_counts(leases: Leases) -> None:
    assert leases.acquire("a", [0, 1], 2) == [0, 1]
    assert leases.acquire("a", [1, 2, 3], 2) == [1, 2]
    assert leases.acquire("a", [0, 1, 2, 3], 1) == [0]
    assert leases.holders() == {0: "a", 1: "a", 2: "a"}


def test_managers_of_a_resource_see_the_same(leases: Leases, keeper: Keeper) -> None:
    other = keeper.leases()
    assert leases.acquire("a", [0, 1]) == [0, 1]
    assert other.acquire("b", [0, 1, 2]) == [2]
    assert other.renew("a", [0, 1]) == [0, 1], "whoever speaks for an instance"
    other.release("a", [0])
    assert leases.holders() == {1: "a", 2: "b"}


def test_renewing_tells_what_is_lost_and_takes_nothing(leases: Leases) -> None:
    leases.acquire("a", [0, 1])
    leases.acquire("b", [2])
    assert leases.renew("a", [3, 2, 1, 0]) == [1, 0]
    assert leases.renew("c", [0, 1, 2, 3]) == []
    assert leases.holders() == {0: "a", 1: "a", 2: "b"}


def test_what_was_given_back_is_free_and_cannot_be_renewed(leases: Leases) -> None:
    leases.acquire("a", [0, 1, 2])
    leases.release("a", [0, 2])
    leases.release("a", [0, 2])
    assert leases.renew("a", [0, 1, 2]) == [1]
    assert leases.acquire("b", [0, 1, 2]) == [0, 2]
    assert leases.acquire("a", [0, 1, 2]) == [1]


def test_what_somebody_else_holds_cannot_be_given_back(leases: Leases) -> None:
    leases.acquire("a", [0, 1])
    leases.release("b", [0, 1, 2])
    assert leases.holders() == {0: "a", 1: "a"}


def test_instances_are_told_apart_to_the_character(leases: Leases) -> None:
    names = [STRANGE, STRANGE.lower() + " ", "Worker", "worker"]
    for number, name in enumerate(names):
        assert leases.acquire(name, [number]) == [number]
        leases.ask(name, number + 1, [number])
    assert leases.holders() == dict(enumerate(names))
    assert {one.instance for one in leases.ask("worker", 1)} == set(names)
    assert leases.renew("Worker", [0, 1, 2, 3]) == [2]


def test_many_partitions_are_one_call(keeper: Keeper) -> None:
    count = 500 if keeper.kind != "azure" else 40
    leases = keeper.leases()
    leases.provision(count)
    everything = list(reversed(range(count)))
    assert leases.acquire("a", everything) == everything
    assert leases.renew("a", everything) == everything
    assert leases.ask("a", count, everything)[0].held == tuple(everything)
    leases.release("a", everything)
    assert leases.holders() == {}


@pytest.mark.parametrize("kind", OUTSIDE)
@pytest.mark.parametrize("now_us", [0, 4_000_000_000_000_000])
def test_the_clocks_of_instances_do_not_matter(leases: Leases, now_us: int) -> None:
    manager = leases.manager
    assert manager.acquire("a", [0], 1, LONG_MS, now_us) == [0]
    assert leases.acquire("b", [0]) == []
    assert leases.renew("a", [0]) == [0]
    assert manager.acquire("b", [0], 1, LONG_MS, now_us) == []
    assert manager.renew("a", [0], LONG_MS, now_us) == [0]
    assert manager.holders(now_us) == leases.holders() == {0: "a"}
    leases.ask("a", 1)
    assert manager.ask(Asking("b", 1), LONG_MS, now_us) == leases.ask("a", 1) == [Asking("a", 1), Asking("b", 1)]
