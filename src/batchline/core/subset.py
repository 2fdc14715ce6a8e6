"""Which of some groups fill a parcel best.

A group's weight is a pair: what it takes of the scarcer of the two limits, items or bytes, and what of the other.
"""

from collections.abc import Sequence
from typing import Final

from batchline.core.group import Group
from batchline.core.load import Limits, Load

__all__ = ["CANDIDATES", "NEAR", "RESERVE", "Scale", "Weight", "fullest"]

#: Most groups among which the fullest choice is sought; more would cost time and gain next to nothing.
CANDIDATES: Final = 64
#: The choice is left open for the last groups of a parcel only: for a room of so many groups of the size at hand.
RESERVE: Final = 4
#: A limit above this is counted in units that are larger than 1, so that the search stays short.
RESOLUTION: Final = 1024

#: What is next to nothing: of a large room, less than one part in so many.
NEAR: Final = 256

Weight = tuple[int, int]


class Scale:
    """Which limit is the scarcer one for some groups, and in which unit it is counted."""

    def __init__(self, limits: Limits, items: int, size: int) -> None:
        self.limits = limits
        self.bytes_first = limits.bytes is not None and float(size) / limits.bytes > float(items) / limits.items
        self.most = self._pair(limits.items, limits.bytes or 0)
        self.unit = -(-self.most[0] // RESOLUTION)

    def weight(self, group: Group) -> Weight:
        """What a group takes."""
        return self._pair(group.items, group.bytes)

    def load(self, load: Load) -> Weight:
        """What is taken of a parcel."""
        return self._pair(load.items, load.bytes)

    def room(self, load: Load) -> Weight:
        """What is left of a parcel."""
        first, second = self.load(load)
        return self.most[0] - first, self.most[1] - second

    def _pair(self, items: int, size: int) -> Weight:
        if self.limits.bytes is None:
            return items, 0
        return (size, items) if self.bytes_first else (items, size)


def fullest(weights: Sequence[Weight], room: Weight, unit: int) -> list[int]:
    """The places of those that together come nearest to the room, the earlier ones among equals.

    For every sum that can be reached it keeps the choice that takes least of the other limit, in the order given, and
    stops at the first that leaves nothing or, where the unit is coarse, next to nothing.
    """
    if sum(first for first, _ in weights) <= room[0] and sum(second for _, second in weights) <= room[1]:
        return list(range(len(weights)))
    most = room[0] // unit
    near = range(most - (most // NEAR if unit > 1 else 0), most + 1)
    best: dict[int, tuple[int, Chain]] = {0: (0, None)}
    for place, (first, second) in enumerate(weights):
        step = -(-first // unit)
        for filled, (other, chain) in list(best.items()):
            reached, taken = filled + step, other + second
            if reached <= most and taken <= room[1] and (reached not in best or taken < best[reached][0]):
                best[reached] = taken, (place, chain)
        if any(filled in best for filled in near):
            break
    return _places(best[max(best)][1])


Chain = tuple[int, "Chain"] | None


def _places(chain: Chain) -> list[int]:
    places = []
    while chain is not None:
        place, chain = chain
        places.append(place)
    return places[::-1]
