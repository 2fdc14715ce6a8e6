"""The rule of stage 1 on columns, compiled: the same steps as `core/open_batches.py`, on numbers instead of objects.

Rows come grouped by key, in receive order within a key. Every row ends with a verdict and, if batched, the number of
its batch. Batches are numbered as they open; the members of a batch are a chain of rows.

    rows      type event receive size    verdict    links: batch, next ──► the next member of the same batch
    batches   start end closed_at reason ordinal key       head ──► its first member
    keys      where a key's rows begin and end, up to where they are already in batches, and its clock
    open      the open batches of the key at hand, sorted by start, from cursor.low up to cursor.high, and their starts
    members   a hash table from (batch, type) to row: does this batch hold that type?
    used      a hash table from start to batch: which ordinal comes next? (needed only with max_bytes)

Entries of both tables are never deleted: a row or batch knows itself whether an entry still speaks of it, and a table
that fills up is made anew from what is open. So its size follows the open batches, not the rows.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from batchline.columnar.layout import Codes, Ints, Numbers, Open, Records, Rows, compiled, inlined, step
from batchline.core.batch import CloseReason, Verdict
from batchline.core.batch_rules import ANCHORS

__all__ = [
    "ANCHOR_CODES",
    "BATCHED",
    "CLOSE_REASONS",
    "KNOWN",
    "NOTHING",
    "OPEN",
    "VERDICTS",
    "batch_rows",
    "group_by_key",
]

#: The words of the core by code; the constants below are in their order.
VERDICTS: Final = tuple(verdict.value for verdict in Verdict)
CLOSE_REASONS: Final = ("open", *(reason.value for reason in CloseReason), "known")
ANCHOR_CODES: Final = {anchor: code for code, anchor in enumerate(ANCHORS)}

BATCHED, LATE, FUTURE, DUPLICATE, OVERSIZE = 0, 1, 2, 3, 4
OPEN, TIMEOUT, FULL, FLUSH = 0, 1, 2, 3
#: Closed before these rows.
KNOWN = 4
ARRIVAL, LOOKBACK, EVENT = 0, 1, 2
NOTHING: Final = -1
SMALLEST_TABLE: Final = 1024


class Desk(NamedTuple):
    """All that the steps below work on."""

    rules: Numbers
    rows: Rows
    was: Open
    batches: Records
    keys: Records
    open: Codes
    starts: Ints
    cursors: Records


# --- the two tables ---------------------------------------------------------------------------------------------------


@inlined
def member_slot(members: Codes, links: Records, types: Codes, batch: int, type: int) -> int:
    """Where the batch's member of that type stands in the table, or the free place where it would."""
    mask = members.size - 1
    mixed = batch * 0x9E3779B1 + type * 0x85EBCA77
    slot = (mixed ^ (mixed >> 15)) & mask
    while members[slot] != NOTHING:
        row = members[slot]
        if links[row].batch == batch and types[row] == type:
            break
        slot = (slot + 1) & mask
    return slot


@compiled
def renew_members(members: Codes, desk: Desk, more: int) -> Codes:
    """The table anew, with the members of the open batches only and room for `more`."""
    links, types, batches, cursor = desk.rows.links, desk.rows.type, desk.batches, desk.cursors[0]
    live = 0
    for batch in desk.open[cursor.low : cursor.high]:
        live += batches[batch].count
    size = SMALLEST_TABLE
    while size < 4 * (live + more):
        size *= 2
    renewed = members if size == members.size else np.empty(size, np.int32)
    renewed[:] = NOTHING
    for batch in desk.open[cursor.low : cursor.high]:
        row = batches[batch].head
        while row != NOTHING:
            renewed[member_slot(renewed, links, types, batch, types[row])] = row
            row = links[row].next
    cursor.members = live
    return renewed


