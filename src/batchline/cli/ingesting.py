"""What `batchline run` does beside, for sources that land: takes in what comes over the network."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from batchline.cli import screen
from batchline.cli.ingest import parser_of, topics_of
from batchline.cli.ingest_reports import ingest_reports
from batchline.core.pipeline import Pipeline, Source
from batchline.runtime.clock import elapsed_seconds, now_us
from batchline.sources.landing import Landing

__all__ = ["ingesting"]


@contextmanager
def ingesting(pipeline: Pipeline, stop: threading.Event) -> Iterator[None]:
    """Within it, what a source of kind mqtt or http sends lands; what it cannot go on for stops the run."""
    source = pipeline.source
    run = {"mqtt": _mqtt, "http": _http}.get(source.kind)
    if run is None:
        yield
        return
    failed: list[BaseException] = []
    series = source.series or source.kind
    with (
        Landing(Path(source.into), series) as landing,
        ingest_reports(pipeline.publish.store, source.kind, series) as look,
    ):
        ended = threading.Event()
        work = partial(run, source, landing, ended, look)
        thread = threading.Thread(target=_guarded, args=(work, stop, failed), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
    if failed:
        raise failed[0]


def _guarded(
    work: Callable[[], None],
    stop: threading.Event,
    failed: list[BaseException],
) -> None:
    try:
        work()
    except BaseException as error:  # noqa: BLE001 - it is raised where the run ends: else nothing would come in, unseen
        failed.append(error)
        stop.set()


def _mqtt(source: Source, landing: Landing, ended: threading.Event, look: Callable[[Any], None]) -> None:
    from batchline.sources.mqtt import MqttIngest, MqttRules
    from batchline.sources.mqtt_address import MqttAddress

    parse, topics = parser_of(source.format, source.map), topics_of(source.format, source.topics)
    rules = MqttRules(source.client_id or f"batchline-{landing.series}", source.linger)
    address = MqttAddress.from_text(source.address)
    ingest = MqttIngest(address, topics, parse, landing, rules, now_us=now_us, elapsed=elapsed_seconds, tell=_tell)
    ingest.run(ended, look)


def _http(source: Source, landing: Landing, ended: threading.Event, look: Callable[[Any], None]) -> None:
    from batchline.cli.landing_server import serve_measurements

    serve_measurements(landing, source.address, look, _tell, insecure=source.insecure, stop=ended)


def _tell(text: str) -> None:
    screen.err.print(screen.plain(screen.one_line(text)), style="dim", highlight=False, soft_wrap=True)
