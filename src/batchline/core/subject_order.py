"""Packing in the order of each subject: groups may be chosen from a stretch of time, but a subject's only in turn."""

from collections.abc import Iterator, Sequence
from typing import Final

from batchline.core.group import Group
from batchline.core.load import Limits, Load, put_cut
from batchline.core.subset import CANDIDATES, RESERVE, Scale, fullest

__all__ = ["LOOK_AHEAD", "in_subject_order"]

#: How many parcels' worth of groups are looked at when one is filled; `make bench` shows what more or fewer would give.
LOOK_AHEAD: Final = 16


def in_subject_order(groups: Sequence[Group], limits: Limits) -> list[Load]:
    """The loads of the parcels; of two groups of one subject the earlier is never in the later parcel."""
    loads: list[Load] = []
    pool: list[Group] = []
    coming = iter(groups)
    while True:
        _look_ahead(pool, coming, limits)
        if not pool:
            return loads
        loads += _fill(pool, limits)
        packed = {id(piece.group) for piece in loads[-1].pieces}
        pool = [group for group in pool if id(group) not in packed]


def _look_ahead(pool: list[Group], coming: Iterator[Group], limits: Limits) -> None:
    """Let groups in until they are worth enough parcels, or none is left."""
    items, size = sum(group.items for group in pool), sum(group.bytes for group in pool)
    while items < LOOK_AHEAD * limits.items and (limits.bytes is None or size < LOOK_AHEAD * limits.bytes):
        group = next(coming, None)
        if group is None:
            return
        pool.append(group)
        items += group.items
        size += group.bytes


def _fill(pool: list[Group], limits: Limits) -> list[Load]:
    """One parcel, begun with the oldest group so that none waits for ever; more if that group must be cut."""
    scale = Scale(limits, sum(group.items for group in pool), sum(group.bytes for group in pool))
    loads, left = [Load()], pool[1:]
    if limits.exceeded_by(pool[0]):
        put_cut(pool[0], loads, limits)
    else:
        loads[0].put(pool[0])
    left = _put_in_turn(left, loads[-1], scale, RESERVE)
    heads = _heads(left, loads[-1], scale)
    chosen = fullest([scale.weight(group) for group in heads], scale.room(loads[-1]), scale.unit)
    for place in chosen:
        loads[-1].put(heads[place])
    taken = {id(heads[place]) for place in chosen}
    _put_in_turn([group for group in left if id(group) not in taken], loads[-1], scale, 0)
    return loads


def _put_in_turn(groups: list[Group], load: Load, scale: Scale, reserve: int) -> list[Group]:
    """Put in what fits and leaves room for `reserve` more like it, the oldest first; what is left."""
    left: list[Group] = []
    waiting: set[str] = set()
    for group in groups:
        weight, room = scale.weight(group), scale.room(load)
        fits = room[0] - weight[0] >= reserve * weight[0] and weight[1] <= room[1]
        if fits and group.subject not in waiting:
            load.put(group)
        else:
            left.append(group)
            waiting.add(group.subject)
    return left


def _heads(groups: list[Group], load: Load, scale: Scale) -> list[Group]:
    """Of each subject the group whose turn it is, if it fits; the oldest, if they are many."""
    room = scale.room(load)
    heads: list[Group] = []
    seen: set[str] = set()
    for group in groups:
        if group.subject not in seen and len(heads) < CANDIDATES:
            seen.add(group.subject)
            weight = scale.weight(group)
            if weight[0] <= room[0] and weight[1] <= room[1]:
                heads.append(group)
    return heads
