"""The packer by example."""

import random
from datetime import UTC, datetime

import pytest

from batchline import BatchRules, EventTimeBatcher, Measurement, PackRules, pack
from batchline.errors import InvalidInput, InvalidMeasurement, InvalidRules
from tests.core.packing import of_sizes
from tests.core.streams import us

# The table of the seed: at each time, the metrics of subject 1 and of subject 2 that have a value.
TABLE = [("123", "123"), ("", "123"), ("123", ""), ("1", "123"), ("23", "3"), ("", "1"), ("", "1")]


def measured(subject: str, metric: str, time_us: int, size: int | None = None) -> Measurement:
    return Measurement.from_us(subject, metric, time_us, 0, size=size)


def seed_table() -> list[Measurement]:
    return [
        measured(f"S{subject}", f"M{metric}", time)
        for time, row in enumerate(TABLE)
        for subject, metrics in enumerate(row, 1)
        for metric in metrics
    ]


def named(parcel_measurements: tuple[Measurement, ...]) -> str:
    return " ".join(f"{m.key}{m.type}T{m.event_us}" for m in parcel_measurements)


@pytest.mark.parametrize("seed", range(5))
def test_the_seeds_table_gives_its_seven_parcels_whatever_the_order_of_arrival(seed: int) -> None:
    measurements = seed_table()
    random.Random(seed).shuffle(measurements)
    parcels = pack(measurements, PackRules(max_items=3))
    assert [named(parcel.measurements) for parcel in parcels] == [
        "S1M1T0 S1M2T0 S1M3T0",
        "S2M1T0 S2M2T0 S2M3T0",
        "S2M1T1 S2M2T1 S2M3T1",
        "S1M1T2 S1M2T2 S1M3T2",
        "S2M1T3 S2M2T3 S2M3T3",
        "S1M1T3 S1M2T4 S1M3T4",
        "S2M3T4 S2M1T5 S2M1T6",
    ]
    assert [parcel.number for parcel in parcels] == [1, 2, 3, 4, 5, 6, 7]
    assert [parcel.id for parcel in parcels] == ["S1@0", "S2@0", "S2@1", "S1@2", "S2@3", "S1@3", "S2@4"]


def test_the_seeds_table_in_the_order_of_subjects_needs_seven_parcels_too() -> None:
    parcels = pack(seed_table(), PackRules(max_items=3, order="subject"))
    assert len(parcels) == 7
    assert named(parcels[4].measurements) == "S1M1T3 S1M2T4 S1M3T4"


def test_a_parcel_says_what_it_holds() -> None:
    (parcel,) = pack([measured("b", "x", 5, 30), measured("a", "x", 7, 12), measured("b", "y", 5)])
    assert (parcel.id, parcel.number, parcel.items, parcel.bytes) == ("b@5", 1, 3, 42)
    assert parcel.subjects == ("a", "b")
    assert parcel.first_time == datetime(1970, 1, 1, microsecond=5, tzinfo=UTC)
    assert parcel.last_time == datetime(1970, 1, 1, microsecond=7, tzinfo=UTC)


def test_nothing_gives_no_parcel() -> None:
    packed = pack([])
    assert packed == []
    assert packed.rejected == []


def sizes(parcels: list[list[int]]) -> list[list[int]]:
    return [sorted(parcel) for parcel in parcels]


def test_the_parcel_that_straddles_two_times_takes_the_groups_that_fill_it() -> None:
    #  time 0  ███            room for 7 more
    #  time 1  ██████ █████ ██    5 + 2 fill it, 6 begins the next
    parcels = pack(of_sizes([[3], [6, 5, 2]]), PackRules(max_items=10))
    assert [parcel.items for parcel in parcels] == [10, 6]
    assert parcels[0].subjects == ("subject-0", "subject-1", "subject-2")


def test_in_the_order_of_time_a_later_group_never_fills_an_earlier_parcel() -> None:
    parcels = pack(of_sizes([[3], [8], [2]]), PackRules(max_items=10))
    assert [parcel.items for parcel in parcels] == [3, 10]


def test_in_the_order_of_subjects_a_later_group_of_another_subject_does() -> None:
    measurements = [
        measured(s, f"{n}", t) for s, t, count in (("a", 0, 3), ("b", 1, 8), ("c", 2, 7)) for n in range(count)
    ]
    parcels = pack(measurements, PackRules(max_items=10, order="subject"))
    assert [parcel.subjects for parcel in parcels] == [("a", "c"), ("b",)]


def test_in_the_order_of_subjects_a_group_does_not_pass_an_earlier_one_of_its_subject() -> None:
    measurements = [
        measured(s, f"{n}", t) for s, t, count in (("a", 0, 3), ("b", 1, 8), ("b", 2, 7)) for n in range(count)
    ]
    parcels = pack(measurements, PackRules(max_items=10, order="subject"))
    assert [[m.event_us for m in (p.measurements[0], p.measurements[-1])] for p in parcels] == [[0, 0], [1, 1], [2, 2]]


