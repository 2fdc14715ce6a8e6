"""Packing in the order of time: the groups that tie on time may be chosen among, and no others."""

from bisect import bisect_left
from collections.abc import Iterable
from itertools import groupby
from typing import Final

from batchline.core.group import Group
from batchline.core.load import Limits, Load, continues, put_cut
from batchline.core.subset import CANDIDATES, NEAR, RESERVE, Scale, Weight, fullest

__all__ = ["in_time_order"]

#: What a parcel takes first, all tried at each time: nothing in particular, the largest group that fits, the smallest.
FREE, LARGEST, SMALLEST = 0, 1, 2
WAYS: Final = (FREE, LARGEST, SMALLEST)


def in_time_order(groups: Iterable[Group], limits: Limits) -> list[Load]:
    """The loads of the parcels; of two groups at different times the earlier is never in the later parcel."""
    loads = [Load()]
    for _, tied in groupby(groups, key=lambda group: group.time_us):
        loads += _fill_best(list(tied), loads.pop(), limits)
    return [load for load in loads if load.items]


def _fill_best(tied: list[Group], straddling: Load, limits: Limits) -> list[Load]:
    """The parcels that hold the groups of one time, from the one that straddles it on: few, and the last one empty.

    Nothing more can be won: what comes later sees only the last one.
    """
    scale = Scale(limits, sum(group.items for group in tied), sum(group.bytes for group in tied))
    total = scale.load(straddling)[0] + sum(scale.weight(group)[0] for group in tied)
    best: list[Load] = []
    for way in WAYS:
        loads = _fill(tied, straddling.copy(), scale, way)
        if not best or _waste(loads, scale) < _waste(best, scale):
            best = loads
        closed, last = len(best) - 1, scale.load(best[-1])[0]
        room = closed * scale.most[0]
        if room + last - total <= room // NEAR:
            break
    return best


def _waste(loads: list[Load], scale: Scale) -> tuple[int, Weight]:
    return len(loads), scale.load(loads[-1])


def _fill(tied: list[Group], straddling: Load, scale: Scale, way: int) -> list[Load]:
    loads, limits = [straddling], scale.limits
    pool = _Pool([group for group in tied if not limits.exceeded_by(group)], scale, way)
    for group in tied:
        if limits.exceeded_by(group):
            if not continues(group, loads[-1], limits):
                pool.fill(loads[-1])
                loads.append(Load())
            put_cut(group, loads, limits)
    while pool.left:
        pool.fill(loads[-1])
        if pool.left:
            loads.append(Load())
    return loads


class _Pool:
    """The groups of one time that are in no parcel yet, the largest first."""

    def __init__(self, groups: list[Group], scale: Scale, way: int) -> None:
        self._scale, self._way = scale, way
        ordered = sorted(((scale.weight(group), group) for group in groups), key=lambda pair: _descending(pair[0]))
        self._weights = [weight for weight, _ in ordered]
        self._groups = [group for _, group in ordered]
        self._ascending = [-first for first, _ in self._weights]
        #: From each place on, the first that may still be there; behind the last one stands the end.
        self._following = list(range(len(groups) + 1))
        self._last = len(groups) - 1
        self.left = len(groups)

    def fill(self, load: Load) -> None:
        """Put into the parcel what fills it best."""
        if self._way == LARGEST:
            self._take(self._fitting(load), load)
        elif self._way == SMALLEST:
            self._take(self._smallest(load), load)
        while self._far_from_full(place := self._fitting(load), load):
            self._take(place, load)
        candidates, room = self._candidates(load), self._scale.room(load)
        for chosen in fullest([self._weights[place] for place in candidates], room, self._scale.unit):
            self._take(candidates[chosen], load)
        # Beyond the candidates, and where a coarse unit hid that a group fits.
        place = self._fitting(load)
        while place < len(self._groups):
            self._take(place, load)
            place = self._fitting(load, place + 1)

    def _far_from_full(self, place: int, load: Load) -> bool:
        if place == len(self._groups):
            return False
        first = self._weights[place][0]
        return self._scale.room(load)[0] - first >= RESERVE * first

    def _candidates(self, load: Load) -> list[int]:
        """All groups that fit; of too many, some from all over the sizes."""
        begin, end = self._fitting(load), len(self._groups)
        if end - begin <= CANDIDATES:
            places: Iterable[int] = range(begin, end)
        else:
            places = (begin + number * (end - begin) // CANDIDATES for number in range(CANDIDATES))
        room = self._scale.room(load)
        found: list[int] = []
        for place in places:
            there = self._there(max(place, found[-1] + 1 if found else 0))
            if there < end and _fits(self._weights[there], room):
                found.append(there)
        return found

    def _fitting(self, load: Load, begin: int = 0) -> int:
        """The place of the largest group that fits, from `begin` on; the end if none does, or none is soon found."""
        room, end = self._scale.room(load), len(self._groups)
        place = self._there(max(begin, bisect_left(self._ascending, -room[0])))
        for _ in range(CANDIDATES):
            if place == end or _fits(self._weights[place], room):
                return place
            place = self._there(place + 1)
        return end

    def _smallest(self, load: Load) -> int:
        """The place of the last group that is still there; the end if it does not fit."""
        while self._last >= 0 and self._following[self._last] != self._last:
            self._last -= 1
        there = self._last >= 0 and _fits(self._weights[self._last], self._scale.room(load))
        return self._last if there else len(self._groups)

    def _there(self, place: int) -> int:
        """The first place from this on whose group is still there."""
        following = self._following
        while following[place] != place:
            following[place] = following[following[place]]
            place = following[place]
        return place

    def _take(self, place: int, load: Load) -> None:
        if place < len(self._groups):
            load.put(self._groups[place])
            self._following[place] = place + 1
            self.left -= 1


def _descending(weight: Weight) -> Weight:
    return -weight[0], -weight[1]


def _fits(weight: Weight, room: Weight) -> bool:
    return weight[0] <= room[0] and weight[1] <= room[1]
