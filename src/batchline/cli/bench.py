"""`batchline bench`: what your own store can do."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any

import typer
from rich.table import Table

from batchline.cli import screen
from batchline.cli.options import DEFAULT_STORE, Json, Store, read_span
from batchline.cli.stores import open_or_make
from batchline.runtime.bench import Figure
from batchline.runtime.bench import bench as measure

__all__ = ["bench"]

MOST = 1_000_000


def bench(
    count: Annotated[
        int, typer.Option("--count", help="Messages, and items, to measure with.", min=1, max=MOST)
    ] = 10_000,
    for_: Annotated[
        timedelta,
        typer.Option(
            "--for",
            help="How long each figure is measured at most.",
            metavar="SPAN",
            parser=read_span,
            show_default="2s",
        ),
    ] = timedelta(seconds=2),
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Measure a store: messages created, leased and done a second, and acks, 1,000 in a call and one by one.

    One process, one call after the other, bodies of 100 bytes: several processes do more. It works on a topic and a
    fanout of its own, and removes them; whatever else goes on in the store shares its time. In a pipe a line has the
    verb, how many in a call, how many a second, and the median and 99th percentile of a call in ms.

    [bold]Examples[/]

      batchline bench
      batchline bench --store postgresql://batchline@db.example/batchline --for 10s --count 100000
      batchline bench --json | jq '.figures[] | select(.verb == "ack")'
    """
    with open_or_make(store) as opened, screen.steps() as watch:
        figures = measure(opened, count, for_.total_seconds(), watch)
        url = opened.url
    if json:
        screen.say_json({"store": url, "figures": [_data(one) for one in figures]})
    elif screen.out.is_terminal:
        screen.out.print(f"[dim]{screen.plain(url)}[/]", _table(figures), highlight=False)
    else:
        screen.say_lines("\t".join(map(str, _data(one).values())) for one in figures)


def _data(one: Figure) -> dict[str, Any]:
    calls = {"p50_ms": round(one.percentile(0.5), 3), "p99_ms": round(one.percentile(0.99), 3)}
    return {"verb": one.verb, "at_once": one.at_once, "per_second": round(one.per_second, 1)} | calls


def _table(figures: Sequence[Figure]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("")
    for name in ("in a call", "a second", "p50 of a call", "p99"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in figures:
        calls = (f"{one.percentile(part):,.2f} ms" for part in (0.5, 0.99))
        table.add_row(one.verb, f"{one.at_once:,}", f"[bold]{one.per_second:,.0f}[/]", *calls)
    return table
