"""No partition is ever held by two: neither of threads nor of processes, and not when leases run out either."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.leases.conftest import OUTSIDE
from tests.leases.keeping import LONG_MS, Keeper
from tests.leases.lease_race import PARTITIONS, Belief, Racer, overlaps, race_in_processes

RACERS = 4
#: Of leases that run out in the race.
LEASE_MS = 40


def race_of(kind: str, turns: int) -> tuple[int, int, bool]:
    """The length of leases, how many turns there are, and whether leases run out: in Azure they last too long."""
    return (LONG_MS, turns // 4, False) if kind == "azure" else (LEASE_MS, turns, True)


def check(racers: list[Racer]) -> None:
    beliefs = [belief for racer in racers for belief in racer.beliefs]
    assert overlaps(beliefs) == []
    assert sum(racer.lost_early for racer in racers) == 0
    assert len({belief.instance for belief in beliefs}) > 1, "it was a race"


def test_threads_never_hold_the_same(keeper: Keeper) -> None:
    lease_ms, turns, lapsing = race_of(keeper.kind, 60)
    managers = [keeper.leases().manager for _ in range(RACERS)]
    managers[0].provision(PARTITIONS, "s", 1)
    gate = threading.Barrier(RACERS)
    racers = [
        Racer(manager, f"instance-{number}", lease_ms, turns, lapsing and keeper.kind != "memory")
        for number, manager in enumerate(managers)
    ]
    with ThreadPoolExecutor(RACERS) as threads:
        check(list(threads.map(lambda racer: racer.race(gate.wait), racers)))


@pytest.mark.parametrize("kind", OUTSIDE)
def test_processes_never_hold_the_same(keeper: Keeper) -> None:
    lease_ms, turns, lapsing = race_of(keeper.kind, 60)
    keeper.leases().provision(PARTITIONS)
    check(race_in_processes(keeper.address, keeper.resource, RACERS, lease_ms, turns, lapsing))


def test_who_looks_for_overlaps_finds_them() -> None:
    one, other = Belief(0, 1.0, 2.0, "a"), Belief(0, 1.5, 3.0, "b")
    assert overlaps([other, one]) == [(one, other)]
    assert overlaps([one, other._replace(partition=1)]) == []
    assert overlaps([one, other._replace(begin=2.0)]) == []
