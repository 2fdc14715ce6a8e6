"""Watches from a thread of its own whether parcels arrive, lane by lane, while the run's own thread is busy."""

import os
import sqlite3
import threading
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from statistics import fmean
from types import TracebackType
from typing import Final, Self

from batchline.runtime.clock import elapsed_seconds
from tests.faults.recovery import ARRIVALS

__all__ = ["Pulse"]

LOOK_S: Final = 0.25


class Pulse:
    """The moments at which parcels have arrived, and how busy the machine was."""

    def __init__(self, arrivals: Path):
        self._arrivals, self._place = arrivals, 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="pulse", daemon=True)
        #: By lane, when parcels have arrived: up to a quarter of a second before.
        self.moments: defaultdict[str, list[float]] = defaultdict(list)
        self._loads: list[float] = []

    @property
    def last_s(self) -> float:
        """When something has arrived last."""
        return max((moments[-1] for moments in list(self.moments.values())), default=0.0)

    @property
    def busy(self) -> float:
        """How many processes wanted each of the processors, on average; at least 1."""
        return max(1.0, fmean(list(self._loads) or [1.0]))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_S):
            self._look()

    def _look(self) -> None:
        now_s = elapsed_seconds()
        self._loads.append(os.getloadavg()[0] / (os.cpu_count() or 1))
        # Without a question to the receiver, which may be down or hang.
        with closing(sqlite3.connect(f"file:{self._arrivals}?mode=ro", uri=True)) as database:
            found = database.execute(
                "SELECT lane, max(place) FROM arrivals WHERE place > ? GROUP BY lane", (self._place,)
            ).fetchall()
        for lane, place in found:
            self.moments[f"{ARRIVALS}{lane}"].append(now_s)
            self._place = max(self._place, place)
