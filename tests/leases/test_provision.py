"""Partitions are made once, verified afterwards, and not divided otherwise by mistake."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from batchline.errors import ResourceMismatch
from tests.leases.keeping import Keeper, Leases


def test_what_is_missing_is_made_and_what_is_there_is_verified(keeper: Keeper) -> None:
    one, other = keeper.leases(), keeper.leases()
    first = one.provision(3)
    assert (first.created, first.created_partitions, first.verified_partitions) == (True, [0, 1, 2], [])
    again = other.provision(3)
    assert (again.created, again.created_partitions, again.verified_partitions) == (False, [], [0, 1, 2])
    more = other.provision(5)
    assert (more.created, more.created_partitions, more.verified_partitions) == (False, [3, 4], [0, 1, 2])
    assert first.where == again.where
    assert other.acquire("a", range(9)) == [0, 1, 2, 3, 4]


def test_where_says_the_place_without_a_secret(keeper: Keeper) -> None:
    where = keeper.leases().provision().where
    without_options = keeper.address.partition("?")[0].removeprefix("azblob+")
    assert where == without_options


def test_another_size_is_refused_and_changes_nothing(leases: Leases, keeper: Keeper) -> None:
    other = keeper.leases()
    with pytest.raises(
        ResourceMismatch, match=rf"'{keeper.resource}' is provisioned with 40/10, got 60/10: give every"
    ):
        other.provision(6, "60/10")
    assert other.acquire("a", range(6)) == [0, 1, 2, 3]
    assert leases.provision().created_partitions == []


def test_another_size_may_replace_the_one_that_was_there(leases: Leases, keeper: Keeper) -> None:
    other = keeper.leases()
    assert leases.acquire("a", [0]) == [0]
    replaced = other.provision(2, "20/10 {é}", replace=True)
    assert (replaced.created_partitions, replaced.verified_partitions) == ([], [0, 1])
    with pytest.raises(ResourceMismatch, match=re.escape("is provisioned with 20/10 {é}, got 40/10")):
        leases.provision()
    assert other.provision(2, "20/10 {é}").verified_partitions == [0, 1]
    assert other.holders() == {0: "a"}, "replacing takes nothing from anybody"


def test_partitions_beyond_the_count_are_left_alone(leases: Leases) -> None:
    assert leases.acquire("a", [3]) == [3]
    assert leases.provision(2).verified_partitions == [0, 1]
    assert leases.renew("a", [3]) == [3]


def test_no_partitions_can_be_provisioned(keeper: Keeper) -> None:
    leases = keeper.leases()
    assert leases.provision(0, "0/10").created_partitions == []
    assert leases.acquire("a", [0, 1]) == []


def test_resources_know_nothing_of_each_other(leases: Leases, keeper: Keeper) -> None:
    other = keeper.leases(f"{keeper.resource}/0 {{}}")
    other.provision(2, "other")
    leases.acquire("a", [0, 1])
    assert other.acquire("b", [0, 1]) == [0, 1]
    assert (leases.holders(), other.holders()) == ({0: "a", 1: "a"}, {0: "b", 1: "b"})
    other.ask("b", 1)
    assert leases.ask("a", 0) == []


def test_of_all_who_provision_at_once_each_partition_is_made_by_one(keeper: Keeper) -> None:
    managers = [keeper.leases() for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda leases: leases.provision(6), managers))
    assert sorted(number for one in made for number in one.created_partitions) == list(range(6))
    assert [one.created for one in made].count(True) == 1
    assert all(sorted(one.created_partitions + one.verified_partitions) == list(range(6)) for one in made)


def test_of_all_who_provision_otherwise_at_once_one_is_right(keeper: Keeper) -> None:
    managers = [keeper.leases() for _ in range(4)]

    def provision(number: int) -> bool:
        try:
            managers[number].provision(2, f"size {number}")
        except ResourceMismatch:
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(provision, range(4))).count(True) == 1
