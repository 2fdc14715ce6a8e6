"""The rule of stage 2 on columns, compiled: the same steps as `core/time_order.py` and `core/subject_order.py`.

Rows come in pack order, those of a group side by side. Every row ends with the number of its parcel, from 0 in the
order of opening, and of the piece it is in, if its group had to be cut. Sizes are 0 where nobody limits the bytes.

    rows      size                       parcel piece
    groups    begin items bytes subject  of those of one time, or of those looked ahead at:
    pool      group first second         by place: the group, what it takes of the scarcer limit and of the other
              following ──► the first place from here on whose group is still in the pool
    search    best took sums found       for every sum, the least of the other limit; which candidates improved it
    state     what is taken of the parcel at hand, and how the pool is measured
"""

from typing import Any, Final, NamedTuple

import numpy as np

from batchline.columnar.layout import Codes, Ints, compiled, step

__all__ = ["STATE", "Desk", "Groups", "Limits", "desk_of", "pack_by_subject", "pack_by_time"]

# The numbers of `core/subset.py` and `core/time_order.py`; a test keeps them equal.
CANDIDATES: Final = 64
RESERVE: Final = 4
RESOLUTION: Final = 1024
NEAR: Final = 256
FREE, LARGEST, SMALLEST = 0, 1, 2
NOTHING: Final = -1
UNREACHED: Final = 2**62
# The compiler makes a version of a step for every literal that it is called with. `np.int64(0)`, in the calls below, is
# none: the first call in an environment waits half as long.

STATE: Final = np.dtype(
    [
        # The parcel at hand, and what it holds.
        ("parcel", np.int64),
        ("items", np.int64),
        ("bytes", np.int64),
        # The pool: how many places it has, how many groups are still there, and where the last of them may be.
        ("end", np.int64),
        ("left", np.int64),
        ("last", np.int64),
        # Whether bytes are the scarcer limit, and in which unit that is counted.
        ("bytes_first", np.int64),
        ("unit", np.int64),
        # Counts the walks over the pool, so that what was noted on an earlier one does not count.
        ("walk", np.int64),
    ]
)


class Limits(NamedTuple):
    """The rules as numbers; bytes is -1 for no limit. And how many parcels' worth of groups are looked at."""

    items: int
    bytes: int
    look_ahead: int


class Groups(NamedTuple):
    """The groups in pack order: the rows of each, and the sizes of all rows."""

    begin: Ints
    items: Ints
    bytes: Ints
    subject: Codes
    size: Ints


class Desk(NamedTuple):
    """All that the steps below work on."""

    limits: Limits
    groups: Groups
    parcel: Codes
    piece: Codes
    # The pool, by place.
    group: Ints
    spare: Ints
    first: Ints
    second: Ints
    following: Ints
    # The search for the fullest choice.
    best: Ints
    sums: Ints
    proposed: Ints
    took: Any
    found: Ints
    # Of each subject, the last walk on which one of its groups was passed over.
    passed: Ints
    states: Any


def desk_of(limits: Limits, groups: Groups, rows: int, pool: int, subjects: int, states: Any) -> Desk:
    """A desk with room for a pool of so many groups."""
    return Desk(
        limits,
        groups,
        np.full(rows, NOTHING, np.int32),
        np.zeros(rows, np.int32),
        np.empty(pool, np.int64),
        np.empty(pool, np.int64),
        np.empty(pool, np.int64),
        np.empty(pool, np.int64),
        np.empty(pool + 1, np.int64),
        np.empty(RESOLUTION + 1, np.int64),
        np.empty(RESOLUTION + 1, np.int64),
        np.empty(RESOLUTION + 1, np.int64),
        np.empty((CANDIDATES, RESOLUTION + 1), np.bool_),
        np.empty(CANDIDATES, np.int64),
        np.zeros(subjects, np.int64),
        states,
    )


# --- weights: what is taken of the scarcer limit, and of the other ----------------------------------------------------


