"""`batchline batch`: files in, batches out."""

from pathlib import Path
from typing import Annotated, Any

import typer

from batchline.cli import options, screen
from batchline.cli.options import Anchor, Columns, Input, Json, LeapLimit, MaxBytes, MaxDelay, Order, Split, Window
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
) -> None:
    """Sort measurements into batches by event time: the same input, the same ids.

    [bold]Writes[/]

      batched.parquet    every accepted measurement, with its batch
      batches.parquet    a row per batch
      rejected.parquet   what is late, future, duplicate or oversize
      malformed.jsonl    lines that are no measurements, and why
      summary.json       last: where it is, all is

    [bold]Examples[/]

      batchline batch fleet/measurements.parquet --out results
      batchline batch landing --out results --window 2s --max-delay 5s
      batchline batch log.csv --out results --columns key=host,event_time=t
      batchline batch fleet --out results --json | jq .rejected
    """
    from batchline.flow import batch_reading, read_files, write_batched

    rules = BatchRules(
        window=window, max_delay=max_delay, leap_limit=leap_limit, max_bytes=max_bytes, anchor=anchor, split=split
    )
    names, order_by = options.names_of(columns), options.list_of(order)
    if path.is_dir() and out.resolve().is_relative_to(path.resolve()):
        raise InvalidInput(f"--out {out} lies inside the input {path}; the next run would read its own results")
    began = elapsed_seconds()
    with screen.steps() as watch:
        batched = batch_reading(read_files(path, names, watch), rules, order_by, watch)
        summary = batched.summary()
        write_batched(batched, summary, out, watch)
    if json:
        screen.say_json(summary)
    else:
        show(summary, rules, elapsed_seconds() - began)
        screen.out.print(f"[dim]results in {screen.plain(str(out))}/[/]")


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
