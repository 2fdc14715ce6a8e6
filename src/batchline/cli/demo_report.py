"""What a run of the demo shows at its end: charts, figures and statements, on a terminal and as a page."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from rich.console import RenderableType
from rich.text import Text

from batchline.cli import screen
from batchline.cli.demo_checks import Statement
from batchline.cli.demo_evidence import Evidence
from batchline.cli.demo_receiver import Arrival
from batchline.cli.explain import rows_since
from batchline.core.moment import span_text, us_of
from batchline.pictures.bars import Bars, Histogram, histogram_of, quantile
from batchline.pictures.series import Chart, Curve, Stretch
from batchline.pictures.series_terminal import draw_charts

if TYPE_CHECKING:
    from batchline.pictures.windows import WindowsPicture

__all__ = ["charts_of", "delivered_chart", "most_eventful", "page_of", "pauses_of", "report_lines", "seconds_to_arrive"]

#: How many batches the picture shows.
SHOWN: Final = 12
SECOND_US: Final = 1_000_000
QUANTILES: Final = ((0.5, "p50"), (0.99, "p99"))
#: What became of what came, in the order in which it is stacked, with its colour; None is what is not well.
ANSWERS: Final = {
    "taken": ("taken", 2),
    "cut": ("taken and cut", 3),
    "repeated": ("came again", 0),
    "failed": ("answered 500", 1),
    "throttled": ("answered 429", None),
}


# --- charts -----------------------------------------------------------------------------------------------------------


def delivered_chart(arrivals: Sequence[Arrival], capacity: float) -> Chart:
    """What came to the receiver within each second, by its answer, against the capacity; pauses are marked."""
    seconds = int(_since(arrivals, arrivals[-1])) + 1 if arrivals else 1
    sums: dict[str, list[float]] = {answer: [0.0] * seconds for answer in ANSWERS}
    for one in arrivals:
        sums[one.answer][int(_since(arrivals, one))] += one.count
    curves = [Curve(name, sums[answer], colour) for answer, (name, colour) in ANSWERS.items() if any(sums[answer])]
    return Chart(
        "Delivered against capacity",
        "measurements a second",
        curves,
        limit=capacity,
        limit_name="capacity",
        summed=True,
        stretches=pauses_of(arrivals),
    )


def pauses_of(arrivals: Sequence[Arrival]) -> list[Stretch]:
    """From each time that the receiver said 429 until something came again."""
    pauses: list[Stretch] = []
    throttled: Arrival | None = None
    for one in arrivals:
        if throttled is not None and one.at_s - throttled.at_s > 0.3:
            pauses.append(Stretch(_since(arrivals, throttled), _since(arrivals, one), "pause"))
        throttled = one if one.answer == "throttled" else None
    return pauses


def _since(arrivals: Sequence[Arrival], one: Arrival) -> float:
    return one.at_s - arrivals[0].at_s


def batches_chart(evidence: Evidence) -> Chart:
    """How many batches closed within each second of the fleet's time, by why."""
    from batchline.columnar.columns import times_of

    closed_us = times_of(evidence.batches, "closed_at").tolist()
    reasons = evidence.batches.column("close_reason").to_pylist()
    first_us = min(closed_us, default=0)
    seconds = (max(closed_us, default=0) - first_us) // SECOND_US + 1
    sums: dict[str, list[float]] = {reason: [0.0] * seconds for reason, _ in Counter(reasons).most_common()}
    for reason, at_us in zip(reasons, closed_us, strict=True):
        sums[reason][(at_us - first_us) // SECOND_US] += 1
    curves = [Curve(reason, values, place) for place, (reason, values) in enumerate(sums.items())]
    return Chart("Batches per second", "batches that closed within a second", curves)


def fill_chart(evidence: Evidence) -> Histogram:
    """How many measurements parcels hold."""
    sizes = [len(parcel) for parcel in evidence.held.values()]
    most = evidence.pipeline.pack.max_items
    return histogram_of("Fill of parcels", "parcels", "measurements in a parcel", sizes, top=most)


def rejections_chart(evidence: Evidence) -> Bars:
    """How many lines were rejected, by reason."""
    reasons = {name: len(found) for name, found in evidence.rejections.items()} | {"malformed": evidence.malformed}
    return Bars("Rejections by reason", "lines", [(name, count) for name, count in reasons.items() if count])


def seconds_to_arrive(evidence: Evidence) -> list[float]:
    """Of each measurement, how long it took from its event to the receiver, in seconds.

    Its event is of the fleet's clock, the run of ours: so it is the time from the event to its receipt, by the fleet's
    clock, and that from when its file had landed until its parcel arrived, by ours.
    """
    from batchline.columnar.columns import receive_times_of

    received_us = receive_times_of(evidence.fleet).tolist()
    first = {one.parcel: one.at_s for one in evidence.arrivals if one.is_first}
    return [
        (received_us[sequence] - us_of(datetime.fromisoformat(event_time))) / SECOND_US
        + first[parcel]
        - evidence.landed.landed_at_s(sequence)
        for parcel, measurements in evidence.held.items()
        for _, _, event_time, sequence in measurements
    ]


def arrival_chart(seconds: Sequence[float]) -> Histogram:
    """How long measurements took to the receiver."""
    marks = [(quantile(seconds, share), f"{name} {quantile(seconds, share):.1f} s") for share, name in QUANTILES]
    # A clock that runs ahead makes an event later than its receipt.
    values = [max(one, 0.0) for one in seconds]
    return histogram_of("Time from event to delivery", "measurements", "seconds", values, bins=80, marks=marks)


# --- the windows of one device ----------------------------------------------------------------------------------------


def most_eventful(evidence: Evidence) -> "WindowsPicture":
    """The stretch of one device in which the most different things happen: rejections by reason, a split."""
    import pyarrow.compute as pc

    from batchline.pictures.windows import picture_of

    rows, window_us = evidence.assigned, evidence.pipeline.batch.window_us
    began = pc.min(rows.column("receive_time"))
    stretch = pc.divide(pc.microseconds_between(began, rows.column("receive_time")), SHOWN * window_us)
    length = pc.microseconds_between(rows.column("batch_start"), rows.column("batch_end"))
    marked = rows.append_column("stretch", stretch).append_column("split", pc.less(length, window_us))
    sums = [("verdict", "count_distinct"), ("split", "max"), ("batch_id", "count_distinct")]
    order = [(f"{name}_{how}", "descending") for name, how in sums] + [("key", "ascending"), ("stretch", "ascending")]
    best = marked.group_by(["key", "stretch"]).aggregate(sums).sort_by(order)
    key, number = (best.column(name)[0].as_py() for name in ("key", "stretch"))
    from_us = began.cast("int64").as_py() + number * SHOWN * window_us
    return picture_of(rows_since(rows.filter(pc.equal(rows.column("key"), key)), from_us), key, limit=SHOWN)


# --- on a terminal ----------------------------------------------------------------------------------------------------


def report_lines(evidence: Evidence, seconds: Sequence[float], width: int) -> Iterator[RenderableType]:
    """What a terminal shows, before the statements."""
    from batchline.pictures.terminal import draw

    yield draw(most_eventful(evidence), width)
    yield ""
    verdicts = {"batched": evidence.batched.num_rows} | {name: int(n) for name, n in rejections_chart(evidence).bars}
    yield screen.counts(f"{evidence.landed.lines:,} lines", verdicts)
    yield ""
    yield draw_charts([delivered_chart(evidence.arrivals, evidence.capacity)], width)
    yield ""
    yield from (Text.assemble((f"{name:<24}", "dim"), said) for name, said in figures_of(evidence, seconds).items())


def figures_of(evidence: Evidence, seconds: Sequence[float]) -> dict[str, str]:
    """A few figures, as texts."""
    sizes = [len(parcel) for parcel in evidence.held.values()]
    most = evidence.pipeline.pack.max_items
    arrivals = evidence.arrivals
    took_s = _since(arrivals, arrivals[-1]) if arrivals else 0.0
    rate = sum(sizes) / took_s if took_s else 0.0
    return {
        "parcels": f"{len(sizes):,}, {sum(sizes) / (len(sizes) * most or 1):.1%} full; at most {most} measurements",
        "delivery": f"{took_s:.1f} s, {rate:,.0f} measurements a second of {evidence.capacity:,.0f}",
        "from event to delivery": ", ".join(f"{name} {quantile(seconds, share):.1f} s" for share, name in QUANTILES),
    }


# --- as a page --------------------------------------------------------------------------------------------------------


def charts_of(evidence: Evidence, seconds: Sequence[float]) -> Iterator[tuple[str, str, str]]:
    """Every chart: its title, what it shows, and its drawing."""
    from batchline.pictures.bars_svg import bars_svg, histogram_svg
    from batchline.pictures.series_svg import chart_svg

    delivered, batches = delivered_chart(evidence.arrivals, evidence.capacity), batches_chart(evidence)
    fill, rejections, arrival = fill_chart(evidence), rejections_chart(evidence), arrival_chart(seconds)
    yield delivered.title, DELIVERED, chart_svg(delivered)
    yield arrival.title, ARRIVAL, histogram_svg(arrival, 4)
    rules = evidence.pipeline.batch
    yield batches.title, BATCHES.format(span_text(rules.window), span_text(rules.max_delay)), chart_svg(batches)
    yield rejections.title, REJECTIONS, bars_svg(rejections, 1)
    yield fill.title, FILL.format(evidence.pipeline.pack.max_items), histogram_svg(fill, 2)


DELIVERED: Final = (
    "What came to the receiver within each second since the first parcel, one answer on top of the other; by its own "
    "record. Twice it is busy, and takes a fraction: it answers 429, and the dispatcher pauses, for at least as long "
    "as Retry-After asks for. What fails or is cut comes again, later."
)
ARRIVAL: Final = (
    "The fleet's measurements are of a day of their own, so two clocks are added up: from the event to its receipt by "
    "the fleet's clock, which ends where its file lands; and from the landed file until its parcel first reached the "
    "receiver, by this machine's clock. All files had landed when Spark began, so most of it is the start of the job, "
    "and then waiting for capacity."
)
BATCHES: Final = (
    "How many batches closed within each second, by the fleet's clock. A batch holds what a device measured within {}, "
    "one measurement of a type. It stays open for {} more, for what was held up on its way."
)
REJECTIONS: Final = "Rejected lines are kept, with their reason: nothing is dropped."
FILL: Final = "How many measurements each parcel holds, of at most {}. The last parcel of a lane has what is left."


def page_of(evidence: Evidence, seconds: Sequence[float], statements: Sequence[Statement], title: str) -> str:
    """The run as a page."""
    from batchline.pictures.page import Section, page
    from batchline.pictures.svg import svg

    picture = most_eventful(evidence)
    holds = all(statement.holds for statement in statements)
    windows = (
        "Where the most different things happen. A dot is a measurement at the time it was made; the thin line from it "
        "leads to when it was received."
    )
    return page(
        title,
        [
            Section(
                "What was checked" if holds else "What was checked, and does not hold",
                "Against the receiver's own record, the files that Spark has written, the tracker and the timeline.",
                points=[(one.holds, f"{one.said}{f': {one.why_not}' if one.why_not else ''}") for one in statements],
            ),
            Section("The path", rows=stage_rows(evidence, figures_of(evidence, seconds))),
            *(Section(name, text, pictures=[drawing]) for name, text, drawing in charts_of(evidence, seconds)),
            Section(f"The windows of {picture.key}", windows, pictures=[svg(picture)]),
        ],
    )


def stage_rows(evidence: Evidence, figures: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """A row for each stage: its name, how many, and of what."""
    answers = Counter(one.answer for one in evidence.arrivals)
    rejected = evidence.landed.lines - evidence.batched.num_rows
    return [
        ("source", f"{evidence.landed.lines:,}", f"lines in {len(evidence.landed.at_s)} files"),
        (
            "batches",
            f"{evidence.batches.num_rows:,}",
            f"of {evidence.batched.num_rows:,} measurements; {rejected:,} lines rejected",
        ),
        ("parcels", f"{len(evidence.held):,}", figures["parcels"].partition(", ")[2]),
        ("timeline", f"{sum(one.total for one in evidence.fanouts):,}", "parcels, each an item of the fanout"),
        ("dispatcher", f"{answers.total():,}", f"parcels sent in {figures['delivery']}"),
        ("sink", f"{answers['taken'] + answers['cut']:,}", "parcels taken, each once"),
        (
            "ack",
            f"{sum(one.acked for one in evidence.fanouts):,}",
            "parcels acknowledged to the tracker",
        ),
    ]
