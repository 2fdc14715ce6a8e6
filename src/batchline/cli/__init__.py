"""The command line: `batchline --help`."""

import sys

import typer

from batchline import __version__
from batchline.cli import (
    batch,
    consume,
    demo,
    explain,
    fanout,
    ingest,
    load,
    migrate,
    produce,
    run,
    sample,
    screen,
    serve,
    simulate,
    tidy,
    token,
    topic,
    work,
)
from batchline.errors import BatchlineError

__all__ = ["app", "main"]

TIMELINE = "The timeline"
PATH = "The path"

app = typer.Typer(
    name="batchline",
    help="Deterministic batches of timestamped measurements, each at its moment, and the certainty that all are done.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Show the version and end.", is_eager=True)) -> None:
    if version:
        screen.out.print(f"batchline {__version__}", highlight=False)
        raise typer.Exit


app.command("run", rich_help_panel=PATH)(run.run)
app.command("work", rich_help_panel=PATH)(work.work)
app.command("serve")(serve.serve)
app.command("sample")(sample.sample)
app.command("batch")(batch.batch)
app.command("explain")(explain.explain)
app.command("demo")(demo.demo)
app.add_typer(ingest.app, rich_help_panel=PATH)
app.add_typer(fanout.app)
app.add_typer(token.app)
app.command("migrate")(migrate.migrate)
app.command("tidy")(tidy.tidy)
app.command("simulate")(simulate.simulate)
app.add_typer(topic.app, rich_help_panel=TIMELINE)
for command in (
    *(produce.put, produce.move, produce.cancel, produce.message, produce.messages),
    *(consume.lease, consume.extend, consume.release, consume.done, consume.leases),
    load.load,
):
    app.command(command.__name__, rich_help_panel=TIMELINE)(command)


def main() -> None:
    """Run the command; what is refused is said in one sentence, with exit code 1 (2 for a wrong command line)."""
    try:
        app()
    except (BatchlineError, ModuleNotFoundError) as error:
        screen.err.print(f"[bold red]batchline:[/] {screen.plain(_said(error))}", soft_wrap=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def _said(error: BatchlineError | ModuleNotFoundError) -> str:
    if isinstance(error, BatchlineError):
        return str(error)
    return f"this command needs {error.name}, which is not installed: pip install 'batchline[columnar]'"