@step
def start_slot(used: Codes, batches: Records, oldest: int, start: int) -> int:
    """Where the last batch with that start stands in the table, or the free place where it would."""
    mask = used.size - 1
    mixed = start * 0x9E3779B1
    slot = (mixed ^ (mixed >> 17)) & mask
    while used[slot] != NOTHING:
        batch = used[slot]
        if batch >= oldest and batches[batch].start == start:
            break
        slot = (slot + 1) & mask
    return slot


@compiled
def renew_used(used: Codes, desk: Desk) -> Codes:
    """The table anew, without the starts that cannot come again: what could use them would be late."""
    batches, cursor = desk.batches, desk.cursors[0]
    least = cursor.clock - desk.rules.window - desk.rules.max_delay
    live = 0
    for batch in used:
        live += batch >= cursor.oldest and batches[batch].start > least
    size = SMALLEST_TABLE
    while size < 8 * (live + 1):
        size *= 2
    renewed = np.full(size, NOTHING, np.int32)
    for batch in used:
        if batch >= cursor.oldest and batches[batch].start > least:
            renewed[start_slot(renewed, batches, cursor.oldest, batches[batch].start)] = batch
    cursor.used = live
    return renewed


# --- one batch --------------------------------------------------------------------------------------------------------


@inlined
def put_at(desk: Desk, members: Codes, slot: int, row: int, batch: int) -> None:
    """Put the row into the batch, and at its slot into the table of members."""
    into = desk.batches[batch]
    link = desk.rows.links[row]
    link.batch = batch
    link.next = into.head
    into.head = row
    into.bytes += desk.rows.size[row]
    into.count += 1
    desk.cursors[0].members += members[slot] == NOTHING
    members[slot] = row


@inlined
def put(desk: Desk, members: Codes, row: int, batch: int) -> None:
    """Put the row into the batch; the caller has made sure that it fits."""
    links, types = desk.rows.links, desk.rows.type
    put_at(desk, members, member_slot(members, links, types, batch, types[row]), row, batch)


@step
def give(desk: Desk, members: Codes, lower: int, upper: int) -> None:
    """Hand every member from the start of `upper` on over to it."""
    rows, giver, start = desk.rows, desk.batches[lower], desk.batches[upper].start
    row = giver.head
    giver.head = NOTHING
    giver.bytes = 0
    giver.count = 0
    while row != NOTHING:
        following = rows.links[row].next
        put(desk, members, row, upper if rows.event[row] >= start else lower)
        row = following


@step
def new_batch(desk: Desk, used: Codes, start: int, end: int, ordinal: int) -> Any:
    """A new, empty batch: with the next ordinal of its start, or one that it had already."""
    cursor = desk.cursors[0]
    number = cursor.opened
    cursor.opened += 1
    batch = desk.batches[number]
    batch.start = start
    batch.end = end
    batch.closed_at = 0
    batch.bytes = 0
    batch.key = cursor.key
    batch.ordinal = max(ordinal, 0)
    batch.head = NOTHING
    batch.count = 0
    batch.reason = OPEN
    if desk.rules.max_bytes >= 0:
        slot = start_slot(used, desk.batches, cursor.oldest, start)
        if used[slot] == NOTHING:
            cursor.used += 1
        elif ordinal == NOTHING:
            batch.ordinal = desk.batches[used[slot]].ordinal + 1
        used[slot] = number
    return number


@step
def close(batch: Any, closed_at: int, reason: int) -> None:
    """Close the batch; the caller takes it out of the open ones."""
    batch.closed_at = closed_at
    batch.reason = reason


# --- the open batches of the key at hand ------------------------------------------------------------------------------


@inlined
def find(starts: Ints, low: int, high: int, event: int) -> int:
    """The place of the last open batch that starts at or before `event`; low - 1 if there is none."""
    if high > low and starts[high - 1] <= event:
        return high - 1
    length = high - low
    while length > 0:
        half = length // 2
        # Written so that it compiles to a conditional move: a branch here is a coin toss for the processor.
        passed = starts[low + half] <= event
        low = low + half + 1 if passed else low
        length = length - half - 1 if passed else half
    return low - 1


