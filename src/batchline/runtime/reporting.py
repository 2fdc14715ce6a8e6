"""What a running process says of itself into the store, every two seconds, for whoever shows it: see `reports.md`."""

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

from batchline.core.name import check_name
from batchline.core.topic import span_ms
from batchline.runtime.clock import now_us
from batchline.stores.report_rows import ReportRow
from batchline.stores.store import Store

__all__ = ["EVERY", "KEPT", "Numbers", "Reporter", "reporting"]

#: What a process says: counters since its start, and how things are.
Numbers = Callable[[], Mapping[str, Any]]
EVERY: Final = timedelta(seconds=2)
#: How long reports are kept; how often those that are older are looked for, and how many go at once.
KEPT: Final = timedelta(hours=1)
FORGET_EVERY: Final = timedelta(minutes=1)
AT_ONCE: Final = 1_000
#: How long the last report is waited for at the end: a store that is away keeps nobody from ending.
PATIENCE_S: Final = 5.0
log = logging.getLogger("batchline")


class Reporter:
    """Reports of one process: `kind` says what it does, `name` which one it is."""

    def __init__(self, store: Store, kind: str, name: str, numbers: Numbers, *, clock: Callable[[], int] = now_us):
        self._store, self._numbers, self._clock = store, numbers, clock
        self._kind = check_name("the kind of a report", kind)
        self._name = check_name("the name of a process", name)
        self._started_ms = clock() // 1_000
        self._last_ms = self._forget_at_ms = 0
        self._in_trouble = False

    def run_once(self, *, ended: bool = False) -> bool:
        """Write a report, and now and then forget old ones; tells whether there are more of those."""
        # Two at one moment would be one.
        self._last_ms = now_ms = max(self._clock() // 1_000, self._last_ms + 1)
        body = json.dumps({"started_ms": self._started_ms, "ended": ended} | dict(self._numbers()), allow_nan=False)
        row = ReportRow(self._kind, self._name, now_ms, body)
        self._store.transact(lambda rows: rows.insert_reports([row]))
        return now_ms >= self._forget_at_ms and self._forget(now_ms)

    def _forget(self, now_ms: int) -> bool:
        before_ms = now_ms - span_ms(KEPT)
        more = self._store.transact(lambda rows: rows.forget_reports(before_ms, AT_ONCE)) == AT_ONCE
        if not more:
            self._forget_at_ms = now_ms + span_ms(FORGET_EVERY)
        return more

    def try_once(self, *, ended: bool = False) -> None:
        """The same, but whatever is wrong is only logged, once: what is reported on goes on."""
        try:
            self.run_once(ended=ended)
        except Exception as error:  # noqa: BLE001 - nobody stops working because nobody can be told
            if not self._in_trouble:
                log.warning("%s %s cannot be reported for now: %s", self._kind, self._name, error)
            self._in_trouble = True
        else:
            self._in_trouble = False

    def run(self, ended: threading.Event, every: timedelta = EVERY) -> None:
        """Report until it is told that all is over, and then once more."""
        while not ended.is_set():
            self.try_once()
            ended.wait(every.total_seconds())
        self.try_once(ended=True)


@contextmanager
def reporting(store: Store, kind: str, name: str, numbers: Numbers) -> Iterator[None]:
    """Report within it, in a thread of its own; `numbers` is called there. The last report is made at its end."""
    ended, reporter = threading.Event(), Reporter(store, kind, name, numbers)
    thread = threading.Thread(target=reporter.run, args=(ended,), name=f"batchline-report-{kind}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(PATIENCE_S)
