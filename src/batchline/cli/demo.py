"""`batchline demo`: the sample fleet through the whole path, with something to see. `make run` runs it.

the fleet's files ──► Spark: batches, parcels ──► SQLite ──► worker ──► a receiver that is not always well
"""

import random
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote

import typer

from batchline import __version__
from batchline.cli import screen
from batchline.cli.demo_receiver import Receiver, Temper
from batchline.core.pack_rules import PackRules
from batchline.core.pipeline import Capacity, Pipeline, Publication, SinkAddress, Source, Work
from batchline.errors import BatchlineError, InvalidFile
from batchline.runtime.clock import elapsed_seconds

if TYPE_CHECKING:
    import pyarrow as pa

    from batchline.cli.demo_evidence import Evidence
    from batchline.cli.demo_landing import Landed

#: What a run leaves in its directory, and the next one begins with removing.
LEFT: Final = (
    "landing",
    "results",
    "batchline.db",
    "batchline.db-wal",
    "batchline.db-shm",
    "index.html",
    "windows.svg",
)
NAME: Final = "demo"
RESULTS: Final = "results"
LANES: Final = 8
#: Measurements in a parcel at most.
PARCEL: Final = 200
#: About how long delivery takes, if nobody says how much the receiver takes.
SECONDS: Final = 18
ROUND: Final = 500


def demo(
    out: Annotated[Path, typer.Option("--out", help="The directory to write the page and the data to.")],
    devices: Annotated[int, typer.Option(help="How many devices.", min=1)] = 100,
    minutes: Annotated[float, typer.Option(help="For how long they measure.", min=0.5)] = 5,
    seed: Annotated[int, typer.Option(help="The same seed gives the same fleet and the same faults.", min=0)] = 2,
    capacity: Annotated[
        float | None,
        typer.Option(help="Measurements to deliver a second; else as many as take about 18 s.", min=1),
    ] = None,
    stay: Annotated[
        bool, typer.Option("--stay", help="Then serve the pages over what the run has left, until Ctrl-C.")
    ] = False,
    listen: Annotated[
        str, typer.Option("--listen", help="Where the pages are served, with --stay.", metavar="HOST:PORT")
    ] = "127.0.0.1:8080",
) -> None:
    """Send a sample fleet through the whole path, on local Spark and SQLite, and check what became of it.

    Files with a few lines that are none, batches, parcels, the timeline, a worker within its capacity, and a receiver
    on this machine that throttles, fails and cuts connections. At the end stands what was checked, and a page in --out.
    A run begins anew: what an earlier one has left in --out, ended or killed, is removed.

    The exit code is 0 if everything that is said at the end is true, 1 if not.

    [bold]Examples[/]

      batchline demo --out demo
      batchline demo --out demo --devices 20 --minutes 1 --seed 7
      batchline demo --out demo --devices 300 --capacity 50000
      batchline demo --out demo --stay
    """
    from batchline.sources.sample import Fleet, sample_fleet

    if stay:
        check_free(listen)
    title = f"Batchline {__version__} · {devices:,} devices measure for {minutes:g} minutes"
    screen.out.print(f"[bold]{title}[/]", highlight=False)
    began_s = elapsed_seconds()
    with kernels_compiled() as ready:
        with screen.err.status("making the fleet"):
            fleet = sample_fleet(Fleet(devices=devices, minutes=minutes, seed=seed))
            landed = begin_anew(fleet, out, seed)
        per_second = capacity or capacity_for(landed.measurements)
        with Receiver(temper_of(per_second, seed)) as receiver:
            pipeline = pipeline_of(out, per_second, receiver.url)
            run(pipeline, landed, receiver, ready)
    all_true = report(evidence(pipeline, fleet, landed, receiver), out, title, began_s)
    leave(out, listen if stay else None, all_true=all_true)


# --- its parts --------------------------------------------------------------------------------------------------------


def check_free(listen: str) -> None:
    """Where it is to stay can be listened: said before the run, and not after it."""
    from batchline.service.listening import listening

    with listening(listen, insecure=False):
        return


@contextmanager
def kernels_compiled() -> Iterator[Callable[[], None]]:
    """Compile the kernels, the first time only, while something else begins; what is given waits until they are."""
    compiling = threading.Thread(target=_compile_quietly, name="demo-kernels", daemon=True)
    compiling.start()

    def ready() -> None:
        with screen.err.status("compiling the kernels: half a minute, the first time only"):
            compiling.join()

    try:
        yield ready
    finally:
        compiling.join()


def _compile_quietly() -> None:
    # Whatever is wrong is wrong for Spark's tasks, too, and said there.
    with suppress(BatchlineError, ImportError):
        _compile()


def _compile() -> None:
    """Call them as Spark's tasks do, with next to nothing."""
    from batchline.columnar import assign_parcels
    from batchline.columnar.assign import answer, us_until
    from batchline.columnar.names import Names
    from batchline.core.batch_rules import BatchRules
    from batchline.sources.sample import Fleet, sample_fleet

    rows = sample_fleet(Fleet(devices=2, minutes=0.1))
    ordered = rows.append_column("order_0", rows.column("sequence"))
    answer(ordered, BatchRules(), Names(size="size", order=("sequence",)), us_until(None))
    assign_parcels(rows, PackRules(max_items=PARCEL))


