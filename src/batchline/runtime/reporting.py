"""What a running process says of itself into the store, every two seconds, for whoever shows it: see `reports.md`."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

from batchline.core.name import check_name
from batchline.core.topic import span_ms
from batchline.runtime.clock import now_us
from batchline.runtime.supervisor import Supervisor
from batchline.stores.report_rows import ReportRow
from batchline.stores.rows import Rows
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


class Reporter:
    """Reports of one process: `kind` says what it does, `name` which one it is."""

    def __init__(
        self,
        store: Store,
        kind: str,
        name: str,
        numbers: Numbers,
        *,
        clock: Callable[[], int] = now_us,
        supervisor: Supervisor | None = None,
    ):
        """Nothing is reported yet. Reports name the loops of the `supervisor` that are in trouble."""
        self._store, self._numbers, self._clock = store, numbers, clock
        self._kind = check_name("the kind of a report", kind)
        self._name = check_name("the name of a process", name)
        self._started_ms = clock() // 1_000
        #: How far its clock was ahead of the database's at the first report: a life is known by one start.
        self._ahead_ms: int | None = None
        self._last_ms = self._forget_at_ms = 0
        self.supervisor = supervisor or Supervisor()
        self._loop = self.supervisor.loop("reporting", f"{kind} {name}")

    def run_once(self, *, ended: bool = False) -> bool:
        """Write a report, and now and then forget old ones; tells whether there are more of those."""
        numbers, degraded = dict(self._numbers()), self._degraded()

        def report(rows: Rows) -> tuple[int, int]:
            # By the database's clock: a process whose own is off says so, and forgets no report of others.
            own_ms = self._clock() // 1_000
            shown_ms = rows.database_ms(own_ms)
            ahead_ms = own_ms - shown_ms if self._ahead_ms is None else self._ahead_ms
            # Two at one moment would be one.
            at_ms = max(shown_ms, self._last_ms + 1)
            said = {"started_ms": self._started_ms - ahead_ms, "ended": ended, "degraded": degraded}
            body = json.dumps(numbers | said, allow_nan=False)
            rows.insert_reports([ReportRow(self._kind, self._name, at_ms, body)])
            return at_ms, ahead_ms

        self._last_ms, self._ahead_ms = self._store.transact(report)
        now_ms = self._last_ms
        return now_ms >= self._forget_at_ms and self._forget(now_ms)

    def _forget(self, now_ms: int) -> bool:
        before_ms = now_ms - span_ms(KEPT)
        more = self._store.transact(lambda rows: rows.forget_reports(before_ms, AT_ONCE)) == AT_ONCE
        if not more:
            self._forget_at_ms = now_ms + span_ms(FORGET_EVERY)
        return more

    def _degraded(self) -> list[dict[str, Any]]:
        # Not its own: it is over with the report that says so.
        found = [one for one in self.supervisor.troubles() if one.loop != "reporting"]
        return [{"loop": one.loop, "since_ms": one.since_ms, "error": one.error} for one in found]

    def try_once(self, *, ended: bool = False, every: timedelta = EVERY) -> float:
        """Report, and return how many seconds to rest. A failure is logged and counted: the work goes on."""

        def step() -> float:
            self.run_once(ended=ended)
            return every.total_seconds()

        return self._loop.turn_in_thread(step)

    def run(self, ended: threading.Event, every: timedelta = EVERY) -> None:
        """Report until `ended` is set, and then once more."""
        while not ended.is_set():
            ended.wait(self.try_once(every=every))
        self.try_once(ended=True)


@contextmanager
def reporting(
    store: Store, kind: str, name: str, numbers: Numbers, supervisor: Supervisor | None = None
) -> Iterator[None]:
    """Report within it, in a thread of its own; `numbers` is called there. The last report is made at its end.

    Loops of the `supervisor` in trouble are named in the reports; the reporting itself becomes one of its loops.
    """
    ended, reporter = threading.Event(), Reporter(store, kind, name, numbers, supervisor=supervisor)
    thread = threading.Thread(target=reporter.run, args=(ended,), name=f"batchline-report-{kind}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(PATIENCE_S)
