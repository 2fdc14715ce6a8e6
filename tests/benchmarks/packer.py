"""Stage 2: how full the parcels are, and how fast columns are packed.

Fill beside next-fit, which is what the vendor's library does (groups in order, a new parcel when one does not fit),
beside the lower bound, all measurements by N, and beside the fewest possible where few groups tie. Speed beside pyarrow
sorting the same table, which is the least that any packer must do.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from rich.table import Table

from batchline import PackRules
from batchline.columnar import assign_parcels, columns, pack_kernel
from tests.benchmarks.measure import Figures, console, seconds
from tests.core.packing import fewest_in_time_order

MOMENT = pa.timestamp("us", "UTC")
BASE_US = 1_800_000_000_000_000
N = 500
MOST_TRIED = 9
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Groups:
    """The groups of a data set in order of time and subject: the second, the subject and the measurements of each."""

    second: Ints
    subject: Ints
    size: Ints

    def table(self, seed: int = 1) -> pa.Table:
        """Their measurements in an order of arrival that is no order."""
        shuffled = np.random.default_rng(seed).permutation(int(self.size.sum()))
        group = np.repeat(np.arange(self.size.size), self.size)[shuffled]
        metric = np.concatenate([np.arange(size) for size in self.size])[shuffled]
        subjects = pa.array([f"subject-{n:05}" for n in range(int(self.subject.max()) + 1)])
        metrics = pa.array([f"metric-{n:03}" for n in range(int(self.size.max()))])
        event = BASE_US + self.second[group] * 1_000_000
        return pa.table(
            {
                "key": subjects.take(pa.array(self.subject[group])),
                "type": metrics.take(pa.array(metric)),
                "event_time": pa.array(event).cast(MOMENT),
            }
        )


def dense(times: int, subjects: int = 60, seed: int = 1) -> Groups:
    """Every subject sends its 120 to 260 metrics at every time; after ten times, other ones.

    How well sixty sizes go together is luck: with many draws the figure is not.
    """
    sizes = np.random.default_rng(seed).integers(120, 261, (-(-times // 10), subjects))
    second, subject = np.repeat(np.arange(times), subjects), np.tile(np.arange(subjects), times)
    return Groups(second, subject, sizes[second // 10, subject])


def sparse(times: int, subjects: int = 20, seed: int = 1) -> Groups:
    """At a time one subject in ten sends, 100 to 350 of its metrics."""
    draw = np.random.default_rng(seed)
    second, subject = np.nonzero(draw.random((times, subjects)) < 0.1)
    return Groups(second, subject, draw.integers(100, 351, second.size))


def small(times: int, subjects: int = 2_000, seed: int = 1) -> Groups:
    """Many subjects with 1 to 20 metrics each."""
    size = np.random.default_rng(seed).integers(1, 21, subjects)
    second, subject = np.repeat(np.arange(times), subjects), np.tile(np.arange(subjects), times)
    return Groups(second, subject, size[subject])


def next_fit(groups: Groups) -> int:
    """The parcels of the vendor's way."""
    parcels, load = 1, 0
    for size in groups.size.tolist():
        if load + size > N:
            parcels, load = parcels + 1, 0
        load += size
    return parcels


def parcels_of(table: pa.Table, order: str) -> int:
    """The parcels of ours."""
    return int(pc.max(assign_parcels(table, PackRules(N, order=order)).column("parcel_number")).as_py())


def fewest(groups: Groups) -> int | None:
    """The fewest parcels in the order of time, by trying everything; None where too many groups tie for that."""
    ends = np.flatnonzero(np.diff(groups.second)) + 1
    tied = [[(items, 0) for items in part.tolist()] for part in np.split(groups.size, ends)]
    return fewest_in_time_order(tied, (N, 0)) if max(map(len, tied)) <= MOST_TRIED else None


def show_fill(rows: int) -> None:
    """Print how many parcels each way needs for about so many measurements."""
    shown = Table(title=f"Stage 2: parcels of at most {N}", title_justify="left")
    for name in ("groups", "total ÷ N", "next-fit", "time, fewest", "time, ours", "subject, ours"):
        shown.add_column(name, justify="left" if name == "groups" else "right")
    sets = {
        "of 120 to 260, 60 at a time": dense(max(1, rows // 11_400)),
        "of 100 to 350, 2 at a time": sparse(max(1, rows // 450)),
        "of 1 to 20, 2,000 at a time": small(max(1, rows // 21_000)),
    }
    for name, groups in sets.items():
        table, least = groups.table(), -(-int(groups.size.sum()) // N)
        counts = [next_fit(groups), fewest(groups), parcels_of(table, "time"), parcels_of(table, "subject")]
        shown.add_row(name, f"{least:,}", *(_over(count, least) for count in counts))
    console.print(shown)


def _over(count: int | None, least: int) -> str:
    return "too many to try" if count is None else f"{count:,} (+{count / least - 1:.1%})"


def show_look_ahead(rows: int) -> None:
    """Print what the look-ahead of `order="subject"` gives and costs: the parcels, and the rows that wait meanwhile."""
    shown = Table(title="Stage 2: looking ahead, sparse groups", title_justify="left")
    for name in ("parcels ahead", "parcels", "over the least", "rows looked at"):
        shown.add_column(name, justify="right")
    groups = sparse(max(1, rows // 450))
    least = -(-int(groups.size.sum()) // N)
    for ahead in (1, 2, 4, 8, 16, 32, 64):
        count = _parcels_ahead(groups, ahead)
        shown.add_row(str(ahead), f"{count:,}", f"{count / least - 1:.1%}", f"{ahead * N:,}")
    console.print(shown)


def _parcels_ahead(groups: Groups, ahead: int) -> int:
    """The parcels of the rule alone, on numbers."""
    nothing = columns.frozen(np.zeros(int(groups.size.sum()), np.int64))
    begin, size = np.cumsum(groups.size) - groups.size, columns.frozen(groups.size.copy())
    taken = pack_kernel.Groups(
        columns.frozen(begin), size, nothing[: size.size], columns.frozen(groups.subject.astype(np.int32)), nothing
    )
    states = np.zeros(1, pack_kernel.STATE)
    limits = pack_kernel.Limits(N, -1, ahead)
    desk = pack_kernel.desk_of(limits, taken, nothing.size, size.size, int(groups.subject.max()) + 1, states)
    pack_kernel.pack_by_subject(desk, True)
    return int(states["parcel"][0])


def sort_alone(table: pa.Table) -> None:
    """What any packer must do first, by pyarrow."""
    table.take(pc.sort_indices(table, sort_keys=[(name, "ascending") for name in ("event_time", "key", "type")]))


def run(rows: int) -> Figures:
    """All figures of stage 2."""
    show_fill(rows)
    show_look_ahead(rows)
    figures = Figures("Stage 2: the packer")
    tables = {
        "groups of 120 to 260": dense(max(1, rows // 11_400)).table(),
        "groups of 100 to 350, sparse": sparse(max(1, rows // 450)).table(),
        "groups of 1 to 20": small(max(1, rows // 21_000)).table(),
    }
    for name, table in tables.items():
        count = table.num_rows
        figures.add(name, "sorting alone, pyarrow", count, seconds(partial(sort_alone, table), 3))
        for order in ("time", "subject"):
            work = partial(assign_parcels, table, PackRules(N, order=order))
            figures.add(name, f'assign_parcels, order="{order}"', count, seconds(work, 3))
        work = partial(assign_parcels, table, PackRules(N, order="subject"), 16)
        figures.add(name, "the same, 16 lanes", count, seconds(work, 3))
    return figures
