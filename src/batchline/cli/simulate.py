"""`batchline simulate`: how a capacity would be used and shared, before it is."""

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from batchline.cli import screen
from batchline.cli.options import Json
from batchline.cli.scenario_file import EXAMPLE, read_scenario
from batchline.cli.simulate_screen import simulation_data, simulation_lines, simulation_page
from batchline.core.scenario import Scenario
from batchline.errors import BatchlineError
from batchline.runtime.simulation import simulate as play
from batchline.runtime.simulation_record import Simulation

__all__ = ["simulate"]


def simulate(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A scenario, in TOML.", show_default=False)
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Another value, such as capacity.factor=500; any number of them.", metavar="KEY=VALUE"
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write capacity.html into this directory, too.", metavar="DIR")
    ] = None,
    example: Annotated[bool, typer.Option("--example", help="Print a scenario to begin with.")] = False,
    json: Json = False,
) -> None:
    """Try a capacity out: rate, backlog and shares of instances, second by second, in virtual time.

    It is the real dispatcher, with real leases in memory; only the receiver
    and the time are not real. Exit code 0: all was done in time, and never
    more than the limit came within a second; 1: not so; 2: no scenario.

    [bold]Examples[/]

      batchline simulate --example > capacity.toml
      batchline simulate capacity.toml
      batchline simulate capacity.toml --set capacity.factor=2000
      batchline simulate capacity.toml --set instances.2.kill=30s
      batchline simulate capacity.toml --out results
      batchline simulate capacity.toml --json | jq .summary
    """
    if example:
        screen.say_lines(EXAMPLE.read_text(encoding="utf-8").splitlines())
        return
    if file is None:
        _explain()
    scenario = _read(file, change or [])
    with screen.steps() as watch:
        simulation = play(scenario, watch)
    if json:
        screen.say_json(simulation_data(simulation))
    else:
        for part in simulation_lines(file.name, simulation, screen.out.width):
            screen.out.print(part, highlight=False)
    if out is not None:
        _write(file.name, simulation, out, json)
    if simulation.summary.exceeded or not simulation.summary.done:
        raise typer.Exit(1)


def _explain() -> NoReturn:
    screen.err.print(
        "A simulation needs a scenario: the receiver and its limit, the instances, the work that comes. To get one:\n"
        "\n"
        "  batchline simulate --example > capacity.toml\n"
        "  batchline simulate capacity.toml\n",
        highlight=False,
        soft_wrap=True,
    )
    raise typer.Exit(2)


def _read(file: Path, change: list[str]) -> Scenario:
    try:
        return read_scenario(file, change)
    except BatchlineError as error:
        screen.err.print(f"[bold red]batchline:[/] {screen.plain(str(error))}", highlight=False, soft_wrap=True)
        raise typer.Exit(2) from error


def _write(name: str, simulation: Simulation, out: Path, quiet: bool) -> None:
    from batchline.sinks.files import write_text

    path = write_text(simulation_page(name, simulation), out / "capacity.html")
    if not quiet:
        screen.out.print(f"[dim]see[/] {screen.plain(str(path))}", soft_wrap=True)
