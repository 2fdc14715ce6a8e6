"""What `batchline run` does beside, for sources that land: takes in what comes over the network."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from batchline.cli import screen
from batchline.cli.ingest import parser_of, topics_of
from batchline.core.pipeline import Source
from batchline.errors import BatchlineError
from batchline.runtime.clock import elapsed_seconds, now_us
from batchline.sources.landing import Landing

__all__ = ["ingesting"]


@contextmanager
def ingesting(source: Source, stop: threading.Event) -> Iterator[None]:
    """Within it, what a source of kind mqtt or http sends lands; what it cannot go on for stops the run."""
    run = {"mqtt": _mqtt, "http": _http}.get(source.kind)
    if run is None:
        yield
        return
    failed: list[BatchlineError] = []
    with Landing(Path(source.into), source.series or source.kind) as landing:
        ended = threading.Event()
        thread = threading.Thread(target=_guarded, args=(run, source, landing, ended, stop, failed), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
    if failed:
        raise failed[0]


def _guarded(
    run: Callable[[Source, Landing, threading.Event], None],
    source: Source,
    landing: Landing,
    ended: threading.Event,
    stop: threading.Event,
    failed: list[BatchlineError],
) -> None:
    try:
        run(source, landing, ended)
    except BatchlineError as error:
        failed.append(error)
        stop.set()


def _mqtt(source: Source, landing: Landing, ended: threading.Event) -> None:
    from batchline.sources.mqtt import MqttIngest, MqttRules
    from batchline.sources.mqtt_address import MqttAddress

    parse, topics = parser_of(source.format, source.map), topics_of(source.format, source.topics)
    rules = MqttRules(source.client_id or f"batchline-{landing.series}", source.linger)
    address = MqttAddress.from_text(source.address)
    MqttIngest(address, topics, parse, landing, rules, now_us=now_us, elapsed=elapsed_seconds, tell=_tell).run(ended)


def _http(source: Source, landing: Landing, ended: threading.Event) -> None:
    from batchline.cli.listening import serve_measurements

    serve_measurements(landing, source.address, lambda _: None, _tell, insecure=source.insecure, stop=ended)


def _tell(text: str) -> None:
    screen.err.print(screen.plain(screen.one_line(text)), style="dim", highlight=False, soft_wrap=True)
