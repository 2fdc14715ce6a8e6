"""What a source that lands says of itself, where a store is named."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from batchline.cli.stores import open_or_make
from batchline.runtime.reporting import reporting

__all__ = ["IngestNumbers", "ingest_reports"]


class IngestNumbers:
    """Counters since the start, as they were last seen."""

    def __init__(self, source: str, series: str):
        """Nothing has come yet."""
        self._about = {"source": source, "series": series}
        self._counts: Any = None

    def look(self, counts: Any) -> None:
        """What has come so far: a dataclass of counters."""
        self._counts = counts

    def __call__(self) -> dict[str, Any]:
        """All of it, as it was last seen."""
        none = {"received": 0, "landed": 0, "malformed": 0}
        return self._about | (none if self._counts is None else asdict(self._counts))


@contextmanager
def ingest_reports(url: str | None, source: str, series: str) -> Iterator[Callable[[Any], None]]:
    """Report within it, if a store is named; what is given is to be called with the counters now and then."""
    numbers = IngestNumbers(source, series)
    if url is None:
        yield numbers.look
        return
    with open_or_make(url) as store, reporting(store, "ingest", f"{socket.gethostname()}-{series}", numbers):
        yield numbers.look
