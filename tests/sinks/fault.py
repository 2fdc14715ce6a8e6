"""What a receiver is to do wrong, and for how long."""

import random
from dataclasses import dataclass, fields
from typing import Any, Literal

__all__ = ["Fault", "Plan", "read_faults"]


@dataclass(slots=True)
class Fault:
    """One way to misbehave: of the first `times` requests, or all, or a share of them by chance.

    answer: with a status, and perhaps Retry-After
    hang: no answer until the client goes, or the plan changes
    cut: the connection is closed, without an answer
    half: it is closed in the midst of the answer
    """

    do: Literal["answer", "hang", "cut", "half"] = "answer"
    status: int = 200
    #: As it stands in the header.
    retry_after: str | None = None
    #: Whether the parcel is taken all the same; by default if the answer is a good one.
    taken: bool | None = None
    #: With status 207: the places of measurements that are not taken, for good or for now.
    refused: tuple[int, ...] = ()
    again: tuple[int, ...] = ()
    #: The body of the answer, if not one that suits it.
    body: str | None = None
    headers: dict[str, str] | None = None
    #: How often; None for ever.
    times: int | None = None
    #: The share of requests that it concerns.
    share: float = 1.0

    @property
    def takes(self) -> bool:
        """Whether the parcel is taken."""
        return self.do == "answer" and 200 <= self.status < 300 if self.taken is None else self.taken


def read_faults(data: list[dict[str, Any]]) -> list[Fault]:
    """Faults out of JSON."""
    known = {one.name for one in fields(Fault)}
    for one in data:
        if unknown := one.keys() - known:
            raise ValueError(f"a fault has {sorted(known)}, got {sorted(unknown)}")
    return [Fault(**one) for one in data]


class Plan:
    """Faults in their order: a request meets the first that concerns it; without one all is well."""

    def __init__(self, faults: list[Fault], seed: int = 0):
        self._faults = faults
        self._random = random.Random(seed)

    def next(self) -> Fault:
        """What becomes of the next request."""
        for fault in self._faults:
            if fault.times != 0 and self._random.random() < fault.share:
                if fault.times is not None:
                    fault.times -= 1
                return fault
        return Fault()
