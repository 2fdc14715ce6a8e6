"""What a worker does with the parcels of a lane that it has in hand: one after the other, whoever has the rest.

    delivered …7 │ 8  9  10 │ 12      8 is sent; 9 and 10 wait for it; 12 waits for 11, which somebody else may have

A parcel whose turn does not come, because one before it failed or is not to be seen, is given back with all behind it.
"""

from dataclasses import dataclass, field
from typing import Literal

__all__ = ["LaneOrder", "Place"]

#: Where a parcel stands: it is to be sent, it waits, or it has arrived before.
Place = Literal["turn", "wait", "arrived"]


@dataclass(slots=True)
class LaneOrder:
    """The parcels of one lane in the hands of one worker, by their numbers."""

    #: All up to this number have arrived.
    delivered: int = 0
    in_hand: set[int] = field(default_factory=set)
    #: Until when it stands, because a parcel failed: seconds by the worker's clock.
    until_s: float = 0.0

    def take(self, number: int) -> Place:
        """Take a parcel in hand; what is to be done with it."""
        self.in_hand.add(number)
        return self.place(number)

    def place(self, number: int) -> Place:
        """Where a parcel stands by now."""
        if number <= self.delivered:
            return "arrived"
        return "turn" if number == self.delivered + 1 else "wait"

    def leads(self, number: int) -> bool:
        """Whether the one before a parcel is in hand: then its turn will come, and it need not look for it."""
        return number - 1 in self.in_hand

    def arrived(self, number: int) -> None:
        """A parcel has arrived, or will not any more: the next may go."""
        self.in_hand.discard(number)
        self.delivered = max(self.delivered, number)

    def seen(self, delivered: int) -> None:
        """What the store says: others may have brought the lane further."""
        self.delivered = max(self.delivered, delivered)

    def give_back(self, number: int, until_s: float) -> list[int]:
        """A parcel is given back, until then: so are all in hand that come behind it."""
        behind = sorted(one for one in self.in_hand if one > number)
        self.in_hand.difference_update((number, *behind))
        self.until_s = max(self.until_s, until_s)
        return behind