@step
def measure(desk: Desk, items: int, size: int) -> None:
    """Decide by what the pool holds which limit is the scarcer one."""
    limits, state = desk.limits, desk.states[0]
    state.bytes_first = limits.bytes >= 0 and float(size) / limits.bytes > float(items) / limits.items
    most = limits.bytes if state.bytes_first else limits.items
    state.unit = -(-most // RESOLUTION)


@step
def first_room(desk: Desk) -> Any:
    """What is left of the scarcer limit."""
    limits, state = desk.limits, desk.states[0]
    return limits.bytes - state.bytes if state.bytes_first else limits.items - state.items


@step
def second_room(desk: Desk) -> Any:
    """What is left of the other limit."""
    limits, state = desk.limits, desk.states[0]
    if limits.bytes < 0:
        return 0
    return limits.items - state.items if state.bytes_first else limits.bytes - state.bytes


@step
def weigh(desk: Desk, place: int) -> None:
    """Note what the group at a place takes."""
    groups, group = desk.groups, desk.group[place]
    bytes_first = desk.states[0].bytes_first
    desk.first[place] = groups.bytes[group] if bytes_first else groups.items[group]
    desk.second[place] = groups.items[group] if bytes_first else groups.bytes[group]


@step
def exceeds(desk: Desk, group: int) -> bool:
    """Whether the group is too large for a parcel of its own."""
    limits, groups = desk.limits, desk.groups
    return bool(groups.items[group] > limits.items or (limits.bytes >= 0 and groups.bytes[group] > limits.bytes))


# --- one parcel -------------------------------------------------------------------------------------------------------


@step
def open_parcel(desk: Desk) -> None:
    """Go on to the next parcel."""
    state = desk.states[0]
    state.parcel += 1
    state.items = 0
    state.bytes = 0


@step
def put(desk: Desk, group: int) -> None:
    """Put a whole group into the parcel at hand; the caller has made sure that it fits."""
    groups, state = desk.groups, desk.states[0]
    for row in range(groups.begin[group], groups.begin[group] + groups.items[group]):
        desk.parcel[row] = state.parcel
        desk.piece[row] = 0
    state.items += groups.items[group]
    state.bytes += groups.bytes[group]


@step
def count_pieces(desk: Desk, group: int, items: int, size: int) -> Any:
    """How many pieces a group is cut into that goes on in a parcel with so much in it; 0 if nothing more fits there."""
    limits, groups = desk.limits, desk.groups
    begin = groups.begin[group]
    pieces = 1
    for row in range(begin, begin + groups.items[group]):
        if items == limits.items or (limits.bytes >= 0 and size + groups.size[row] > limits.bytes):
            if row == begin:
                return 0
            pieces += 1
            items = 0
            size = 0
        items += 1
        size += groups.size[row]
    return pieces


@step
def continues(desk: Desk, group: int) -> bool:
    """Whether the cut may begin in a parcel that holds something: it must not cost the group one parcel more."""
    state = desk.states[0]
    if state.items == 0:
        return True
    here = count_pieces(desk, group, state.items, state.bytes)
    return bool(0 < here <= count_pieces(desk, group, np.int64(0), np.int64(0)))


@step
def put_cut(desk: Desk, group: int) -> None:
    """Cut the group into the parcel at hand and as many new ones as it needs."""
    limits, groups, state = desk.limits, desk.groups, desk.states[0]
    piece = 0
    for row in range(groups.begin[group], groups.begin[group] + groups.items[group]):
        size = groups.size[row]
        if state.items == limits.items or (limits.bytes >= 0 and state.bytes + size > limits.bytes):
            open_parcel(desk)
            piece += 1
        desk.parcel[row] = state.parcel
        desk.piece[row] = piece
        state.items += 1
        state.bytes += size


# --- the fullest choice -----------------------------------------------------------------------------------------------


@step
def all_fit(desk: Desk, count: int) -> bool:
    """Whether all candidates found fit together."""
    first, second = first_room(desk), second_room(desk)
    for at in range(count):
        first -= desk.first[desk.found[at]]
        second -= desk.second[desk.found[at]]
    return bool(first >= 0 and second >= 0)


@step
def extend(desk: Desk, tried: int, reached: int, most: int) -> Any:
    """Try the next candidate on top of every sum reached so far; how many sums are reached then."""
    best, sums, proposed, took = desk.best, desk.sums, desk.proposed, desk.took
    place, unit, other = desk.found[tried], desk.states[0].unit, second_room(desk)
    width = -(-desk.first[place] // unit)
    took[tried, : most + 1] = False
    for at in range(reached):
        proposed[at] = best[sums[at]] + desk.second[place]
    count = reached
    for at in range(reached):
        grown = sums[at] + width
        if grown <= most and proposed[at] <= other and proposed[at] < best[grown]:
            if best[grown] == UNREACHED:
                sums[count] = grown
                count += 1
            best[grown] = proposed[at]
            took[tried, grown] = True
    return count


@step
def search(desk: Desk, count: int) -> Any:
    """Of the candidates found, keep in front those that together come nearest to the room; how many they are."""
    if all_fit(desk, count):
        return count
    best, sums, unit = desk.best, desk.sums, desk.states[0].unit
    most = first_room(desk) // unit
    near = most - most // NEAR if unit > 1 else most
    best[: most + 1] = UNREACHED
    best[0] = 0
    sums[0] = 0
    reached, filled, tried = np.int64(1), np.int64(0), np.int64(0)
    while tried < count and (tried == 0 or filled < near):
        before = reached
        reached = extend(desk, tried, before, most)
        for at in range(before, reached):
            filled = max(filled, sums[at])
        tried += 1
    return keep_chosen(desk, tried, filled)


@step
def keep_chosen(desk: Desk, tried: int, filled: int) -> int:
    """Follow the choice back from the sum it reached."""
    found, unit, chosen = desk.found, desk.states[0].unit, 0
    for place in range(tried - 1, -1, -1):
        width = -(-desk.first[found[place]] // unit)
        if width <= filled and desk.took[place, filled]:
            filled -= width
            chosen += 1
            # Behind those not looked at yet, which are as many as `place`: nothing is overwritten too early.
            found[tried - chosen] = found[place]
    for place in range(chosen):
        found[place] = found[tried - chosen + place]
    return chosen


# --- the pool of one time ---------------------------------------------------------------------------------------------


@step
def heavier(desk: Desk, one: int, other: int) -> bool:
    """Whether group `other` must not stand before `one`: the larger first, on a tie as they are."""
    groups = desk.groups
    items = groups.items[one] - groups.items[other]
    size = groups.bytes[one] - groups.bytes[other]
    if desk.states[0].bytes_first:
        items, size = size, items
    return bool(items > 0 or (items == 0 and size >= 0))


@step
def merge(desk: Desk, begin: int, middle: int, end: int) -> None:
    """Merge two neighbouring sorted stretches of the pool."""
    group, spare = desk.group, desk.spare
    if heavier(desk, group[middle - 1], group[middle]):
        return
    for place in range(begin, middle):
        spare[place] = group[place]
    left, right, at = begin, middle, begin
    while left < middle:
        if right == end or heavier(desk, spare[left], group[right]):
            group[at] = spare[left]
            left += 1
        else:
            group[at] = group[right]
            right += 1
        at += 1


@step
def sort_pool(desk: Desk, end: int) -> None:
    """The largest groups first."""
    width = 1
    while width < end:
        for begin in range(0, end - width, 2 * width):
            merge(desk, begin, begin + width, min(begin + 2 * width, end))
        width *= 2


@step
def there(desk: Desk, place: int) -> Any:
    """The first place from this on whose group is still in the pool."""
    following = desk.following
    while following[place] != place:
        following[place] = following[following[place]]
        place = following[place]
    return place


@step
def fits(desk: Desk, place: int) -> bool:
    """Whether the group at a place fits into the parcel at hand."""
    return bool(desk.first[place] <= first_room(desk) and desk.second[place] <= second_room(desk))


@step
def fitting(desk: Desk, begin: int) -> Any:
    """The place of the largest group that fits, from `begin` on; the end if none does, or none is soon found."""
    end, room = desk.states[0].end, first_room(desk)
    low, high = begin, end
    while low < high:
        half = (low + high) // 2
        if desk.first[half] <= room:
            high = half
        else:
            low = half + 1
    place = there(desk, low)
    for _ in range(CANDIDATES):
        if place == end or fits(desk, place):
            return place
        place = there(desk, place + 1)
    return end


@step
def largest(desk: Desk) -> Any:
    """The place of the largest group that fits; the end if none does, or none is soon found."""
    return fitting(desk, np.int64(0))


@step
def smallest(desk: Desk) -> Any:
    """The place of the last group that is still there; the end if it does not fit."""
    state = desk.states[0]
    while state.last >= 0 and desk.following[state.last] != state.last:
        state.last -= 1
    return state.last if state.last >= 0 and fits(desk, state.last) else state.end


@step
def take(desk: Desk, place: int) -> None:
    """Put the group at a place into the parcel at hand."""
    put(desk, desk.group[place])
    desk.following[place] = place + 1
    desk.states[0].left -= 1


@step
def find_candidates(desk: Desk) -> int:
    """All groups that fit; of too many, some from all over the sizes. How many they are."""
    begin, end = largest(desk), desk.states[0].end
    span = end - begin
    count, after = 0, 0
    for number in range(min(span, CANDIDATES)):
        place = begin + (number if span <= CANDIDATES else number * span // CANDIDATES)
        place = there(desk, max(place, after))
        if place < end and fits(desk, place):
            desk.found[count] = place
            count += 1
            after = place + 1
    return count


@step
def fill_from_pool(desk: Desk, way: int) -> None:
    """Put into the parcel at hand what fills it best."""
    state = desk.states[0]
    if way != FREE:
        place = largest(desk) if way == LARGEST else smallest(desk)
        if place < state.end:
            take(desk, place)
    place = largest(desk)
    while place < state.end and first_room(desk) - desk.first[place] >= RESERVE * desk.first[place]:
        take(desk, place)
        place = largest(desk)
    for chosen in range(search(desk, find_candidates(desk))):
        take(desk, desk.found[chosen])
    place = largest(desk)
    while place < state.end:
        take(desk, place)
        place = fitting(desk, place + 1)


# --- the order of time ------------------------------------------------------------------------------------------------


@step
def gather(desk: Desk, begin: int, end: int) -> None:
    """Make the groups of one time, but for those that must be cut, the pool."""
    state, groups = desk.states[0], desk.groups
    items = 0
    size = 0
    count = 0
    for group in range(begin, end):
        items += groups.items[group]
        size += groups.bytes[group]
        if not exceeds(desk, group):
            desk.group[count] = group
            count += 1
    state.end = count
    measure(desk, items, size)
    sort_pool(desk, count)
    for place in range(count):
        weigh(desk, place)


@step
def fill_time(desk: Desk, begin: int, end: int, way: int) -> None:
    """Pack the groups of one time, from the parcel at hand on."""
    state = desk.states[0]
    state.left = state.end
    state.last = state.end - 1
    for place in range(state.end + 1):
        desk.following[place] = place
    if state.left < end - begin:
        for group in range(begin, end):
            if exceeds(desk, group):
                if not continues(desk, group):
                    fill_from_pool(desk, way)
                    open_parcel(desk)
                put_cut(desk, group)
    while state.left:
        fill_from_pool(desk, way)
        if state.left:
            open_parcel(desk)


@step
def try_way(desk: Desk, begin: int, end: int, way: int, before: Any) -> tuple[int, int, int]:
    """Pack one time in one way, from the state before; the parcels opened, and what the last of them holds."""
    state = desk.states[0]
    state.parcel, state.items, state.bytes = before
    fill_time(desk, begin, end, way)
    most = desk.limits.bytes if state.bytes_first else desk.limits.items
    return state.parcel - before[0], most - first_room(desk), -second_room(desk)


@step
def put_all(desk: Desk, begin: int, end: int) -> bool:
    """Put all groups of one time into the parcel at hand, if they fit: then there is nothing to choose."""
    state, groups, limits = desk.states[0], desk.groups, desk.limits
    items, size = state.items, state.bytes
    for group in range(begin, end):
        items += groups.items[group]
        size += groups.bytes[group]
    if items > limits.items or size > limits.bytes >= 0:
        return False
    for group in range(begin, end):
        put(desk, group)
    return True


@step
def pack_one_time(desk: Desk, begin: int, end: int) -> None:
    """Pack the groups of one time in the way that leaves the fewest parcels, and the last one emptiest."""
    state, groups = desk.states[0], desk.groups
    if put_all(desk, begin, end):
        return
    gather(desk, begin, end)
    most = desk.limits.bytes if state.bytes_first else desk.limits.items
    total = most - first_room(desk)
    for group in range(begin, end):
        total += groups.bytes[group] if state.bytes_first else groups.items[group]
    before = (state.parcel, state.items, state.bytes)
    best = (UNREACHED, UNREACHED, UNREACHED)
    chosen: Any = FREE
    last: Any = FREE
    for way in range(FREE, SMALLEST + 1):
        last = way
        left = try_way(desk, begin, end, way, before)
        if left < best:
            best = left
            chosen = way
        room = best[0] * most
        if room + best[1] - total <= room // NEAR:
            break
    if chosen != last:
        try_way(desk, begin, end, chosen, before)


@compiled
def pack_by_time(desk: Desk, times: Ints) -> None:
    """Pack all groups; what is in the parcel at hand at the end may still be joined by later ones."""
    begin = np.int64(0)
    while begin < times.size:
        end = begin + 1
        while end < times.size and times[end] == times[begin]:
            end += 1
        pack_one_time(desk, begin, end)
        begin = end


# --- the order of each subject ----------------------------------------------------------------------------------------


@step
def enough(limits: Limits, items: int, size: int) -> bool:
    """Whether the pool is worth the parcels to look ahead."""
    ahead = limits.look_ahead
    return bool(items >= ahead * limits.items or (limits.bytes >= 0 and size >= ahead * limits.bytes))


@step
def put_in_turn(desk: Desk, reserve: int) -> None:
    """Put in what fits and leaves room for `reserve` more like it, the oldest first."""
    state, groups = desk.states[0], desk.groups
    state.walk += 1
    kept = 0
    for place in range(state.end):
        group = desk.group[place]
        subject, first = groups.subject[group], desk.first[place]
        free = first_room(desk) - first >= reserve * first and desk.second[place] <= second_room(desk)
        if free and desk.passed[subject] != state.walk:
            put(desk, group)
        else:
            desk.passed[subject] = state.walk
            keep(desk, place, kept)
            kept += 1
    state.end = kept


@step
def keep(desk: Desk, place: int, to: int) -> None:
    """Move what stands at a place to another, in front of it."""
    desk.group[to] = desk.group[place]
    desk.first[to] = desk.first[place]
    desk.second[to] = desk.second[place]


@step
def find_heads(desk: Desk) -> int:
    """Of each subject the group whose turn it is, if it fits; the oldest, if they are many. How many they are."""
    state, groups = desk.states[0], desk.groups
    state.walk += 1
    count = 0
    for place in range(state.end):
        if count == CANDIDATES:
            break
        subject = groups.subject[desk.group[place]]
        if desk.passed[subject] != state.walk:
            desk.passed[subject] = state.walk
            if fits(desk, place):
                desk.found[count] = place
                count += 1
    return count


@step
def put_heads(desk: Desk) -> None:
    """Put in those heads that together fill the parcel best."""
    state = desk.states[0]
    chosen = search(desk, find_heads(desk))
    if chosen == 0:
        return
    kept, at = desk.found[0], 0
    for place in range(desk.found[0], state.end):
        if at < chosen and desk.found[at] == place:
            put(desk, desk.group[place])
            at += 1
        else:
            keep(desk, place, kept)
            kept += 1
    state.end = kept


@step
def fill_by_subject(desk: Desk) -> None:
    """Fill one parcel from the pool, begun with the oldest group so that none waits for ever."""
    state, oldest = desk.states[0], desk.group[0]
    if exceeds(desk, oldest):
        put_cut(desk, oldest)
    else:
        put(desk, oldest)
    for place in range(1, state.end):
        desk.group[place - 1] = desk.group[place]
        weigh(desk, place - 1)
    state.end -= 1
    put_in_turn(desk, np.int64(RESERVE))
    put_heads(desk)
    put_in_turn(desk, np.int64(0))


@compiled
def pack_by_subject(desk: Desk, end: bool) -> None:
    """Pack the groups as far as there is enough to look ahead at, or all of them at the end; the rest has no parcel."""
    state, groups, limits = desk.states[0], desk.groups, desk.limits
    coming = 0
    while True:
        items = np.int64(0)
        size = np.int64(0)
        for place in range(state.end):
            items += groups.items[desk.group[place]]
            size += groups.bytes[desk.group[place]]
        while coming < groups.items.size and not enough(limits, items, size):
            desk.group[state.end] = coming
            state.end += 1
            items += groups.items[coming]
            size += groups.bytes[coming]
            coming += 1
        if state.end == 0 or not (end or enough(limits, items, size)):
            return
        measure(desk, items, size)
        fill_by_subject(desk)
        open_parcel(desk)
