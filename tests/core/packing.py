"""Generated rules and measurements for the packer, and the fewest parcels by trying everything."""

from collections import defaultdict
from itertools import groupby

from hypothesis import strategies as st

from batchline import Batch, BatchRules, EventTimeBatcher, Measurement, PackRules, Parcel
from tests.core.streams import BASE_US, us

Size = tuple[int, int]


@st.composite
def pack_rules(draw: st.DrawFn, together: str = "timestamp", order: str | None = None) -> PackRules:
    """Small limits, so that groups are cut, and large ones, so that a unit is more than 1."""
    return PackRules(
        max_items=draw(st.sampled_from([1, 2, 3, 7, 20, 2_000])),
        max_bytes=draw(st.sampled_from([None, None, 4, 12, 60, 5_000])),
        order=order or draw(st.sampled_from(["time", "subject"])),
        together=together,
        split=draw(st.sampled_from([None, "$", "::"])) if together == "timestamp" else None,
    )


@st.composite
def measurements(draw: st.DrawFn, most: int = 120) -> list[Measurement]:
    """Measurements of few subjects, types and times, so that many tie; their payload is their place."""
    times = draw(st.sampled_from([1, 3, 12]))
    rows = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["a", "b", "ä", "𝄞", "\uffff"]),
                st.sampled_from(["x", "y", "a$x", "a$y", "b$x", "$x", "a::x$y"]),
                st.integers(-times, times),
                st.integers(0, 1),
                st.integers(0, 6),
            ),
            max_size=most,
        )
    )
    return [
        Measurement.from_us(key, kind, BASE_US + event, BASE_US + receive, number, size)
        for number, (key, kind, event, receive, size) in enumerate(rows)
    ]


def batches_of(messages: list[Measurement], window_us: int = 5) -> list[Batch]:
    """What stage 1 makes of them, with batches that follow one closed as full at the same start."""
    rules = BatchRules(us(window_us), us(1_000), us(1_000), max_bytes=9, anchor="event")
    batcher = EventTimeBatcher(rules)
    for message in messages:
        batcher.add(message)
    batcher.flush()
    return batcher.closed()


def shown(parcel: Parcel) -> tuple[int, str, list[int]]:
    """A parcel as what it is called and the payloads it holds."""
    return parcel.number, parcel.id, [m.payload for m in parcel.measurements]


def of_sizes(times: list[list[int]], size: int | None = None) -> list[Measurement]:
    """At each time, groups of so many measurements, of subjects 0, 1, 2, …"""
    return [
        Measurement.from_us(f"subject-{subject}", f"metric-{metric}", time, 0, None, size)
        for time, groups in enumerate(times)
        for subject, items in enumerate(groups)
        for metric in range(items)
    ]


def fewest_in_time_order(times: list[list[Size]], most: Size) -> int:
    """The fewest parcels: all ways to fill the parcel at hand and new ones, time after time, worse ones forgotten."""
    ends = {(1, 0, 0)}
    for groups in times:
        reached = {end for parcels, items, size in ends for end in _all_ways(groups, (items, size), most, parcels)}
        ends = {end for end in reached if not any(_better(other, end) for other in reached)}
    return min(end[0] for end in ends)


def _better(one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


def _all_ways(groups: list[Size], held: Size, most: Size, parcels: int) -> set[tuple[int, int, int]]:
    found: set[tuple[int, int, int]] = set()

    def place(at: int, loads: tuple[Size, ...]) -> None:
        if at == len(groups):
            last = loads[1:] or loads
            found.update((parcels + len(loads) - 1, *load) for load in last)
            return
        items, size = groups[at]
        for number, load in enumerate(loads):
            grown = load[0] + items, load[1] + size
            if grown[0] <= most[0] and grown[1] <= most[1] and (number == 0 or load not in loads[1:number]):
                place(at + 1, (*loads[:number], grown, *loads[number + 1 :]))
        place(at + 1, (*loads, (items, size)))

    place(0, (held,))
    return found


def fewest_in_subject_order(groups: list[tuple[str, int]], most: int) -> int:
    """The fewest parcels for groups in order of time: one more until every group finds a place."""
    parcels = -(-sum(items for _, items in groups) // most)
    while not _placeable(groups, [most] * parcels, {}):
        parcels += 1
    return parcels


def _placeable(groups: list[tuple[str, int]], rooms: list[int], last: dict[str, int]) -> bool:
    if not groups:
        return True
    (subject, items), *others = groups
    for parcel in range(last.get(subject, 0), len(rooms)):
        if items <= rooms[parcel]:
            left = [*rooms[:parcel], rooms[parcel] - items, *rooms[parcel + 1 :]]
            if _placeable(others, left, last | {subject: parcel}):
                return True
    return False


def parcels_by_group(parcels: list[Parcel], split: str | None) -> dict[tuple[str, int], list[int]]:
    """In which parcels the measurements of a subject and moment are."""
    found: dict[tuple[str, int], list[int]] = defaultdict(list)
    for parcel in parcels:
        for measurement in parcel.measurements:
            kind = measurement.type
            subject = measurement.key if split is None else kind.split(split)[0] if split in kind else ""
            found[subject, measurement.event_us].append(parcel.number)
    return {group: [number for number, _ in groupby(numbers)] for group, numbers in found.items()}
