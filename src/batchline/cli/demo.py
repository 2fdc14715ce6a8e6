"""`batchline demo`: the sample fleet through the path, with something to see at the end. `make run` runs it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from batchline import __version__
from batchline.cli import batch, screen
from batchline.cli.explain import rows_since
from batchline.core.batch_rules import BatchRules
from batchline.core.batcher import EventTimeBatcher
from batchline.core.measurement import Measurement
from batchline.core.moment import span_text
from batchline.errors import BatchlineError
from batchline.runtime.clock import elapsed_seconds

if TYPE_CHECKING:
    from batchline.local import Batched
    from batchline.pictures.windows import WindowsPicture

#: How many batches the picture shows.
SHOWN = 12


def demo(
    out: Annotated[Path, typer.Option("--out", help="The directory to write the page and the data to.")],
    devices: Annotated[int, typer.Option(help="How many devices.", min=1)] = 100,
    minutes: Annotated[float, typer.Option(help="For how long they measure.", min=0.5)] = 5,
    seed: Annotated[int, typer.Option(help="The same seed gives the same fleet.", min=0)] = 2,
) -> None:
    """Send a sample fleet through the path and show what became of it.

    [bold]Examples[/]

      batchline demo --out demo
      batchline demo --out demo --devices 1000 --seed 7
    """
    from batchline.local import batch_table, write_batched
    from batchline.pictures.svg import svg
    from batchline.pictures.terminal import draw
    from batchline.sinks.files import write_table, write_text
    from batchline.sources.sample import Fleet, sample_fleet

    rules = BatchRules()
    screen.out.print(f"[bold]Batchline {__version__}[/] · {devices:,} devices measure for {minutes:g} minutes")
    with screen.err.status("making the fleet"):
        fleet = sample_fleet(Fleet(devices=devices, minutes=minutes, seed=seed))
        write_table(fleet, out / "measurements.parquet")
    with screen.err.status("compiling the kernel: about ten seconds, the first time only"):
        batch_table(fleet.slice(0, 0), rules)
    with screen.err.status("batching"):
        began = elapsed_seconds()
        batched = batch_table(fleet, rules)
        took_seconds = elapsed_seconds() - began
    summary = batched.summary()
    batch.show(summary, rules, took_seconds)
    with screen.err.status("the same once more, message by message"):
        replayed = replay(batched)
    screen.out.print(f"[green]✓[/] message by message, the library gives the same {replayed:,} batches and ids")
    screen.out.print("[green]✓[/] every message is in exactly one batch, or rejected with a reason\n")
    picture = most_eventful(batched)
    screen.out.print(draw(picture, screen.out.width))
    write_batched(batched, summary, out)
    drawing = svg(picture)
    for name, text in {"windows.svg": drawing, "index.html": page_of(summary, rules, picture.key, drawing)}.items():
        screen.out.print(f"[dim]see[/] {screen.plain(str(write_text(text, out / name)))}", soft_wrap=True)


def replay(batched: "Batched") -> int:
    """Batch every row again with the plain batcher; how many batches that gave. It must agree to the message."""
    from batchline.columnar.columns import receive_times_of, times_of

    table = batched.assigned
    names = (table.column(name).to_pylist() for name in ("key", "type"))
    times = (times_of(table, "event_time").tolist(), receive_times_of(table).tolist())
    rows = zip(*names, *times, range(table.num_rows), strict=True)
    batcher = EventTimeBatcher(batched.rules)
    verdicts = [batcher.add(Measurement.from_us(*row)) for row in rows]
    batcher.flush()
    batches = batcher.closed()
    placed = [(message.payload, one.id) for one in batches for message in one.messages]
    ids = dict(placed)
    same = [v.value for v in verdicts] == table.column("verdict").to_pylist()
    same &= [ids.get(row) for row in range(table.num_rows)] == table.column("batch_id").to_pylist()
    once = len(placed) == len(ids) == sum(verdict.accepted for verdict in verdicts)
    if not (same and once):
        raise BatchlineError("the plain batcher and the columnar one disagree; please report this with the seed used")
    return len(batches)


def most_eventful(batched: "Batched") -> "WindowsPicture":
    """The stretch of one device in which the most different things happen: rejections by reason, a split."""
    import pyarrow.compute as pc

    from batchline.pictures.windows import picture_of

    rows, window_us = batched.assigned, batched.rules.window_us
    began = pc.min(rows.column("receive_time"))
    stretch = pc.divide(pc.microseconds_between(began, rows.column("receive_time")), SHOWN * window_us)
    length = pc.microseconds_between(rows.column("batch_start"), rows.column("batch_end"))
    marked = rows.append_column("stretch", stretch).append_column("split", pc.less(length, window_us))
    sums = [("verdict", "count_distinct"), ("split", "max"), ("batch_id", "count_distinct")]
    best = (
        marked.group_by(["key", "stretch"])
        .aggregate(sums)
        .sort_by(
            [(f"{name}_{how}", "descending") for name, how in sums] + [("key", "ascending"), ("stretch", "ascending")]
        )
    )
    key, number = (best.column(name)[0].as_py() for name in ("key", "stretch"))
    from_us = began.cast("int64").as_py() + number * SHOWN * window_us
    return picture_of(rows_since(rows.filter(pc.equal(rows.column("key"), key)), from_us), key, limit=SHOWN)


def page_of(summary: dict[str, Any], rules: BatchRules, key: str, drawing: str) -> str:
    """The run as a page."""
    from batchline.pictures.page import Section, page

    verdicts = {"batched": summary["batched"]} | summary["rejected"]
    read = summary["read"] or 1
    return page(
        "Batchline · a sample fleet",
        [
            Section(
                f"{summary['read']:,} measurements of {summary['keys']:,} devices",
                "Each is in exactly one batch, or rejected with a reason. The same input gives the same batches.",
                columns=("verdict", "measurements", "share"),
                rows=[(name, f"{count:,}", f"{count / read:.2%}") for name, count in verdicts.items()],
            ),
            Section(
                f"{summary['batches']:,} batches",
                f"A batch holds what a device measured within {span_text(rules.window)}, one measurement of a type. It "
                f"stays open for {span_text(rules.max_delay)} more, for what was held up on its way.",
                columns=("closed by", "batches"),
                rows=[(name, f"{count:,}") for name, count in summary["closed"].items()],
            ),
            Section(
                f"The windows of {key}",
                "Where the most different things happen. A dot is a measurement at the time it was made; the thin line "
                "from it leads to when it was received.",
                pictures=[drawing],
            ),
        ],
    )
