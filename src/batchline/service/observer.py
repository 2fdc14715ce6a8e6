"""What is seen of requests: metrics and logs are told, and the application knows neither."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from batchline.runtime.clock import elapsed_seconds

__all__ = ["GONE", "UNKNOWN", "Observer", "Observers", "Sighting"]

#: The operation of a request before it is found, or if there is none.
UNKNOWN: Final = "unknown"
#: The status of a request whose client has gone before it was answered; nobody gets it.
GONE: Final = 499


@dataclass(slots=True)
class Sighting:
    """A request: what is known of it so far. It has neither its body nor its token's secret."""

    method: str
    operation: str = UNKNOWN
    status: int = GONE
    #: The name of the error that it was refused with; empty if it was not.
    problem: str = ""
    #: The id of its token; empty without one.
    token: str = ""
    began: float = field(default_factory=elapsed_seconds)
    #: How long it took; 0 until it has ended.
    seconds: float = 0.0


class Observer(Protocol):
    """Is told of every request, in the event loop; it must be quick, and raise nothing."""

    def began(self) -> None:
        """A request has come."""

    def ended(self, sighting: Sighting) -> None:
        """It was answered, or its client has gone."""


class Observers:
    """Several observers, told one after the other."""

    def __init__(self, observers: Sequence[Observer] = ()) -> None:
        self._observers = tuple(observers)

    def began(self, method: str) -> Sighting:
        """A request has come."""
        for observer in self._observers:
            observer.began()
        return Sighting(method)

    def lived(self, sighting: Sighting) -> None:
        """A socket has come and gone; it is under way for so long that only then it is told."""
        for observer in self._observers:
            observer.began()
        self.ended(sighting)

    def ended(self, sighting: Sighting) -> None:
        """It was answered, or its client has gone."""
        sighting.seconds = elapsed_seconds() - sighting.began
        for observer in self._observers:
            observer.ended(sighting)