@step
def insert(desk: Desk, used: Codes, place: int, start: int, end: int) -> int:
    """Open a batch so that it stands at `place` among the open ones, moving the shorter side; where it stands now."""
    numbers, starts, cursor = desk.open, desk.starts, desk.cursors[0]
    if cursor.low > 0 and place - cursor.low < cursor.high - place:
        cursor.low -= 1
        place -= 1
        for at in range(cursor.low, place):
            numbers[at] = numbers[at + 1]
            starts[at] = starts[at + 1]
    else:
        for at in range(cursor.high, place, -1):
            numbers[at] = numbers[at - 1]
            starts[at] = starts[at - 1]
        cursor.high += 1
    numbers[place] = new_batch(desk, used, start, end, NOTHING)
    starts[place] = start
    return place


@step
def end_before_next(desk: Desk, start: int, place: int) -> Any:
    """Where a window from `start` ends: it may not reach into the open batch at `place`."""
    end = start + desk.rules.window
    if place < desk.cursors[0].high:
        return min(end, desk.starts[place])
    return end


@step
def anchor(rules: Numbers, event: int, clock: int) -> int:
    """Where the rules let a window for `event` start."""
    if rules.anchor == ARRIVAL:
        return clock - rules.max_delay
    if rules.anchor == LOOKBACK:
        return event - rules.max_delay
    if rules.anchor == EVENT:
        return event
    return event - event % rules.window


@step
def open_for(desk: Desk, used: Codes, event: int, place: int) -> Any:
    """Open the batch that covers an event which no open batch covers; its number."""
    cursor = desk.cursors[0]
    start = anchor(desk.rules, event, cursor.clock)
    if place > cursor.low:
        start = max(start, desk.batches[desk.open[place - 1]].end)
    if not start <= event < start + desk.rules.window:
        # A leap limit or delay longer than the window: the batch must cover its own message.
        start = event
    return desk.open[insert(desk, used, place, start, end_before_next(desk, start, place))]


@step
def split(desk: Desk, members: Codes, used: Codes, place: int, at: int) -> int:
    """Cut the open batch at `place` in two; where the upper half stands, the lower right before it.

    The lower half may have timed out, and then closes.
    """
    cursor = desk.cursors[0]
    number = desk.open[place]
    lower = desk.batches[number]
    end = lower.end if desk.rules.midpoint else end_before_next(desk, at, place + 1)
    place = insert(desk, used, place + 1, at, end)
    give(desk, members, number, desk.open[place])
    lower.end = at
    if at + desk.rules.max_delay <= cursor.clock:
        # Whatever stood before it has timed out earlier: it is the first.
        close(lower, cursor.clock, TIMEOUT)
        cursor.low += 1
    return place


@step
def part(desk: Desk, members: Codes, used: Codes, place: int, other: int, event: int) -> int:
    """Split between two messages of one type; the place of the half that covers `event`."""
    low, high = min(other, event), max(other, event)
    at = low + (high - low + 1) // 2 if desk.rules.midpoint else high
    place = split(desk, members, used, place, at)
    return place if event >= at else place - 1


@step
def make_room(desk: Desk, members: Codes, used: Codes, place: int, row: int) -> int:
    """Split or close the overflowing batch at `place`; the place of the one that takes the row."""
    rows, batch = desk.rows, desk.batches[desk.open[place]]
    event, room = rows.event[row], desk.rules.max_bytes - rows.size[row]
    before, after, has_before, has_after, later = 0, 0, False, False, 0
    member = batch.head
    while member != NOTHING:
        if rows.event[member] < event:
            before += rows.size[member]
            has_before = True
        elif rows.event[member] > event:
            after += rows.size[member]
            later = min(later, rows.event[member]) if has_after else rows.event[member]
            has_after = True
        member = rows.links[member].next
    fits_with_after = has_before and batch.bytes - before <= room
    fits_with_before = has_after and batch.bytes - after <= room
    if has_before and (fits_with_after or not fits_with_before):
        place = split(desk, members, used, place, event)
    if has_after and not fits_with_after:
        place = split(desk, members, used, place, later) - 1
    full = desk.batches[desk.open[place]]
    if full.bytes > room:
        close(full, desk.cursors[0].clock, FULL)
        desk.open[place] = new_batch(desk, used, event, full.end, NOTHING)
        desk.starts[place] = event
    return place


