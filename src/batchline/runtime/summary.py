"""What became of a pipeline's measurements, by its figures, its own worker and the tracker."""

import threading
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from batchline.core.watch import Watch
from batchline.errors import StoreUnavailable
from batchline.runtime.completion import Completion
from batchline.runtime.supervisor import Supervisor
from batchline.runtime.working import Working

__all__ = ["Summary", "await_delivery", "note_delivered"]

BETWEEN_LOOKS_S: Final = 0.2


@dataclass(slots=True)
class Summary:
    """What became of everything."""

    read: int = 0
    batched: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    batches: int = 0
    #: Parcels on the timeline, and their measurements.
    parcels: int = 0
    published: int = 0
    #: Of those, what this run's own worker has delivered: parcels, and measurements.
    delivered: int = 0
    arrived: int = 0
    #: By the tracker, whoever has delivered: parcels that have arrived, and that were refused.
    acked: int = 0
    failed: int = 0
    complete: bool = False
    #: Why it is not complete.
    why_not: list[str] = field(default_factory=list)
    fanouts: int = 0

    def as_data(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def await_delivery(completion: Completion, working: Working | None, watch: Watch, stop: threading.Event) -> None:
    """Wait until nothing that was published is pending; raises what our own worker has ended for."""
    supervisor = Supervisor() if working is None else working.worker.supervisor
    # A store that is away comes back: what is on the timeline is delivered then. Any other error ends the run.
    loop = supervisor.loop("delivery", ends=(BaseException,))

    def look() -> float:
        completion.look()
        sums = completion.sums
        watch("delivering", sums.total - sums.pending, sums.total)
        return BETWEEN_LOOKS_S if sums.pending else 0.0

    while not stop.is_set():
        if working is not None:
            working.check()
        pause_s = loop.turn_in_thread(look)
        if not pause_s:
            return
        stop.wait(pause_s)


def note_delivered(summary: Summary, working: Working | None, completion: Completion) -> None:
    """Add what has arrived so far."""
    if working is not None:
        summary.delivered = working.worker.parcels["delivered"] + working.worker.parcels["refused"]
        summary.arrived = working.worker.measurements["delivered"]
    with suppress(StoreUnavailable):
        completion.look()
        summary.why_not = completion.why_not()
    sums = completion.sums
    summary.fanouts, summary.acked, summary.failed = sums.fanouts, sums.acked, sums.failed
    summary.complete = completion.complete
