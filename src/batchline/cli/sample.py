"""`batchline sample`: a fleet to try things on."""

from pathlib import Path
from typing import Annotated

import typer

from batchline.cli import screen
from batchline.cli.completion import words
from batchline.cli.options import Json


def sample(
    out: Annotated[Path, typer.Option("--out", help="The directory to write measurements.* into.")],
    devices: Annotated[int, typer.Option(help="How many devices.")] = 200,
    minutes: Annotated[float, typer.Option(help="For how long they measure.")] = 10,
    seed: Annotated[int, typer.Option(help="The same seed gives the same fleet.")] = 2,
    file_format: Annotated[
        str, typer.Option("--format", help="parquet, jsonl or csv.", autocompletion=words("parquet", "jsonl", "csv"))
    ] = "parquet",
    json: Json = False,
) -> None:
    """Make a sample fleet, with the faults that real devices have.

    [bold]Examples[/]

      batchline sample --out fleet
      batchline sample --devices 20 --minutes 1 --format jsonl --out fleet
    """
    from batchline.sinks.files import write_table
    from batchline.sources.sample import Fleet, describe, sample_fleet

    table = sample_fleet(Fleet(devices=devices, minutes=minutes, seed=seed))
    path = write_table(table, out / f"measurements.{file_format}")
    about = describe(table)
    if json:
        screen.say_json(about | {"file": str(path)})
        return
    screen.out.print(
        f"[bold]{about['rows']:,}[/] measurements of [bold]{about['devices']:,}[/] devices in {screen.plain(str(path))}"
    )
    screen.out.print(screen.counts("What was done to them", about["causes"]))
