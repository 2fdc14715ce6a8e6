"""What stage 3 asks of a store: rows, read and written inside one transaction.

    fanouts ◀── adds ◀── item_groups (slot, bits)      a row per 64 items that are not all done
       ▲                 failures (slot, bits, reason) a row per group and call that failed items
       ├── shards (pending, active)                    at most 16 counters
       └── labels

`hold_…` reads rows and locks them until the transaction ends. Everybody takes locks in one order, so that nobody waits
in a circle: groups, then shards, then fanouts; among each other by slot, by fanout and shard, by number. Only a child
that ends goes on to its parent's groups with its own fanout held, and so on for at most 64 levels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from batchline.core.fanout import Fanout, FanoutStatus, NewFanout, State

__all__ = ["Add", "Failure", "Listing", "Shard", "TrackerRows"]


@dataclass(frozen=True, slots=True)
class Add:
    """One call of `add`: its number is in the slots of the groups it made."""

    number: int
    fanout: int
    count: int
    #: The fanout that its one item stands for, or none.
    child: int | None
    #: Of its fanout.
    fanout_id: str
    salt: int
    expired_us: int | None


@dataclass(frozen=True, slots=True)
class Shard:
    """One of a fanout's counters."""

    fanout: int
    shard: int
    pending: int
    active_us: int


@dataclass(frozen=True, slots=True)
class Failure:
    """Items of one group that failed in one call."""

    slot: int
    bits: int
    reason: str
    at_us: int


@dataclass(frozen=True, slots=True)
class Listing:
    """Which fanouts to list: all that meet every condition given."""

    after: int
    limit: int
    state: State | None = None
    #: Pairs of name and value, all of which it must have.
    labels: tuple[tuple[str, str], ...] = ()
    opened_before_us: int | None = None
    parent: int | None = None
    #: Whether the newest come first: then those before this number, if there is one, and `after` is 0.
    newest: bool = False
    before: int | None = None


class TrackerRows(Protocol):
    """The tables of stage 3 within a transaction. What is not there is None, or left out of the answer."""

    def fanouts_by_id(self, ids: Sequence[str]) -> dict[str, Fanout]:
        """The fanouts of these ids."""

    def fanouts_by_salt(self, salts: Sequence[int]) -> dict[int, Fanout]:
        """The fanouts of these salts."""

    def hold_fanout(self, number: int) -> Fanout | None:
        """The fanout, locked."""

    def insert_fanout(self, new: NewFanout, parent: int | None, now_us: int) -> int | None:
        """The number of a new fanout with its labels; None if the id is taken, also by a transaction under way."""

    def write_fanout(self, fanout: Fanout) -> None:
        """Write all of a fanout that can change; it must be held."""

    def delete_fanout(self, number: int) -> None:
        """Forget a fanout, its shards and its labels."""

    def insert_add(self, fanout: int, add_id: str, count: int, child: int | None) -> int | None:
        """The number of a new add; None if the fanout has one of this id."""

    def add_by_id(self, fanout: int, add_id: str) -> Add | None:
        """The add of this id."""

    def adds_by_number(self, numbers: Sequence[int]) -> dict[int, Add]:
        """The adds of these numbers."""

    def insert_groups(self, add: int, count: int) -> None:
        """Rows for so many new items, all pending."""

    def hold_groups(self, slots: Sequence[int]) -> dict[int, int]:
        """The bits at these slots, locked in the order given; a group whose items are all done has no row."""

    def write_groups(self, groups: Sequence[tuple[int, int]]) -> None:
        """New bits at these slots; they must be held."""

    def delete_groups(self, slots: Sequence[int]) -> None:
        """Forget groups whose items are all done; they must be held."""

    def insert_failures(self, failures: Sequence[Failure]) -> None:
        """Note what failed."""

    def grow_shards(self, fanout: int, counts: dict[int, int], now_us: int) -> int:
        """Let shards count more items, and tell how many counted none before; locks them."""

    def hold_shards(self, shards: Sequence[tuple[int, int]]) -> list[Shard]:
        """These (fanout, shard), locked in the order given."""

    def write_shards(self, shards: Sequence[Shard]) -> None:
        """New counts; they must be held."""

    def told(self, call_id: str) -> list[Fanout]:
        """The fanouts whose end this call was told."""

    def unpropagated(self, call_id: str) -> list[int]:
        """Return the numbers of fanouts whose end this call was told, and their parents have yet to be."""

    def status(self, fanout: str) -> FanoutStatus | None:
        """What is known of a fanout, as of one moment."""

    def list_fanouts(self, listing: Listing) -> list[tuple[int, FanoutStatus]]:
        """Fanouts by number, each with its number, from after `listing.after` on."""

    def count_fanouts(self, state: State, most: int) -> int:
        """How many fanouts are in a state; counts no further than `most`, so that it costs no more than that."""

    def pending_groups(self, fanout: int, from_slot: int, limit: int) -> list[tuple[int, int]]:
        """Slots and bits of groups with pending items, in order, from a slot on."""

    def failures(self, fanout: int, from_slot: int, limit: int) -> list[Failure]:
        """What failed, in order of slots, from a slot on."""

    def due_fanouts(self, now_us: int, limit: int) -> list[tuple[int, str]]:
        """Return numbers and ids of fanouts that expiry is to look at, longest due first."""

    def postpone_fanout(self, number: int, due_us: int) -> None:
        """Let expiry look at a fanout at another moment. Touch nothing else of it: it may be unreadable."""

    def shards_active_us(self, fanout: int) -> int | None:
        """The last activity of any of its shards."""

    def has_live_child(self, fanout: int) -> bool:
        """Whether a child of it is neither ended nor expired."""

    def has_adds(self, fanout: int) -> bool:
        """Whether anything is known of its items yet."""

    def clear_fanout(self, fanout: int, limit: int) -> bool:
        """Forget up to so many of its groups and failures, and its adds when that was all; tells whether it was."""
