"""What a worker says of itself in its reports."""

import math
from collections.abc import Mapping
from typing import Any

from batchline.core.pipeline import Capacity
from batchline.runtime.limiter import Limiter
from batchline.runtime.shared_resource import SharedResource
from batchline.runtime.worker import Worker

__all__ = ["WorkerNumbers"]

PARCELS = ("delivered", "repeated", "refused", "failed", "strays")
MEASUREMENTS = ("delivered", "refused")


class WorkerNumbers:
    """Counters since the worker was started, and how it stands; may be asked in any thread."""

    def __init__(self, worker: Worker, capacity: Capacity | None):
        """Of a worker that was made with this capacity."""
        self._worker, self._capacity = worker, capacity
        self._paused_ms = 0
        worker.dispatcher.events.add_listener(self._listen)

    def _listen(self, name: str, value: Any, *_: object) -> None:
        if name == "pause":
            self._paused_ms += value

    def __call__(self) -> dict[str, Any]:
        """All of it, as it is now."""
        worker, dispatcher = self._worker, self._worker.dispatcher
        return {
            "topic": worker.topic,
            "parcels": {name: worker.parcels[name] for name in PARCELS},
            "measurements": {name: worker.measurements[name] for name in MEASUREMENTS},
            "fanouts_ended": len(worker.endings),
            "throttled": worker.throttled,
            "pauses": dispatcher.events.counts["pause"],
            "paused_ms": self._paused_ms,
            "paused": dispatcher.is_paused,
            "in_hand": worker.consumer.in_hand,
            "lanes": worker.lanes,
            "waiting": dispatcher.buffered,
            "on_their_way": dispatcher.inflight,
            "used": amount(dispatcher.used),
            "capacity": self._shares(dispatcher.limiter),
        }

    def _shares(self, limiter: Limiter | None) -> dict[str, Any] | None:
        if limiter is None or self._capacity is None:
            return None
        shared = limiter if isinstance(limiter, SharedResource) else None
        return {
            "name": self._capacity.resource if shared else None,
            "shared": shared is not None,
            "cost": self._capacity.cost,
            "limit": amount(self._capacity.per_second),
            # As it was told last: asking would tell others of it, in this thread.
            "granted": amount(limiter.events.values.get("capacity", 0)),
            "wanted": amount(self._worker.dispatcher.events.values.get("request", 0)),
            "instance": shared.instance if shared else None,
            "partitions": len(shared.partitions) if shared else None,
            "errors": limiter.events.counts["error"],
        }


def amount(value: Any) -> Any:
    """A cost or capacity as JSON has it."""
    if isinstance(value, Mapping):
        return {name: amount(one) for name, one in value.items()}
    return value if math.isfinite(value) else None
