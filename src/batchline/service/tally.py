"""How many requests a process was asked, for its reports."""

from collections.abc import Mapping

from batchline.service.observer import Sighting
from batchline.service.under_way import UnderWay

__all__ = ["Tally"]


class Tally:
    """An observer that counts; the counts are read by another thread."""

    def __init__(self, under_way: UnderWay) -> None:
        self._under_way = under_way
        self._requests = self._refused = self._broken = 0

    def began(self) -> None:
        """A request has come."""
        self._requests += 1

    def ended(self, sighting: Sighting) -> None:
        """It was answered, or its client has gone."""
        self._refused += bool(sighting.problem)
        self._broken += sighting.status == 500

    def numbers(self) -> Mapping[str, int]:
        """What a report says."""
        return {
            "requests": self._requests,
            "refused": self._refused,
            "broken": self._broken,
            "under_way": self._under_way.requests,
            "waiting": self._under_way.waiting,
        }
