"""`batchline run`: a pipeline from end to end, once or on and on."""

import threading
from pathlib import Path
from typing import Annotated

import typer

from batchline.cli import engines, screen
from batchline.cli.following import stopping
from batchline.cli.ingesting import ingesting
from batchline.cli.options import DEFAULT_WAIT, Json, Wait
from batchline.cli.run_screen import line_of, show
from batchline.cli.stores import open_patiently
from batchline.cli.toml_file import read_toml
from batchline.core.pipeline import Pipeline
from batchline.core.pipeline_tables import pipeline_of
from batchline.errors import InvalidPipeline, SinkClosed
from batchline.flow import Summary

PipelineFile = Annotated[Path, typer.Argument(metavar="PIPELINE", help="A file of TOML that describes the pipeline.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", help="Another value for a key, such as capacity.per_second=500.", metavar="KEY=VALUE"),
]


def run(
    path: PipelineFile,
    once: Annotated[bool, typer.Option("--once", help="Take what is there to its end, and end.")] = False,
    no_work: Annotated[
        bool, typer.Option("--no-work", help="Leave the delivery to `batchline work` elsewhere.")
    ] = False,
    changes: Changes = None,
    wait: Wait = DEFAULT_WAIT,
    json: Json = False,
) -> None:
    """Run a pipeline: measurements into batches, batches into parcels, parcels onto the timeline, and to their sink.

    With --once it ends when all that is there has arrived; without, it goes on with what comes until Ctrl-C. Killed at
    any moment and started again, it continues where it was. Delivery is at-least-once: a parcel that is sent again has
    the same id, and the receiver deduplicates by id.

    With --once the exit code is 0 if everything is complete, and 3 if it is not.

    [bold]Examples[/]

      batchline run pipeline.toml --once
      batchline run pipeline.toml
      batchline run pipeline.toml --set capacity.per_second=500 --set sink.address=stdout:
      batchline run pipeline.toml --once --no-work & batchline work pipeline.toml
      batchline run pipeline.toml --once --json | jq .complete
    """
    pipeline = read_pipeline(path, changes or [])
    open_patiently(pipeline.publish.store, wait).close()  # before Spark is started for nothing
    try:
        summary = _ran(pipeline, once=once, work=not no_work)
    except SinkClosed:
        # Whoever read has seen enough, `head` for instance: what was not read is on the timeline.
        screen.forget_output()
        return
    if json:
        screen.say_json(summary.as_data())
    else:
        show(summary, pipeline)
    if once and not summary.complete:
        raise typer.Exit(3)


def _ran(pipeline: Pipeline, *, once: bool, work: bool) -> Summary:
    from batchline.flow import Running, run_once

    stop = threading.Event()
    with engines.spark_session(pipeline.master, _packages(pipeline)) as spark, stopping(stop):
        if once:
            with screen.steps() as watch:
                return run_once(pipeline, spark, watch=watch, work=work, stop=stop)
        with ingesting(pipeline, stop), screen.live("starting") as say:
            return Running(pipeline, spark, work=work).run(stop, lambda now: say(line_of(now)))


def _packages(pipeline: Pipeline) -> dict[str, str]:
    """What Spark must be started with to read the source."""
    if pipeline.source.kind != "kafka" or pipeline.spark.keys() & {"spark.jars", "spark.jars.packages"}:
        return dict(pipeline.spark)
    from batchline.spark import kafka_packages

    return {"spark.jars.packages": kafka_packages()} | dict(pipeline.spark)


def read_pipeline(path: Path, changes: list[str]) -> Pipeline:
    """The pipeline in a file; relative paths in it are from where the command is run."""
    try:
        return pipeline_of(read_toml(path, changes))
    except InvalidPipeline as error:
        raise InvalidPipeline(f"{path}: {error}") from error
