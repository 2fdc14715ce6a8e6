"""`--log`: a line of JSON for each request. Neither bodies nor secrets are in it, nor addresses with names in them."""

import json
from collections.abc import Callable

from batchline.core.moment import moment_of
from batchline.runtime.clock import now_us
from batchline.service.observer import Sighting

__all__ = ["RequestLog"]


class RequestLog:
    """An observer that writes a line when a request has ended."""

    def __init__(self, write: Callable[[str], object], clock: Callable[[], int] = now_us) -> None:
        self._write, self._clock = write, clock

    def began(self) -> None:
        """Nothing is said before it has ended."""

    def ended(self, sighting: Sighting) -> None:
        """Write its line."""
        line = {
            "at": moment_of(self._clock()).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "method": sighting.method[:20],
            "operation": sighting.operation,
            "status": sighting.status,
            "ms": round(sighting.seconds * 1_000, 1),
        }
        line |= {"problem": sighting.problem} if sighting.problem else {}
        line |= {"token": sighting.token} if sighting.token else {}
        self._write(json.dumps(line))
