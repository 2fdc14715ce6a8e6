"""A gap is found, blamed on the fault that may last longest, and too long if none explains it."""

from tests.faults.plan import Fault, kind_of
from tests.faults.recovery import Gap, Happening, gaps_of, recoveries, stalls

CUT = Happening(Fault(1.0, "cut", "postgresql", 4.0, "forget"), 10.0, 14.0)
FREEZE = Happening(Fault(1.0, "freeze", "stranger", 25.0, "lanes"), 10.0, 35.0)
SINK = Happening(Fault(1.0, "sink", "sink", 1.0, "429"), 11.0, 12.0)


def gap(from_s: float, to_s: float, stream: str = "lane 0") -> Gap:
    return Gap(stream, from_s, to_s)


def test_gaps_are_between_moments_and_the_last_one_ends_with_the_next_arrival_or_the_end() -> None:
    assert list(gaps_of("lane 0", [1, 2, 9, 10], 0, 20)) == [gap(2, 9), gap(10, 20)]
    assert list(gaps_of("lane 0", [1, 2, 9, 10, 23, 24], 0, 20)) == [gap(2, 9), gap(10, 23)]
    assert list(gaps_of("lane 0", [], 0, 20)) == [gap(0, 20)]
    assert list(gaps_of("lane 0", [1, 2, 3], 0, 4)) == []


def test_a_gap_counts_from_the_mend_or_from_the_injury() -> None:
    (cut,), (frozen,) = stalls([gap(9, 20)], [CUT], 1), stalls([gap(9, 20)], [FREEZE], 1)
    assert (cut.lasted_s, cut.counted_s) == (10, 6)
    assert (frozen.lasted_s, frozen.counted_s) == (10, 10)


def test_the_link_of_a_frozen_worker_counts_from_the_mend_and_its_lanes_from_the_injury() -> None:
    frozen = Happening(Fault(1.0, "freeze", "worker-1", 25.0, "settling"), 10.0, 35.0)
    link, lane = stalls([gap(11, 40, "worker-1"), gap(11, 40)], [frozen], 1)
    assert (link.counted_s, link.is_too_long) == (5, False)
    assert (lane.counted_s, lane.is_too_long) == (29, True)


def test_a_gap_is_too_long_only_beyond_its_limit_and_a_busy_machine_may_take_longer() -> None:
    kind = kind_of(CUT.fault)
    over = gap(9, 14 + kind.limit_s + kind.work_s + 1)
    assert [stall.is_too_long for stall in stalls([over], [CUT], 1)] == [True]
    assert [stall.is_too_long for stall in stalls([over], [CUT], 2)] == [False]
    assert [stall.is_too_long for stall in stalls([gap(9, over.to_s - 2)], [CUT], 1)] == [False]


def test_a_gap_is_blamed_on_the_fault_that_may_last_longest_and_hides_the_others() -> None:
    found = stalls([gap(9, 20)], [SINK, CUT], 1)
    assert [stall.cause for stall in found] == [CUT]
    hidden = {one.name: one.is_hidden for one in recoveries([SINK, CUT], found)}
    assert hidden == {SINK.fault.name: True, CUT.fault.name: False}


def test_a_gap_that_is_too_long_is_not_excused_by_a_fault_that_comes_later() -> None:
    later = Happening(Fault(50.0, "kill", "driver", 1.0, "all"), 60.0, 61.0)
    (stall,) = stalls([gap(9, 80)], [CUT, later], 1)
    assert stall.cause == CUT
    assert stall.is_too_long


def test_a_driver_that_was_killed_explains_a_gap_that_begins_when_what_was_under_way_has_arrived() -> None:
    killed = Happening(Fault(1.0, "kill", "driver", 1.0, "all"), 10.0, 11.0)
    assert [stall.cause for stall in stalls([gap(20, 40)], [killed, CUT], 1)] == [killed]
    assert [stall.cause for stall in stalls([gap(40, 60)], [killed, CUT], 1)] == [None]


def test_a_fault_without_a_gap_is_measured_as_nothing() -> None:
    (one,) = recoveries([SINK], [])
    assert (one.lasted_s, one.is_hidden) == (0, False)


def test_a_gap_that_no_fault_explains_has_a_limit_of_its_own() -> None:
    long, short = gap(40, 60), gap(60, 65)
    assert [stall.is_too_long for stall in stalls([long, short], [SINK], 1)] == [True, False]
    assert "no fault" in str(stalls([long], [], 1)[0])


def test_a_silent_link_of_a_part_counts_only_for_faults_that_touch_the_part() -> None:
    other = Happening(Fault(1.0, "kill", "worker-2", 4.0), 10.0, 14.0)
    own = Happening(Fault(1.0, "cut", "worker-1", 4.0, "forget"), 10.0, 14.0)
    silent = gap(9, 60, "worker-1")
    assert stalls([silent], [other], 1) == []
    assert [stall.cause for stall in stalls([silent], [other, own], 1)] == [own]
