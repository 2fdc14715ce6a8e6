"""`batchline work`: a worker alone."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from batchline.cli import screen
from batchline.cli.completion import topic_names, words
from batchline.cli.options import DEFAULT_WAIT, Json, Wait
from batchline.cli.run import Changes, read_pipeline
from batchline.cli.stores import open_patiently
from batchline.core.pipeline import Capacity, Pipeline, Publication, SinkAddress, Source
from batchline.errors import InvalidInput, SinkClosed, StoreUnavailable
from batchline.runtime.clock import wait_for
from batchline.runtime.reporting import reporting
from batchline.runtime.timeline import Timeline
from batchline.runtime.worker import Worker
from batchline.runtime.worker_numbers import WorkerNumbers
from batchline.stores import Store

BETWEEN_LOOKS_S = 0.5


def work(
    context: typer.Context,
    path: Annotated[
        Path | None, typer.Argument(metavar="PIPELINE", help="A file of TOML that describes the pipeline.")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            help="The address of the store; all of these in place of a file.",
            metavar="URL",
            envvar="BATCHLINE_STORE",
        ),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option("--topic", help="The topic of the parcels.", show_default="parcels", autocompletion=topic_names),
    ] = None,
    sink: Annotated[str | None, typer.Option("--sink", help="The address of the sink.", show_default="stdout:")] = None,
    capacity: Annotated[
        float | None, typer.Option("--capacity", help="How much the sink takes a second.", min=0)
    ] = None,
    cost: Annotated[
        str | None,
        typer.Option(
            "--cost",
            help="What of it counts: parcel, measurement, byte, field:NAME.",
            show_default="parcel",
            autocompletion=words("parcel", "measurement", "byte", "field:"),
        ),
    ] = None,
    shared: Annotated[
        str | None, typer.Option("--shared", help="Where workers that share the capacity keep their leases.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="The worker's own name: started again with it, it goes on.")
    ] = None,
    until_empty: Annotated[bool, typer.Option("--until-empty", help="End when nothing is left on the topic.")] = False,
    changes: Changes = None,
    wait: Wait = DEFAULT_WAIT,
    json: Json = False,
) -> None:
    """Deliver the parcels of a topic to a sink, within the capacity, until Ctrl-C.

    Any number of workers, on any number of machines, may work on one topic: they share its lanes, and of each lane one
    parcel is on its way at a time.

    [bold]Examples[/]

      batchline work pipeline.toml --name worker-1
      batchline work --store postgresql://db/fleet --sink https://api.example/v1/batches --capacity 50
      batchline work --store sqlite:///fleet.db --sink files:arrived --until-empty --json
    """
    values = {"store": store, "topic": topic, "sink": sink, "capacity": capacity, "cost": cost, "shared": shared}
    given = {name: value for name, value in values.items() if value is not None}
    if path is not None:
        # What a configuration says in general, a pipeline's file says of itself.
        given = {name: value for name, value in given.items() if _is_on_command_line(context, name)}
    pipeline = _asked(path, changes or [], given)
    with open_patiently(pipeline.publish.store, wait) as opened, screen.live("looking for parcels") as say:
        try:
            worker = asyncio.run(_work(pipeline, opened, name, until_empty, say))
        except SinkClosed:
            # Whoever read has seen enough, `head` for instance: what was not read is on the timeline.
            screen.forget_output()
            return
    _show(worker, json)


def _is_on_command_line(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _asked(path: Path | None, changes: list[str], given: dict[str, Any]) -> Pipeline:
    """What a file says, or the options: not both, for whoever gives one expects something of it."""
    if path is None:
        if "store" not in given or changes:
            raise InvalidInput("a worker needs a pipeline's file, or --store and --sink; --set changes a file")
        return _pipeline(**given)
    if given:
        raise InvalidInput(f"--{next(iter(given))} stands in {path}: change it there, or with --set")
    return read_pipeline(path, changes)


def _pipeline(
    store: str,
    topic: str = "parcels",
    sink: str = "stdout:",
    capacity: float | None = None,
    cost: str = "parcel",
    shared: str | None = None,
) -> Pipeline:
    if capacity is None and (shared is not None or cost != "parcel"):
        raise InvalidInput("--shared and --cost say how --capacity is counted, which is missing")
    limit = None if capacity is None else Capacity(capacity, cost, shared)
    return Pipeline("work", Source("-"), Publication(store, topic), "-", capacity=limit, sink=SinkAddress(sink))


async def _work(pipeline: Pipeline, store: Store, name: str | None, until_empty: bool, say: Any) -> Worker:
    from batchline.flow import worker_of

    worker = worker_of(pipeline, store, worker=name)
    numbers = WorkerNumbers(worker, pipeline.capacity)
    with reporting(store, "work", worker.consumer.consumer, numbers, worker.supervisor):
        await _until(worker, pipeline, store, until_empty, say)
    return worker


async def _until(worker: Worker, pipeline: Pipeline, store: Store, until_empty: bool, say: Any) -> None:
    working = asyncio.ensure_future(worker.run(signals=True))
    never = asyncio.Event()
    looking: asyncio.Future[bool] | None = None
    while not working.done():
        await wait_for(never, BETWEEN_LOOKS_S)
        if worker.consumer.is_stopping:
            store.hurry()  # or a store that does not answer would hold up the end for as long as its patience
        say(_line(worker))
        # Not awaited here: a store that does not answer would keep a signal from being noticed.
        if looking is None and until_empty:
            looking = asyncio.ensure_future(asyncio.to_thread(_is_empty, store, pipeline.publish.topic))
        if looking is not None and looking.done():
            if looking.result():
                worker.stop()
                break
            looking = None
    await working


def _is_empty(store: Store, topic: str) -> bool:
    try:
        return not Timeline(store).count(topic).total
    except StoreUnavailable:  # it comes back: the worker logs the outage, and waits for its end
        return False


def _line(worker: Worker) -> str:
    parcels = worker.parcels
    return (
        f"{parcels['delivered']:,} parcels delivered · {parcels['failed']:,} to come again · "
        f"{parcels['refused']:,} refused · {worker.dispatcher.inflight:,} on their way"
    )


def _show(worker: Worker, json: bool) -> None:
    ended = [{"fanout": ending.fanout, "state": ending.state} for ending in worker.endings]
    if json:
        data = {"parcels": dict(worker.parcels), "measurements": dict(worker.measurements), "ended": ended}
        screen.say_json(data)
        return
    screen.out.print(_line(worker), highlight=False)
    for ending in worker.endings:
        screen.say(f"[green]✓[/] fanout {screen.plain(ending.fanout)} is {ending.state}")