def begin_anew(fleet: "pa.Table", out: Path, seed: int) -> "Landed":
    """Remove what an earlier run has left, and land the fleet."""
    from batchline.cli.demo_landing import land

    try:
        for name in LEFT:
            path = out / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    except OSError as error:
        raise InvalidFile(f"{out} cannot be cleared for a new run: {error}") from error
    return land(fleet, out / "landing", seed)


def capacity_for(measurements: int) -> float:
    """A round number of measurements a second, so that delivery can be watched and ends."""
    return max(round(measurements / SECONDS / ROUND) * ROUND, ROUND)


def temper_of(per_second: float, seed: int) -> Temper:
    """A receiver that takes more than is sent, except twice, when it is busy."""
    chance = random.Random(seed)  # noqa: S311 - the same seed, the same faults
    begins = chance.uniform(4, 6), chance.uniform(11, 13)
    return Temper(per_second * 1.5, per_second / 4, [(begin, begin + 2) for begin in begins], seed=seed)


def store_in(out: Path) -> str:
    """The address of the store of a run."""
    return f"sqlite:///{quote(str(out.absolute()))}/batchline.db"


def pipeline_of(out: Path, per_second: float, url: str) -> Pipeline:
    """The pipeline, as a file of TOML would describe it."""
    return Pipeline(
        NAME,
        Source(str(out / "landing"), order=("sequence",)),
        Publication(store_in(out), lanes=LANES, tell="completed"),
        str(out / RESULTS),
        pack=PackRules(max_items=PARCEL),
        capacity=Capacity(per_second, cost="measurement"),
        sink=SinkAddress(url),
        work=Work(concurrency=LANES),
    )


def run(pipeline: Pipeline, landed: "Landed", receiver: Receiver, ready: Callable[[], None]) -> None:
    """Run the pipeline, and show how it goes."""
    from batchline.cli.demo_stages import Stages
    from batchline.cli.engines import engine_of, spark_session
    from batchline.flow import run_once

    engine_of("spark")
    with spark_session(pipeline.master) as spark:
        ready()
        per_second = pipeline.capacity.per_second if pipeline.capacity else 0
        stages = Stages(landed, receiver, Path(pipeline.out), per_second, pipeline.publish.lanes)
        with stages.shown():
            run_once(pipeline, spark, watch=stages.watch)


def evidence(pipeline: Pipeline, fleet: "pa.Table", landed: "Landed", receiver: Receiver) -> "Evidence":
    """What is left of the run."""
    from batchline.cli.demo_evidence import evidence_of
    from batchline.stores import open_store

    (summary,) = Path(pipeline.out).glob("*/summary.json")
    with open_store(pipeline.publish.store) as store:
        return evidence_of(pipeline, fleet, landed, receiver, summary.parent, store)


def report(evidence: "Evidence", out: Path, title: str, began_s: float) -> bool:
    """Show what became of everything; tells whether all that is said is true."""
    from batchline.cli.demo_evidence import statements_of
    from batchline.cli.demo_report import most_eventful, page_of, report_lines, seconds_to_arrive
    from batchline.pictures.svg import svg
    from batchline.sinks.files import write_text

    with screen.err.status("checking: every measurement once more, message by message"):
        statements = statements_of(evidence)
        seconds = seconds_to_arrive(evidence)
    for line in ("", *report_lines(evidence, seconds, screen.out.width), ""):
        screen.out.print(line, highlight=False)
    for one in statements:
        screen.say(f"[green]✓[/] {one.said}" if one.holds else f"[bold red]✗[/] {one.said}: [red]{one.why_not}[/]")
    write_text(svg(most_eventful(evidence)), out / "windows.svg")
    page = write_text(page_of(evidence, seconds, statements, title), out / "index.html")
    screen.say(f"[dim]{elapsed_seconds() - began_s:.0f} s in all; see[/] {screen.plain(str(page))}")
    return all(one.holds for one in statements)


def leave(out: Path, listen: str | None, *, all_true: bool) -> None:
    """Stay with the pages over what a run has left, or say how to see them; end badly if something was not true."""
    if listen is not None:
        stay_with(out, listen)
    else:
        place = screen.plain(str(out))
        screen.say(
            f"[dim]its pages: batchline serve --store sqlite:///{place}/batchline.db --tables {place}/results[/]"
        )
    if not all_true:
        raise typer.Exit(1)


def stay_with(out: Path, listen: str) -> None:
    """Serve the pages over what a run has left."""
    from batchline.cli.serving import serve_store
    from batchline.stores import open_store

    with open_store(store_in(out)) as store:
        what = "the pages over what the run has left, until Ctrl-C,"
        serve_store(store, listen, tables=out / RESULTS, what=what)