@pytest.mark.parametrize("order", ["time", "subject"])
def test_a_group_larger_than_a_parcel_is_cut_in_time_order_and_its_rest_is_joined(order: str) -> None:
    parcels = pack(of_sizes([[8], [1]]), PackRules(max_items=3, order=order))
    assert [parcel.items for parcel in parcels] == [3, 3, 3]
    assert [parcel.id for parcel in parcels] == ["subject-0@0", "subject-0@0-1", "subject-0@0-2"]
    assert [m.type for parcel in parcels for m in parcel.measurements][:8] == [f"metric-{n}" for n in range(8)]


def test_a_cut_begins_in_the_parcel_at_hand_if_that_costs_no_parcel_more() -> None:
    assert [p.items for p in pack(of_sizes([[1], [5]]), PackRules(max_items=3))] == [3, 3]
    assert [p.items for p in pack(of_sizes([[2], [6]]), PackRules(max_items=3))] == [2, 3, 3]


def test_the_byte_limit_holds_beside_the_limit_of_items() -> None:
    measurements = [measured("a", "x", 0, 60), measured("b", "x", 0, 50), measured("c", "x", 0, 40)]
    parcels = pack(measurements, PackRules(max_bytes=100))
    assert [parcel.bytes for parcel in parcels] == [100, 50]
    assert parcels[0].subjects == ("a", "c")


def test_a_group_larger_than_the_byte_limit_is_cut() -> None:
    measurements = [measured("a", f"{n}", 0, 40) for n in range(5)]
    assert [parcel.items for parcel in pack(measurements, PackRules(max_bytes=100))] == [2, 2, 1]


def test_an_oversize_measurement_is_rejected_and_the_rest_of_its_group_packed() -> None:
    large, small = measured("a", "x", 0, 101), measured("a", "y", 0, 100)
    packed = pack([large, small], PackRules(max_bytes=100))
    assert packed.rejected == [large]
    assert [parcel.measurements for parcel in packed] == [(small,)]


def test_ids_without_a_subject_share_one_bucket() -> None:
    #  S1$a and S1$b are subject S1; the others have no part before the separator
    kinds = ["S1$a", "lonely", "S1$b", "alone", "$strange"]
    parcels = pack([measured("gateway", kind, 0) for kind in kinds], PackRules(max_items=3, split="$"))
    assert [[m.type for m in parcel.measurements] for parcel in parcels] == [
        ["$strange", "alone", "lonely"],
        ["S1$a", "S1$b"],
    ]
    assert [parcel.subjects for parcel in parcels] == [("",), ("S1",)]
    assert [parcel.id for parcel in parcels] == ["@0", "S1@0"]


def batches_of_two_hosts() -> EventTimeBatcher:
    batcher = EventTimeBatcher(BatchRules(window=us(10), max_delay=us(50), leap_limit=us(50), anchor="event"))
    for host, time in (("a", 103), ("b", 101), ("a", 108), ("b", 104), ("b", 107), ("a", 120)):
        batcher.add(Measurement.from_us(host, f"type-{time}", time, 100))
    batcher.flush()
    return batcher


def test_a_batch_of_stage_1_stays_together_although_its_times_differ() -> None:
    parcels = pack(batches_of_two_hosts().closed(), PackRules(max_items=3, together="batch"))
    assert [[m.event_us for m in parcel.measurements] for parcel in parcels] == [[101, 104, 107], [103, 108, 120]]
    assert [parcel.id for parcel in parcels] == ["b@101", "a@103"]


def test_a_cut_batch_and_the_next_batch_of_its_start_have_different_ids() -> None:
    batcher = EventTimeBatcher(BatchRules(max_bytes=6, anchor="event"))
    for number in range(6):
        batcher.add(Measurement.from_us("a", f"{number}", 0, 0, size=2))
    batcher.flush()
    parcels = pack(batcher.closed(), PackRules(max_items=2, together="batch"))
    assert [parcel.id for parcel in parcels] == ["a@0", "a@0-1", "a@0.1-1"]


def test_the_wrong_kind_of_input_is_refused_by_name() -> None:
    with pytest.raises(InvalidMeasurement, match="expected a Measurement, got the Batch b@101; see together='batch'"):
        pack(sorted(batches_of_two_hosts().closed(), key=lambda batch: batch.start_us))
    with pytest.raises(InvalidMeasurement, match="expected a Measurement, got 7"):
        pack([7])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="packs Batch objects of stage 1, got Measurement"):
        pack(seed_table(), PackRules(together="batch"))
    with pytest.raises(InvalidRules, match=r"expected PackRules, got 500 \(int\)"):
        pack([], 500)  # type: ignore[arg-type]


def test_with_a_byte_limit_every_measurement_needs_a_size() -> None:
    with pytest.raises(InvalidMeasurement, match="max_bytes is set, so every measurement needs a size"):
        pack(seed_table(), PackRules(max_bytes=100))
