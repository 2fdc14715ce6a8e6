"""What the demo says is checked: each statement fails when what it says is not so."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from batchline.cli.demo_checks import (
    Statement,
    accounted,
    arrived_once,
    in_order,
    known_again,
    largest_second,
    most_a_second,
    nothing_else,
    same_as_library,
    told_once,
    within_capacity,
)
from batchline.cli.demo_receiver import Arrival, Identity, Meter, Temper
from batchline.core.fanout import FanoutStatus, State

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
NOON_US = 1_794_744_000_000_000


def identity(sequence: int) -> Identity:
    return "pump-1", "flow", "2026-11-15T12:00:00Z", sequence


def known(*sequences: int) -> list[tuple[str, str, int, int]]:
    return [("pump-1", "flow", NOON_US, sequence) for sequence in sequences]


def arrival(number: int, at_s: float = 0.0, answer: str = "taken", *, lane: int = 0, count: int = 100) -> Arrival:
    return Arrival(at_s, f"parcel-{lane}-{number}", "demo", lane, number, count, answer)


def fanout(state: State = "complete", *, acked: int = 2, failed: int = 0) -> FanoutStatus:
    total = acked + failed
    return FanoutStatus("demo-1", state, total, 0, acked, failed, 0, None, NOON, NOON, NOON, None, None, NOON)


def is_wrong(statement: Statement, why: str) -> bool:
    return not statement.holds and why in statement.why_not


# --- every accepted measurement, once, and nothing else ---


def test_what_arrived_once_is_said_to_have() -> None:
    held = {"a": [identity(1), identity(2)], "b": [identity(3)]}
    assert arrived_once(known(1, 2, 3), held) == Statement(True, "each of 3 accepted measurements arrived exactly once")
    assert nothing_else(known(1, 2, 3), held).holds


def test_a_receiver_that_drops_a_measurement_is_found_out() -> None:
    assert is_wrong(arrived_once(known(1, 2, 3), {"a": [identity(1), identity(3)]}), "1 have not arrived: ('pump-1'")


def test_a_measurement_in_two_parcels_is_found_out() -> None:
    held = {"a": [identity(1)], "b": [identity(1)]}
    assert is_wrong(arrived_once(known(1), held), "1 arrived more than once")


def test_equal_counts_do_not_hide_that_another_arrived() -> None:
    held = {"a": [identity(1), identity(7)]}
    assert is_wrong(arrived_once(known(1, 2), held), "1 have not arrived")
    assert is_wrong(nothing_else(known(1, 2), held), "1 arrived and were not accepted")


def test_a_measurement_is_known_by_its_moment_however_that_is_written() -> None:
    assert arrived_once(known(1), {"a": [("pump-1", "flow", "2026-11-15T13:00:00.000000+01:00", 1)]}).holds
    assert not arrived_once(known(1), {"a": [("pump-1", "flow", "2026-11-15T12:00:00.000001Z", 1)]}).holds
    assert not arrived_once(known(1), {"a": [("pump-2", "flow", "2026-11-15T12:00:00Z", 1)]}).holds


# --- order ---


def test_lanes_are_ordered_by_what_came_first() -> None:
    came = [arrival(1, answer="cut"), arrival(1, lane=3), arrival(1, answer="repeated"), arrival(2), arrival(2, lane=3)]
    assert in_order(came) == Statement(True, "4 parcels of 2 lanes arrived in order, lane by lane")


@pytest.mark.parametrize("numbers", [(1, 3, 2), (1, 3), (2, 3), (1, 2, 2)])
def test_a_lane_out_of_order_or_with_a_gap_is_named(numbers: Sequence[int]) -> None:
    assert is_wrong(in_order([arrival(number, lane=5) for number in numbers]), "lane 5")


# --- every line ---


def test_every_line_is_somewhere() -> None:
    fates = {"batched": [0, 1], "late": [3], "future": [2]}
    said = "each of 6 lines is accounted for: 2 batched, 2 rejected, 2 malformed"
    assert accounted(6, range(4), fates, 2) == Statement(True, said)


@pytest.mark.parametrize(
    ("fates", "malformed", "why"),
    [
        ({"batched": [0, 1], "late": [3]}, 2, "1 measurements are nowhere: 2"),
        ({"batched": [0, 1, 2], "late": [2, 3]}, 2, "1 measurements are in more than one place: 2"),
        ({"batched": [0, 1, 2, 9], "late": [3]}, 1, "1 measurements were never landed: 9"),
        ({"batched": [0, 1, 2], "late": [3]}, 1, "5 are accounted for"),
    ],
)
def test_a_line_that_is_lost_or_twice_there_is_named(fates: dict[str, list[int]], malformed: int, why: str) -> None:
    assert is_wrong(accounted(6, range(4), fates, malformed), why)


def test_another_batch_than_the_librarys_is_named() -> None:
    assert same_as_library({1: "a@1", 2: "late"}, {1: "a@1", 2: "late"}, 1).holds
    assert is_wrong(same_as_library({1: "a@1", 2: "late"}, {1: "a@2", 2: "late"}, 1), "1 measurements are elsewhere: 1")
    assert not same_as_library({1: "a@1"}, {}, 1).holds


# --- completion ---


def test_completion_is_told_once() -> None:
    assert told_once(["demo-1"], [fanout()], 2).holds


@pytest.mark.parametrize(
    ("told", "status", "parcels", "why"),
    [
        ([], fanout(), 2, "told 0 times"),
        (["demo-1", "demo-1"], fanout(), 2, "told 2 times"),
        (["demo-2"], fanout(), 2, "told were demo-2"),
        (["demo-1"], fanout("sealed"), 2, "does not say that it is complete"),
        (["demo-1"], fanout(acked=1, failed=1), 2, "1 are acknowledged and 1 refused"),
        (["demo-1"], fanout(), 3, "2 are acknowledged"),
    ],
)
def test_completion_that_was_not_told_once_is_found_out(
    told: list[str], status: FanoutStatus, parcels: int, why: str
) -> None:
    assert is_wrong(told_once(told, [status], parcels), why)


# --- capacity ---


def test_the_largest_second_is_any_second_and_not_one_of_the_clock() -> None:
    came = [arrival(1, 0.6), arrival(2, 0.9), arrival(3, 1.5), arrival(4, 1.6)]
    assert largest_second(came) == 300
    assert largest_second([]) == 0


def test_what_is_refused_counts_as_having_been_sent() -> None:
    came = [arrival(number, number / 10, "throttled") for number in range(10)]
    assert is_wrong(within_capacity(came, 500, 100, 1), "more than the bound")
    assert within_capacity(came, 1_000, 100, 1).holds


def test_the_bound_is_the_capacity_a_flush_a_parcel_and_what_was_under_way() -> None:
    assert most_a_second(10_000, 200, 8) == pytest.approx(10_290 + 9 * 200)


# --- troubles ---


def test_a_parcel_that_was_cut_must_come_again() -> None:
    came = [arrival(1, 1, "failed"), arrival(1, 2, "throttled"), arrival(1, 3, "cut"), arrival(1, 4, "repeated")]
    said = "the receiver answered 429 × 1, 500 × 1, and cut × 1: 1 parcels came twice, and were known"
    assert known_again(came) == Statement(True, said)
    assert is_wrong(known_again(came[:3]), "1 parcels were cut and never came again: parcel-0-1")


# --- the receiver ---


def test_a_meter_takes_so_much_within_any_second() -> None:
    meter = Meter()
    assert [meter.takes(at_s, 40, 100) for at_s in (0.0, 0.5, 0.9, 1.0, 1.2, 1.5)] == [
        True,
        True,
        False,
        True,
        False,
        True,
    ]


def test_a_parcel_larger_than_the_limit_is_taken_alone() -> None:
    meter = Meter()
    assert meter.takes(0.0, 500, 100)
    assert not meter.takes(0.5, 1, 100)
    assert meter.takes(1.0, 500, 100)


def test_the_seed_decides_what_becomes_of_a_parcel() -> None:
    def fates(seed: int) -> list[str]:
        temper = Temper(1, 1, failing=0.3, cutting=0.3, seed=seed)
        return [temper.fate(f"parcel-{number}", attempt) for number in range(20) for attempt in (1, 2)]

    assert fates(1) == fates(1) != fates(2)
    assert set(fates(1)) == {"taken", "failed", "cut"}


def test_a_busy_receiver_takes_less() -> None:
    temper = Temper(900, 100, [(4, 6), (11, 13)])
    assert [temper.limit_at(second) for second in (0, 4, 5.9, 6, 12, 14)] == [900, 100, 100, 900, 100, 900]
