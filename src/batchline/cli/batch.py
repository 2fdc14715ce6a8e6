"""`batchline batch`: files in, batches out."""

import shutil
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from batchline.cli import engines, following, options, screen
from batchline.cli.options import (
    Anchor,
    Checkpoint,
    Clock,
    Columns,
    Engine,
    Follow,
    Input,
    Json,
    LeapLimit,
    Master,
    MaxBytes,
    MaxDelay,
    Once,
    Order,
    Skew,
    Split,
    Window,
)
from batchline.core.batch_rules import BatchRules
from batchline.core.moment import span_text
from batchline.errors import InvalidInput
from batchline.runtime.clock import elapsed_seconds

DEFAULT = BatchRules()


def batch(
    path: Input,
    out: Annotated[Path, typer.Option("--out", help="The directory to write the results to.")],
    window: Window = DEFAULT.window,
    max_delay: MaxDelay = DEFAULT.max_delay,
    leap_limit: LeapLimit = DEFAULT.leap_limit,
    max_bytes: MaxBytes = DEFAULT.max_bytes,
    anchor: Anchor = DEFAULT.anchor,
    split: Split = DEFAULT.split,
    columns: Columns = "",
    order: Order = "",
    json: Json = False,
    engine: Engine = None,
    master: Master = None,
    follow: Follow = False,
    once: Once = False,
    skew: Skew = None,
    clock: Clock = None,
    checkpoint: Checkpoint = None,
) -> None:
    """Sort measurements into batches by event time: the same input, the same ids.

    [bold]Writes[/]

      batched.parquet    every accepted measurement, with its batch
      batches.parquet    a row per batch
      rejected.parquet   what is late, future, duplicate or oversize
      malformed.jsonl    lines that are no measurements, and why
      summary.json       last: where it is, all is

    With --follow, directories of the same names with epoch=N in them.

    [bold]Examples[/]

      batchline batch fleet/measurements.parquet --out results
      batchline batch landing --out results --window 2s --max-delay 5s
      batchline batch log.csv --out results --columns key=host,event_time=t
      batchline batch fleet --out results --engine local --json | jq .rejected
      batchline batch landing --out results --follow --skew 2s
    """
    rules = BatchRules(
        window=window, max_delay=max_delay, leap_limit=leap_limit, max_bytes=max_bytes, anchor=anchor, split=split
    )
    names, order_by = options.names_of(columns), options.list_of(order)
    if path.is_dir() and out.resolve().is_relative_to(path.resolve()):
        raise InvalidInput(f"--out {out} lies inside the input {path}; the next run would read its own results")
    engine = engines.engine_of(engine, follow)
    of_follow = {"--once": once, "--skew": skew, "--clock": clock, "--checkpoint": checkpoint}
    check_options(engine, master, follow, of_follow)
    began = elapsed_seconds()
    if follow:
        where = checkpoint or str(out / ".checkpoint")
        span = skew or timedelta(0)
        asked = following.Asked(path, out, names, rules, order_by, where, span, clock or "data", once)
        summary = following.follow_directory(asked, master)
    elif engine == "spark":
        summary = on_spark(master, path, names, rules, order_by, out)
    else:
        summary = in_this_process(path, names, rules, order_by, out)
    if json:
        screen.say_json(summary)
    elif follow:
        following.show(summary, out)
    else:
        show(summary, rules, elapsed_seconds() - began)
        screen.out.print(f"[dim]results in {screen.plain(str(out))}/[/]")


def check_options(engine: str, master: str | None, follow: bool, of_follow: Mapping[str, Any]) -> None:
    """Options that are of no use together are refused: whoever gives them expects something."""
    if engine == "local" and follow:
        raise InvalidInput("--follow runs on Spark: it cannot be had with --engine local")
    if engine == "local" and master is not None:
        raise InvalidInput("--master says where Spark runs: it cannot be had with --engine local")
    given = [name for name, value in of_follow.items() if value not in (None, False)]
    if given and not follow:
        raise InvalidInput(f"{given[0]} needs --follow")


def on_spark(
    master: str | None, path: Path, names: Mapping[str, str], rules: BatchRules, order: Sequence[str], out: Path
) -> dict[str, Any]:
    """The run on Spark."""
    from batchline.sources.files import files_of
    from batchline.spark.running import run_batch

    files_of(path)  # before Spark is started for nothing
    with engines.spark_session(master) as spark, screen.steps() as watch:
        return run_batch(spark, path, names, rules, order, out, watch)


def in_this_process(
    path: Path, names: Mapping[str, str], rules: BatchRules, order: Sequence[str], out: Path
) -> dict[str, Any]:
    """The run in memory."""
    from batchline.local import batch_reading, read_files, write_batched

    with screen.steps() as watch:
        batched = batch_reading(read_files(path, names, watch), rules, order, watch)
        summary = batched.summary()
        remove_parts(out)
        write_batched(batched, summary, out, watch)
    return summary


def remove_parts(out: Path) -> None:
    """Remove what a run on Spark has left: a file cannot take the place of a directory."""
    from batchline.sinks.files import remove_file

    for name in ("batched.parquet", "batches.parquet", "rejected.parquet"):
        if (out / name).is_dir():
            remove_file(out / "summary.json")
            shutil.rmtree(out / name)


def show(summary: dict[str, Any], rules: BatchRules, took_seconds: float) -> None:
    """The summary for a person."""
    spans = " · ".join(f"{name} {span_text(getattr(rules, name))}" for name in ("window", "max_delay", "leap_limit"))
    verdicts = {"batched": summary["batched"]} | summary["rejected"]
    screen.out.print(f"[dim]{spans.replace('_', ' ')} · anchor {rules.anchor}[/]")
    screen.out.print(screen.counts(f"{summary['read']:,} read", verdicts), "")
    screen.out.print(screen.counts(f"{summary['batches']:,} batches closed by", summary["closed"]), "")
    fill = summary["batched"] / (summary["batches"] or 1)
    rate = summary["read"] / took_seconds if took_seconds else 0
    screen.out.print(
        f"{fill:.1f} messages a batch · {summary['keys']:,} keys · {summary['types']:,} types · "
        f"{took_seconds:.1f} s, {rate:,.0f} messages a second"
    )