@step
def close_due(desk: Desk, now: int) -> None:
    """Close every batch whose timeout `now` has reached; they stand in front."""
    cursor = desk.cursors[0]
    while cursor.low < cursor.high:
        batch = desk.batches[desk.open[cursor.low]]
        timeout = batch.end + desk.rules.max_delay
        if timeout > now:
            return
        close(batch, timeout, TIMEOUT)
        cursor.low += 1
    leave_none(cursor)


@inlined
def leave_none(cursor: Any) -> None:
    """The key at hand has no open batch, and what it had is forgotten."""
    cursor.low = cursor.high = 0
    cursor.oldest = cursor.opened


# --- a key begins and ends --------------------------------------------------------------------------------------------


@step
def restore_number(desk: Desk, used: Codes) -> None:
    """A batch that closed before these rows: of it, its ordinal is still known."""
    cursor, was = desk.cursors[0], desk.was
    number = new_batch(desk, used, was.closed_start[cursor.closed], 0, was.closed_ordinal[cursor.closed])
    desk.batches[number].reason = KNOWN
    cursor.closed += 1


@step
def restore_row(desk: Desk, members: Codes, used: Codes) -> None:
    """A row that was in an open batch before: back into it."""
    cursor, was, row = desk.cursors[0], desk.was, desk.cursors[0].row
    start = was.start[row]
    if cursor.high == 0 or desk.starts[cursor.high - 1] != start:
        desk.open[cursor.high] = new_batch(desk, used, start, was.end[row], was.ordinal[row])
        desk.starts[cursor.high] = start
        cursor.high += 1
    put(desk, members, row, desk.open[cursor.high - 1])
    desk.rows.verdict[row] = BATCHED
    cursor.row += 1


@step
def restore(desk: Desk, members: Codes, used: Codes) -> bool:
    """Take up what the key at hand had open before these rows; False if a table must be renewed first."""
    cursor, key = desk.cursors[0], desk.keys[desk.cursors[0].key]
    cursor.clock = key.clock
    while cursor.closed < key.closed or cursor.row < key.restored:
        cursor.more = 1
        if 2 * (cursor.members + 1) > members.size or 2 * (cursor.used + 1) > used.size:
            return False
        if cursor.closed < key.closed:
            restore_number(desk, used)
        else:
            restore_row(desk, members, used)
    return True


@step
def leave(desk: Desk, until: int, flush: bool) -> None:
    """No more rows of the key at hand: close what is due by `until`, and the rest if the input has ended."""
    cursor, key = desk.cursors[0], desk.keys[desk.cursors[0].key]
    if cursor.high:
        close_due(desk, until)
    for place in range(cursor.low, cursor.high if flush else 0):
        close(desk.batches[desk.open[place]], cursor.clock, FLUSH)
    # A key without open batches has no clock either.
    stays = cursor.high > 0 and not flush
    key.clock = cursor.clock if stays else 0
    key.oldest = cursor.oldest if stays else NOTHING
    leave_none(cursor)
    cursor.key += 1
    if cursor.key < desk.keys.size:
        cursor.row = desk.keys[cursor.key].begin


# --- one message, and all ---------------------------------------------------------------------------------------------


@inlined
def place_row(desk: Desk, members: Codes, used: Codes, row: int, place: int) -> int:
    """Put an acceptable row into the open batch at `place`, which covers it, or what becomes of that; its verdict."""
    rules, rows, batches = desk.rules, desk.rows, desk.batches
    event, batch = rows.event[row], desk.open[place]
    slot = member_slot(members, rows.links, rows.type, batch, rows.type[row])
    other = members[slot]
    if other == NOTHING and (rules.max_bytes < 0 or batches[batch].bytes + rows.size[row] <= rules.max_bytes):
        put_at(desk, members, slot, row, batch)
        return BATCHED
    if other != NOTHING:
        if rows.event[other] == event:
            return DUPLICATE
        place = part(desk, members, used, place, rows.event[other], event)
    if rules.max_bytes >= 0 and batches[desk.open[place]].bytes + rows.size[row] > rules.max_bytes:
        place = make_room(desk, members, used, place, row)
    put(desk, members, row, desk.open[place])
    return BATCHED


