"""Each rule finds what it is for, in what a run has left; and nothing in a run that went well."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.evidence import Evidence, ParcelPlace, Row
from tests.faults.invariants import confirmed, violations
from tests.faults.recovery import Gap, Stall


def row(number: int, verdict: str = "", copy: int = 0) -> Row:
    return Row(number + 1_000 * copy, ("device/d1", "t", f"2026-11-16T00:00:{number:02}+00:00"), number, verdict)


def good() -> Evidence:
    """Three measurements in two parcels, a copy, one that was late, one that was none, and a stranger's parcel."""
    log: list[list[Any]] = [
        ["connected"],
        *(["sent", number, ""] for number in range(1, 6)),
        *(["acked", number] for number in range(1, 6)),
    ]
    return Evidence(
        device=[*log, ["sent", 6, ""], ["acked", 6], ["ended"]],
        landed=[row(1), row(2), row(3), row(4), row(3, copy=1), row(6)],
        malformed=[5],
        rejected=[row(4, "late"), row(3, "duplicate", copy=1)],
        arrived=[row(1), row(2), row(3), row(6)],
        parcels=[ParcelPlace(0, 1), ParcelPlace(1, 1), ParcelPlace(0, 2)],
        fanouts={"a": "complete", "b": "complete"},
        completed=["b", "a"],
        left={"parcels on the timeline": 0},
        strays=["s1"],
        dead_strays=["s1"],
        stalls=[Stall(Gap("lane 2", 1.0, 9.0), None, 8.0, 8.0, 10.0)],
        counted={"read": 6, "batched": 4, "late": 1, "duplicate": 1},
    )


def test_a_run_that_went_well_breaks_no_rule() -> None:
    assert violations(good()) == []


def lost_on_the_way_in(evidence: Evidence) -> None:
    evidence.malformed.clear()


def lost_on_the_way_out(evidence: Evidence) -> None:
    evidence.arrived.remove(row(2))


def arrived_twice(evidence: Evidence) -> None:
    evidence.arrived.append(row(2))


def accepted_twice(evidence: Evidence) -> None:
    evidence.arrived.append(row(3, copy=1))
    evidence.rejected.remove(row(3, "duplicate", copy=1))


def out_of_nowhere(evidence: Evidence) -> None:
    evidence.arrived.append(row(9))


def refused_for_nothing(evidence: Evidence) -> None:
    evidence.rejected[0] = row(4, "mood")


def copy_of_nothing(evidence: Evidence) -> None:
    evidence.rejected[0] = row(4, "duplicate")


def out_of_order(evidence: Evidence) -> None:
    evidence.parcels.reverse()


def a_gap(evidence: Evidence) -> None:
    evidence.parcels.append(ParcelPlace(1, 3))


def told_twice(evidence: Evidence) -> None:
    evidence.completed.append("a")


def never_told(evidence: Evidence) -> None:
    evidence.completed.remove("a")


def never_complete(evidence: Evidence) -> None:
    evidence.fanouts["a"] = "open"


def a_lease_left(evidence: Evidence) -> None:
    evidence.left["leases"] = 1


def counted_wrong(evidence: Evidence) -> None:
    evidence.counted["read"] = 5


def dead_for_no_reason(evidence: Evidence) -> None:
    evidence.arrived.remove(row(2))
    evidence.dead.append(row(2))


def a_stray_arrived(evidence: Evidence) -> None:
    evidence.arrived_strays.append("s1")


def a_stray_taken_for_a_parcel(evidence: Evidence) -> None:
    evidence.dead_strays.remove("s1")
    evidence.mistaken_strays.append("s1")


def a_stray_lost(evidence: Evidence) -> None:
    evidence.dead_strays.remove("s1")


def a_stray_buried_twice(evidence: Evidence) -> None:
    evidence.dead_strays.append("s1")


def a_wrong_clock_that_buries(evidence: Evidence) -> None:
    evidence.harm.append("message 'held' is gone")


def too_slow(evidence: Evidence) -> None:
    evidence.stalls.append(Stall(Gap("lane 2", 1.0, 31.0), None, 30.0, 30.0, 10.0))


BROKEN: dict[Callable[[Evidence], None], str] = {
    lost_on_the_way_in: "missing: 1, such as 5",
    lost_on_the_way_out: "without a fate: 1, such as 2",
    arrived_twice: "with several fates: 1, such as 2",
    accepted_twice: "more than once: 1",
    out_of_nowhere: "out of nowhere: 1, such as 9",
    refused_for_nothing: "for another reason: 1",
    copy_of_nothing: "copies of nothing: 1",
    out_of_order: "lane 0 out of order: 1, such as 1 after 2",
    a_gap: "lane 1 without: 1, such as 2",
    told_twice: "told more than once: 1, such as a",
    never_told: "not told: 1, such as a",
    never_complete: "not complete: 1, such as a is open",
    a_lease_left: "Nothing is left: 1 leases",
    counted_wrong: "counted and there: 1",
    dead_for_no_reason: "dead: 1",
    a_stray_arrived: "arrived: 1, such as s1",
    a_stray_taken_for_a_parcel: "taken for parcels: 1, such as s1",
    a_stray_lost: "nowhere: 1, such as s1",
    a_stray_buried_twice: "more than once: 1, such as s1",
    a_wrong_clock_that_buries: "message 'held' is gone",
    too_slow: "lane 2 without progress from 1.0 s to 31.0 s",
}


@pytest.mark.parametrize("spoil", BROKEN, ids=lambda spoil: spoil.__name__)
def test_what_is_wrong_is_found_and_named(spoil: Callable[[Evidence], None]) -> None:
    evidence = good()
    spoil(evidence)
    assert any(BROKEN[spoil] in found for found in violations(evidence))


def test_what_was_refused_on_purpose_may_be_dead_and_leaves_no_gap() -> None:
    evidence = good()
    dead_for_no_reason(evidence)
    evidence.refused_on_purpose = True
    evidence.parcels.remove(ParcelPlace(0, 1))
    evidence.dead_parcels.append(ParcelPlace(0, 1))
    assert violations(evidence) == []


def test_an_acknowledgement_is_a_promise_once_the_broker_has_read_on() -> None:
    log: list[list[Any]] = [
        ["connected"],
        ["sent", 1, ""],
        ["sent", 2, ""],
        ["acked", 1],
        ["acked", 2],
        ["sent", 3, ""],
    ]
    assert confirmed(log) == set()
    assert confirmed([*log, ["acked", 3]]) == {1, 2}
    assert confirmed([*log, ["connected"], ["acked", 3]]) == set()
