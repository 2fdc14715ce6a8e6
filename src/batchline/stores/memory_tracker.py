"""The tables of stage 3 in the memory of this process: rows in dictionaries."""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace

from batchline.core.fanout import Fanout, FanoutStatus, NewFanout, State, status_of
from batchline.core.item_group import SHARDS, add_of, full_mask, groups_of, slot_of, upto_of
from batchline.stores.memory_tables import MemoryTables, Table
from batchline.stores.tracker_rows import Add, Failure, Listing, Shard

__all__ = ["MemoryTrackerRows"]


class MemoryTrackerRows:
    """`TrackerRows` on dictionaries; who is in a transaction holds everything."""

    def __init__(self, tables: MemoryTables):
        self._tables = tables

    # --- fanouts ---

    def fanouts_by_id(self, ids: Sequence[str]) -> dict[str, Fanout]:
        """The fanouts of these ids."""
        numbers = self._tables.numbers
        return {one: replace(self._tables.fanouts[numbers[one]]) for one in ids if one in numbers}

    def fanouts_by_salt(self, salts: Sequence[int]) -> dict[int, Fanout]:
        """The fanouts of these salts."""
        wanted = set(salts)
        return {one.salt: replace(one) for one in self._tables.fanouts.values() if one.salt in wanted}

    def hold_fanout(self, number: int) -> Fanout | None:
        """The fanout."""
        found = self._tables.fanouts.get(number)
        return replace(found) if found else None

    def insert_fanout(self, new: NewFanout, parent: int | None, now_us: int) -> int | None:
        """The number of a new fanout with its labels; None if the id is taken."""
        if new.id in self._tables.numbers:
            return None
        number = self._tables.next_number("fanout")
        spans = (new.unsealed_for_us, new.sealed_for_us, new.tombstone_for_us)
        due_us = now_us + new.unsealed_for_us
        fanout = Fanout(
            number,
            new.id,
            new.salt,
            parent,
            None,
            new.tolerate,
            *spans,
            now_us,
            now_us,
            due_us,
            on_complete=new.on_complete,
        )
        self._tables.fanouts[number] = fanout
        self._tables.numbers[new.id] = number
        self._tables.labels[number] = dict(new.labels)
        return number

    def write_fanout(self, fanout: Fanout) -> None:
        """Write a fanout."""
        self._tables.fanouts[fanout.number] = replace(fanout)

    def delete_fanout(self, number: int) -> None:
        """Forget a fanout, its shards and its labels."""
        del self._tables.numbers[self._tables.fanouts[number].id]
        del self._tables.fanouts[number]
        del self._tables.labels[number]
        for key in [key for key in self._tables.shards if key[0] == number]:
            del self._tables.shards[key]

    def told(self, call_id: str) -> list[Fanout]:
        """The fanouts whose end this call was told."""
        return [replace(one) for one in self._tables.fanouts.values() if one.told_to == call_id]

    def unpropagated(self, call_id: str) -> list[int]:
        """Return the numbers of fanouts whose end this call was told, and their parents have yet to be."""
        ended = (one for one in self.told(call_id) if one.ended_as is not None)
        return [one.number for one in ended if one.parent_slot in self._tables.groups]

    # --- adds and groups ---

    def insert_add(self, fanout: int, add_id: str, count: int, child: int | None) -> int | None:
        """The number of a new add; None if the fanout has one of this id."""
        if (fanout, add_id) in self._tables.add_ids:
            return None
        number = self._tables.next_number("add")
        self._tables.add_ids[fanout, add_id] = number
        self._tables.adds[number] = (fanout, add_id, count, child)
        return number

    def add_by_id(self, fanout: int, add_id: str) -> Add | None:
        """The add of this id."""
        number = self._tables.add_ids.get((fanout, add_id))
        return None if number is None else self._add(number)

    def adds_by_number(self, numbers: Sequence[int]) -> dict[int, Add]:
        """The adds of these numbers."""
        return {number: self._add(number) for number in numbers if number in self._tables.adds}

    def _add(self, number: int) -> Add:
        number_of_fanout, _, count, child = self._tables.adds[number]
        fanout = self._tables.fanouts[number_of_fanout]
        return Add(number, fanout.number, count, child, fanout.id, fanout.salt, fanout.expired_us)

    def insert_groups(self, add: int, count: int) -> None:
        """Bits for so many new items, all pending."""
        for place in range(groups_of(count)):
            self._tables.groups[slot_of(add, place)] = full_mask(upto_of(count, place))

    def hold_groups(self, slots: Sequence[int]) -> dict[int, int]:
        """The bits at these slots."""
        groups = self._tables.groups
        return {slot: groups[slot] for slot in slots if slot in groups}

    def write_groups(self, groups: Sequence[tuple[int, int]]) -> None:
        """New bits at these slots."""
        for slot, bits in groups:
            self._tables.groups[slot] = bits

    def delete_groups(self, slots: Sequence[int]) -> None:
        """Forget groups whose items are all done."""
        for slot in slots:
            del self._tables.groups[slot]

    def insert_failures(self, failures: Sequence[Failure]) -> None:
        """Note what failed."""
        for failure in failures:
            before = self._tables.failures.get(failure.slot, ())
            self._tables.failures[failure.slot] = tuple(sorted((*before, failure), key=lambda one: one.bits))

    # --- shards ---

    def grow_shards(self, fanout: int, counts: dict[int, int], now_us: int) -> int:
        """Let shards count more items, and tell how many counted none before."""
        opened = 0
        for shard, count in counts.items():
            before = self._tables.shards.get((fanout, shard), Shard(fanout, shard, 0, now_us))
            opened += before.pending == 0
            self.write_shards([Shard(fanout, shard, before.pending + count, max(before.active_us, now_us))])
        return opened

    def hold_shards(self, shards: Sequence[tuple[int, int]]) -> list[Shard]:
        """These (fanout, shard)."""
        return [self._tables.shards[shard] for shard in shards]

    def write_shards(self, shards: Sequence[Shard]) -> None:
        """New counts."""
        for one in shards:
            self._tables.shards[one.fanout, one.shard] = one

    def shards_active_us(self, fanout: int) -> int | None:
        """The last activity of any of its shards."""
        return max((one.active_us for one in self._shards(fanout)), default=None)

    def _shards(self, fanout: int) -> list[Shard]:
        shards = self._tables.shards
        return [shards[fanout, shard] for shard in range(SHARDS) if (fanout, shard) in shards]

    # --- what is known ---

    def status(self, fanout: str) -> FanoutStatus | None:
        """What is known of a fanout."""
        number = self._tables.numbers.get(fanout)
        return None if number is None else self._status(self._tables.fanouts[number])

    def _status(self, fanout: Fanout) -> FanoutStatus:
        parent = self._tables.fanouts.get(fanout.parent)
        pending = sum(one.pending for one in self._shards(fanout.number))
        labels = dict(sorted(self._tables.labels[fanout.number].items()))
        return status_of(fanout, parent and parent.id, pending, self.shards_active_us(fanout.number), labels)

    def list_fanouts(self, listing: Listing) -> list[tuple[int, FanoutStatus]]:
        """Fanouts by number, each with its number."""
        before = math.inf if listing.before is None else listing.before
        numbers = reversed(self._tables.fanouts) if listing.newest else iter(self._tables.fanouts)
        found = (self._tables.fanouts[number] for number in numbers if listing.after < number < before)
        meeting = [one for one in found if self._meets(one, listing)]
        return [(one.number, self._status(one)) for one in meeting[: listing.limit]]

    def count_fanouts(self, state: State, most: int) -> int:
        """How many fanouts are in a state, up to so many."""
        found: Iterator[Fanout] = iter(self._tables.fanouts.values())
        return min(most, sum(one.state == state for one in found))

    def _meets(self, fanout: Fanout, listing: Listing) -> bool:
        labels = self._tables.labels[fanout.number]
        return (
            listing.state in (None, fanout.state)
            and listing.parent in (None, fanout.parent)
            and (listing.opened_before_us is None or fanout.opened_us < listing.opened_before_us)
            and all(labels.get(name) == value for name, value in listing.labels)
        )

    def pending_groups(self, fanout: int, from_slot: int, limit: int) -> list[tuple[int, int]]:
        """Slots and bits of groups with pending items, in order, from a slot on."""
        slots = self._slots_of(fanout, self._tables.groups, from_slot)
        return [(slot, self._tables.groups[slot]) for slot, _ in zip(slots, range(limit), strict=False)]

    def failures(self, fanout: int, from_slot: int, limit: int) -> list[Failure]:
        """What failed, in order of slots, from a slot on."""
        slots = self._slots_of(fanout, self._tables.failures, from_slot)
        return [failure for slot in slots for failure in self._tables.failures[slot]][:limit]

    def _slots_of(self, fanout: int, table: Table, from_slot: int) -> Iterator[int]:
        slots = sorted(table)
        adds = self._tables.adds
        return (slot for slot in slots[bisect_left(slots, from_slot) :] if adds[add_of(slot)][0] == fanout)

    # --- expiry ---

    def due_fanouts(self, now_us: int, limit: int) -> list[tuple[int, str]]:
        """Return numbers and ids of fanouts that expiry is to look at, longest due first."""
        found: Iterator[Fanout] = iter(self._tables.fanouts.values())
        due = sorted((one.due_us, one.number, one.id) for one in found if one.due_us <= now_us)
        return [(number, id) for _, number, id in due[:limit]]

    def postpone_fanout(self, number: int, due_us: int) -> None:
        """Let expiry look at a fanout at another moment."""
        if number in self._tables.fanouts:
            self._tables.fanouts[number] = replace(self._tables.fanouts[number], due_us=due_us)

    def has_live_child(self, fanout: int) -> bool:
        """Whether a child of it is neither ended nor expired."""
        return any(one.parent == fanout and one.state in ("open", "sealed") for one in self._tables.fanouts.values())

    def has_adds(self, fanout: int) -> bool:
        """Whether anything is known of its items yet."""
        return any(add[0] == fanout for add in self._tables.adds.values())

    def clear_fanout(self, fanout: int, limit: int) -> bool:
        """Forget up to so many of its groups, and its adds when that was all; tells whether it was."""
        for table in (self._tables.groups, self._tables.failures):
            slots = list(self._slots_of(fanout, table, 0))
            for slot in slots[:limit]:
                del table[slot]
            if len(slots) > limit:
                return False
        for number in [number for number, add in self._tables.adds.items() if add[0] == fanout]:
            del self._tables.add_ids[fanout, self._tables.adds[number][1]]
            del self._tables.adds[number]
        return True