@inlined
def reject(rules: Numbers, event: int, size: int, clock: int) -> int:
    """Why a message is rejected before any batch is looked at, or BATCHED."""
    if event < clock - rules.max_delay:
        return LATE
    if event > clock + rules.leap_limit:
        return FUTURE
    if size > rules.max_bytes >= 0:
        return OVERSIZE
    return BATCHED


@step
def batch_until_full(desk: Desk, members: Codes, used: Codes, until: int, flush: bool) -> bool:
    """Batch row after row, from where the cursor stands, until all are done or a table must be renewed."""
    rules, rows, batches, cursor = desk.rules, desk.rows, desk.batches, desk.cursors[0]
    event, receive, size = rows.event, rows.receive, rows.size
    while cursor.key < desk.keys.size:
        key = desk.keys[cursor.key]
        if cursor.row < key.restored and not restore(desk, members, used):
            return False
        while cursor.row < key.end:
            row = cursor.row
            # A key with open batches has a clock, and it never runs back.
            clock = max(receive[row], cursor.clock) if cursor.high else receive[row]
            cursor.clock = clock
            if cursor.high and batches[desk.open[cursor.low]].end + rules.max_delay <= clock:
                close_due(desk, clock)
            code = reject(rules, event[row], size[row], clock)
            if code == BATCHED:
                place = find(desk.starts, cursor.low, cursor.high, event[row])
                covered = place >= cursor.low and event[row] < batches[desk.open[place]].end
                # The row itself, and every member moved by at most three splits.
                cursor.more = 1 + 3 * batches[desk.open[place]].count if covered else 1
                if 2 * (cursor.members + cursor.more) > members.size or 2 * (cursor.used + 4) > used.size:
                    return False
                if covered:
                    code = place_row(desk, members, used, row, place)
                else:
                    put(desk, members, row, open_for(desk, used, event[row], place + 1))
            if code != BATCHED:
                rows.links[row].batch = NOTHING
            rows.verdict[row] = code
            cursor.row += 1
        leave(desk, until, flush)
    return True


@compiled
def batch_rows(
    rules: Numbers, rows: Rows, was: Open, batches: Records, keys: Records, cursors: Records, until: int, flush: bool
) -> Any:
    """Batch all rows, key after key, each advanced to `until` at its end and flushed if so told; how many batches.

    `batches` has room for one per row and per batch that closed before.
    """
    room = rows.event.size
    desk = Desk(rules, rows, was, batches, keys, np.empty(room, np.int32), np.empty(room, np.int64), cursors)
    members = np.full(SMALLEST_TABLE, NOTHING, np.int32)
    used = np.full(SMALLEST_TABLE, NOTHING, np.int32)
    while not batch_until_full(desk, members, used, until, flush):
        members = renew_members(members, desk, cursors[0].more)
        used = renew_used(used, desk)
    return cursors[0].opened


@compiled
def group_by_key(codes: Codes, count: int) -> tuple[Codes, Ints]:
    """The rows grouped by key, in their order within a key, and where each key's rows end."""
    ends = np.zeros(count, np.int64)
    for key in codes:
        ends[key] += 1
    ends = np.cumsum(ends)
    order = np.empty(codes.size, np.int32)
    for row in range(codes.size - 1, -1, -1):
        key = codes[row]
        ends[key] -= 1
        order[ends[key]] = row
    # Each end has become its key's beginning, which is where the key before it ends.
    ends[:-1] = ends[1:]
    if count:
        ends[-1] = codes.size
    return order, ends
