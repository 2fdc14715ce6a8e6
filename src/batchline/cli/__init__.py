"""The command line: `batchline --help`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from batchline import __version__
from batchline.cli import (
    batch,
    bench,
    config,
    consume,
    demo,
    explain,
    fanout,
    ingest,
    load,
    migrate,
    produce,
    resend,
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
from batchline.cli.configuration import VARIABLE, Configured, configure
from batchline.errors import BatchlineError, StoreUnavailable

__all__ = ["app", "main"]

TIMELINE = "The timeline"
PATH = "The path"
#: Exit codes, beside Typer's own 2 for a wrong command line.
REFUSED, AWAY = 1, 4

app = typer.Typer(
    name="batchline",
    cls=Configured,
    help="Deterministic batches of timestamped measurements, each at its moment, and the certainty that all are done.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _begin(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Option(
            "--config",
            help="What the options of commands are, unless they are given; else batchline.toml here, if there is one.",
            metavar="FILE",
            envvar=VARIABLE,
            show_default=False,
        ),
    ] = None,
    version: Annotated[bool, typer.Option("--version", help="Show the version and end.", is_eager=True)] = False,
) -> None:
    if version:
        screen.out.print(f"batchline {__version__}", highlight=False)
        raise typer.Exit
    configure(context, file)


app.command("run", rich_help_panel=PATH)(run.run)
app.command("work", rich_help_panel=PATH)(work.work)
app.command("serve")(serve.serve)
app.command("sample")(sample.sample)
app.command("batch")(batch.batch)
app.command("explain")(explain.explain)
app.command("demo")(demo.demo)
app.add_typer(ingest.app, rich_help_panel=PATH)
app.add_typer(fanout.app)
app.command("ack")(fanout.ack)
app.add_typer(token.app)
app.command("migrate")(migrate.migrate)
app.command("tidy")(tidy.tidy)
app.command("simulate")(simulate.simulate)
app.command("bench")(bench.bench)
app.command("config")(config.config)
app.add_typer(topic.app, rich_help_panel=TIMELINE)
for command in (
    *(produce.put, produce.move, produce.cancel, produce.message, produce.messages, resend.resend),
    *(consume.lease, consume.extend, consume.release, consume.done, consume.leases),
    load.load,
):
    app.command(command.__name__, rich_help_panel=TIMELINE)(command)


def main() -> None:
    """Run the command; what is refused is said in one sentence, with an exit code that says whether to try again."""
    try:
        app()
    except (BatchlineError, ModuleNotFoundError) as error:
        screen.err.print(f"[bold red]batchline:[/] {screen.plain(_said(error))}", soft_wrap=True)
        sys.exit(AWAY if isinstance(error, StoreUnavailable) else REFUSED)
    except KeyboardInterrupt:
        sys.exit(130)


def _said(error: BatchlineError | ModuleNotFoundError) -> str:
    if isinstance(error, BatchlineError):
        return str(error)
    return f"this command needs {error.name}, which is not installed: pip install 'batchline[columnar]'"
