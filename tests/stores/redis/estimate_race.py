"""One of those who race to complete fanouts, in a module that a new process can load."""

from collections.abc import Sequence
from typing import Protocol

from batchline.runtime.estimated_tracker import EstimatedTracker
from batchline.stores.redis.estimates import EstimateStore

__all__ = ["Gate", "race", "race_in_process", "stand_at"]


class Gate(Protocol):
    """Where all wait for each other: the barrier of threads, or that of processes."""

    def wait(self, timeout: float | None = None) -> int:
        """Go on when everybody is here."""


def race(tracker: EstimatedTracker, fanouts: Sequence[str], verb: str, gate: Gate) -> list[str]:
    """Seal, ack or fail one after the other, each at the same time as the others; those that this one was told of."""
    call = getattr(tracker, verb)
    told = []
    for fanout in fanouts:
        gate.wait(60)
        outcome = call(fanout)
        if outcome.completed or outcome.failed:
            told.append(fanout)
    return told


#: Set when the process starts: a barrier can be inherited, but not sent.
gates: list[Gate] = []


def stand_at(gate: Gate) -> None:
    """What a process does first: from now on this is its gate."""
    gates.append(gate)


def race_in_process(url: str, fanouts: Sequence[str], verb: str) -> list[str]:
    """The same, in a process of its own."""
    with EstimateStore(url) as store:
        return race(EstimatedTracker(store), fanouts, verb, gates[0])
