"""`batchline serve --demo`: a store and tables of its own, and a fleet that keeps the pages alive. No Spark.

fleet ──► batcher ──► parcels ──► SQLite ──► three workers, one capacity ──► a receiver that is not always well
"""

import logging
import random
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from batchline.core.pipeline import Pipeline, Publication, Source
from batchline.runtime.publisher import make_topic, make_topics
from batchline.runtime.timeline import Timeline
from batchline.stores import Store, open_store

__all__ = ["LiveDemo", "live_demo"]

NAME: Final = "fleet"
LANES: Final = 12
#: The first ones stay; the last comes and goes.
WORKERS: Final = ("worker-a", "worker-b", "worker-c")
log = logging.getLogger("batchline")


@dataclass(frozen=True, slots=True)
class LiveDemo:
    """Where it keeps what is to be shown."""

    store: Store
    tables: Path


@contextmanager
def live_demo() -> Iterator[LiveDemo]:
    """A fleet within it; at the end it is gone, with all that it has left."""
    with tempfile.TemporaryDirectory(prefix="batchline-demo-", ignore_cleanup_errors=True) as directory:
        address = f"sqlite:///{quote(directory)}/batchline.db"
        with open_store(address) as store, _alive(store, address, Path(directory) / "tables"):
            yield LiveDemo(store, Path(directory) / "tables")


@contextmanager
def _alive(store: Store, address: str, tables: Path) -> Iterator[None]:
    """Its parts run in threads, and begin one after the other: the pages need not wait for them."""
    stop = threading.Event()
    thread = threading.Thread(target=_run, args=(store, address, tables, stop), name="demo", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _run(store: Store, address: str, tables: Path, stop: threading.Event) -> None:
    from batchline.cli.live_fanouts import TOPIC, Imports, Reminders, remind
    from batchline.cli.live_stream import LiveStream
    from batchline.cli.live_work import come_and_go, working
    from batchline.runtime.reporting import reporting

    timeline = Timeline(store)
    pipeline = Pipeline(NAME, Source(str(tables)), Publication(address, NAME, LANES), str(tables))
    make_topics(timeline, pipeline.publish.topic)
    make_topic(timeline, TOPIC)
    stream = LiveStream(store, pipeline, tables)
    stream.begin()
    chance = random.Random(8)  # noqa: S311 - nothing here is a secret
    with ExitStack() as parts:
        parts.enter_context(reporting(store, "run", NAME, stream.numbers))
        for name in WORKERS[:-1]:
            parts.enter_context(working(store, pipeline.publish.topic, name))
        for run in (
            stream.run,
            Imports(store, chance).run,
            Reminders(store, random.Random(9)).run,  # noqa: S311 - as above
            lambda stop: remind(store, stop),
            lambda stop: come_and_go(store, pipeline.publish.topic, WORKERS[-1], stop),
        ):
            parts.enter_context(_in_thread(run, stop))
        stop.wait()


@contextmanager
def _in_thread(run: Callable[[threading.Event], object], stop: threading.Event) -> Iterator[None]:
    def guarded() -> None:
        try:
            run(stop)
        except Exception:
            log.exception("a part of the demo has ended")

    thread = threading.Thread(target=guarded, name="demo-part", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()
