"""The tables of stage 3 in a SQL database, through the named queries of its `tracker.sql`."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any, Final

from batchline.core.ack import Asked
from batchline.core.fanout import Ending, Fanout, FanoutStatus, NewFanout, State, status_of
from batchline.core.item_group import ALL_BITS, GROUP_SIZE, full_mask, groups_of, shard_of, slot_of, upto_of
from batchline.stores.settling import Call
from batchline.stores.sql_session import SqlSession
from batchline.stores.tracker_rows import Add, Failure, Listing, Shard
from batchline.stores.tracking import Finished

__all__ = ["SqlTrackerRows", "ack_parameters", "acked", "signed"]

FANOUT_FIELDS: Final = [field.name for field in fields(Fanout)]
CONDITIONS: Final = ("state", "opened_before_us", "parent", "before")


class SqlTrackerRows:
    """`TrackerRows` on a session."""

    def __init__(self, session: SqlSession):
        self._session = session

    # --- fanouts ---

    def fanouts_by_id(self, ids: Sequence[str]) -> dict[str, Fanout]:
        """The fanouts of these ids."""
        # Groups given by their uuids alone name none; and nobody can tell an empty array from empty JSON.
        found = map(_fanout, self._session.records("fanouts_by_id", ids=list(ids)) if ids else [])
        return {fanout.id: fanout for fanout in found}

    def fanouts_by_salt(self, salts: Sequence[int]) -> dict[int, Fanout]:
        """The fanouts of these salts."""
        found = map(_fanout, self._session.records("fanouts_by_salt", salts=list(salts)))
        return {fanout.salt: fanout for fanout in found}

    def hold_fanout(self, number: int) -> Fanout | None:
        """The fanout, locked."""
        return next(map(_fanout, self._session.records("hold_fanout", number=number)), None)

    def insert_fanout(self, new: NewFanout, parent: int | None, now_us: int) -> int | None:
        """The number of a new fanout with its labels; None if the id is taken."""
        values = asdict(new) | {"parent": parent, "now_us": now_us, "due_us": now_us + new.unsealed_for_us}
        labels = values.pop("labels")
        number = self._session.insert("insert_fanout", **values)
        if number is not None and labels:
            self._session.run("insert_labels", fanout=number, labels=list(labels.items()))
        return number

    def write_fanout(self, fanout: Fanout) -> None:
        """Write all of a fanout that can change."""
        self._session.run("write_fanout", **asdict(fanout))

    def delete_fanout(self, number: int) -> None:
        """Forget a fanout, its shards and its labels."""
        for query in ("delete_shards", "delete_labels", "delete_fanout"):
            self._session.run(query, fanout=number)

    def told(self, call_id: str) -> list[Fanout]:
        """The fanouts whose end this call was told."""
        return [_fanout(record) for record in self._session.records("told", call_id=call_id)]

    def unpropagated(self, call_id: str) -> list[int]:
        """Return the numbers of fanouts whose end this call was told, and their parents have yet to be."""
        return [number for (number,) in self._session.rows("unpropagated", call_id=call_id)]

    # --- adds and groups ---

    def insert_add(self, fanout: int, add_id: str, count: int, child: int | None) -> int | None:
        """The number of a new add; None if the fanout has one of this id."""
        return self._session.insert("insert_add", fanout=fanout, add_id=add_id, count=count, child=child)

    def add_by_id(self, fanout: int, add_id: str) -> Add | None:
        """The add of this id."""
        found = self._session.rows("add_by_id", fanout=fanout, add_id=add_id)
        return Add(*found[0]) if found else None

    def adds_by_number(self, numbers: Sequence[int]) -> dict[int, Add]:
        """The adds of these numbers."""
        return {row[0]: Add(*row) for row in self._session.rows("adds_by_number", numbers=list(numbers))}

    def insert_groups(self, add: int, count: int) -> None:
        """Rows for so many new items, all pending."""
        last = groups_of(count) - 1
        if last:
            self._session.run("insert_full_groups", slot=slot_of(add, 0), groups=last)
        self._session.run("insert_group", slot=slot_of(add, last), bits=signed(full_mask(upto_of(count, last))))

    def hold_groups(self, slots: Sequence[int]) -> dict[int, int]:
        """The bits at these slots, locked in the order given."""
        return {slot: bits & ALL_BITS for slot, bits in self._session.rows("hold_groups", slots=list(slots))}

    def write_groups(self, groups: Sequence[tuple[int, int]]) -> None:
        """New bits at these slots."""
        if groups:
            self._session.run("write_groups", groups=[(slot, signed(bits)) for slot, bits in groups])

    def delete_groups(self, slots: Sequence[int]) -> None:
        """Forget groups whose items are all done."""
        if slots:
            self._session.run("delete_groups", slots=list(slots))

    def insert_failures(self, failures: Sequence[Failure]) -> None:
        """Note what failed."""
        rows = [(failure.slot, signed(failure.bits), failure.reason, failure.at_us) for failure in failures]
        self._session.run("insert_failures", failures=rows)

    # --- shards ---

    def grow_shards(self, fanout: int, counts: dict[int, int], now_us: int) -> int:
        """Let shards count more items, and tell how many counted none before."""
        shards = sorted(counts.items())
        self._session.run("grow_shards", fanout=fanout, shards=shards, now_us=now_us)
        held = self.hold_shards([(fanout, shard) for shard, _ in shards])
        return sum(one.pending == counts[one.shard] for one in held)

    def hold_shards(self, shards: Sequence[tuple[int, int]]) -> list[Shard]:
        """These (fanout, shard), locked in the order given."""
        return [Shard(*row) for row in self._session.rows("hold_shards", shards=list(shards))]

    def write_shards(self, shards: Sequence[Shard]) -> None:
        """New counts."""
        rows = [(shard.fanout, shard.shard, shard.pending, shard.active_us) for shard in shards]
        self._session.run("write_shards", shards=rows)

    def shards_active_us(self, fanout: int) -> int | None:
        """The last activity of any of its shards."""
        latest: int | None = self._session.rows("shards_active_us", fanout=fanout)[0][0]
        return latest

    # --- what is known ---

    def status(self, fanout: str) -> FanoutStatus | None:
        """What is known of a fanout, as of one moment."""
        found = self._statuses(self._session.records("status", id=fanout))
        return found[0][1] if found else None

    def list_fanouts(self, listing: Listing) -> list[tuple[int, FanoutStatus]]:
        """Fanouts by number, each with its number."""
        # A condition not asked for is left out of the query, so that the index of another can be used.
        conditions = [f"where_{name}" for name in CONDITIONS if _asked(listing, name)]
        begin, end = ("list_labelled", "labelled_page") if listing.labels else ("list_fanouts", "list_page")
        query = " ".join([begin, *conditions, f"newest_{end}" if listing.newest else end])
        name, value = listing.labels[0] if listing.labels else ("", "")
        records = self._session.records(
            query,
            after=listing.after,
            limit=listing.limit,
            state=listing.state,
            opened_before_us=listing.opened_before_us,
            parent=listing.parent,
            before=listing.before,
            name=name,
            value=value,
            others=list(listing.labels[1:]),
            how_many=len(listing.labels[1:]),
        )
        return self._statuses(records)

    def count_fanouts(self, state: State, most: int) -> int:
        """How many fanouts are in a state, up to so many."""
        ((count,),) = self._session.rows("count_fanouts", state=state, most=most)
        return int(count)

    def _statuses(self, records: list[dict[str, Any]]) -> list[tuple[int, FanoutStatus]]:
        labels: dict[int, dict[str, str]] = {record["number"]: {} for record in records}
        if records:
            for number, name, value in self._session.rows("labels", fanouts=list(labels)):
                labels[number][name] = value
        return [
            (
                record["number"],
                status_of(
                    _fanout(record),
                    record["parent_id"],
                    int(record["pending"] or 0),
                    record["shards_active_us"],
                    labels[record["number"]],
                ),
            )
            for record in records
        ]

    def pending_groups(self, fanout: int, from_slot: int, limit: int) -> list[tuple[int, int]]:
        """Slots and bits of groups with pending items, in order, from a slot on."""
        found = self._session.rows("pending_groups", fanout=fanout, from_slot=from_slot, limit=limit)
        return [(slot, bits & ALL_BITS) for slot, bits in found]

    def failures(self, fanout: int, from_slot: int, limit: int) -> list[Failure]:
        """What failed, in order of slots, from a slot on."""
        found = self._session.rows("failures", fanout=fanout, from_slot=from_slot, limit=limit)
        return [Failure(slot, bits & ALL_BITS, reason, at_us) for slot, bits, reason, at_us in found]

    # --- expiry ---

    def due_fanouts(self, now_us: int, limit: int) -> list[tuple[int, str]]:
        """Return numbers and ids of fanouts that expiry is to look at, longest due first."""
        return [(number, id) for number, id in self._session.rows("due_fanouts", now_us=now_us, limit=limit)]

    def postpone_fanout(self, number: int, due_us: int) -> None:
        """Let expiry look at a fanout at another moment."""
        self._session.run("postpone_fanout", number=number, due_us=due_us)

    def has_live_child(self, fanout: int) -> bool:
        """Whether a child of it is neither ended nor expired."""
        return bool(self._session.rows("live_child", fanout=fanout))

    def has_adds(self, fanout: int) -> bool:
        """Whether anything is known of its items yet."""
        return bool(self._session.rows("adds_of", fanout=fanout, limit=1))

    def clear_fanout(self, fanout: int, limit: int) -> bool:
        """Forget up to so many of its groups and failures, and its adds when that was all; tells whether it was."""
        for (number,) in self._session.rows("adds_of", fanout=fanout, limit=limit):
            span = {"first": slot_of(number, 0), "after": slot_of(number + 1, 0), "limit": limit}
            for query in ("clear_groups", "clear_failures"):
                span["limit"] -= self._session.run(query, **span)
            if span["limit"] < 1:
                return False
            self._session.run("delete_add", number=number)
            limit = span["limit"] - 1
        return not self.has_adds(fanout)


def ack_parameters(asked: Asked, call: Call) -> dict[str, Any]:
    """What the query `ack_group` takes."""
    return {
        "slot": asked.slot,
        "salt": asked.salt,
        "mask": signed(asked.mask),
        "fanout": asked.fanout,
        "shard": shard_of(asked.slot),
        "count": asked.mask.bit_count(),
        "now_us": call.now_us,
        "call_id": call.id,
    }


def acked(asked: Asked, ended: str | None, told_to: str | None, call_id: str) -> Finished:
    """What the query `ack_group` has done: all that was asked, and it may have ended the fanout."""
    endings = [Ending(ended, "complete")] if ended is not None and told_to == call_id else []
    return Finished(asked.mask.bit_count(), 0, endings)


def signed(word: int) -> int:
    """64 bits as the signed integer that databases keep."""
    return word - (1 << GROUP_SIZE) if word >> (GROUP_SIZE - 1) else word


def _fanout(record: dict[str, Any]) -> Fanout:
    return Fanout(**{name: record[name] for name in FANOUT_FIELDS})


def _asked(listing: Listing, name: str) -> bool:
    return getattr(listing, name) is not None
