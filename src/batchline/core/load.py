"""A parcel while it is being filled."""

from dataclasses import dataclass, field
from typing import NamedTuple

from batchline.core.group import Group
from batchline.core.pack_rules import PackRules

__all__ = ["Limits", "Load", "Piece", "continues", "cut", "put_cut"]


class Piece(NamedTuple):
    """A group, or a stretch of one that is too large for a parcel."""

    group: Group
    #: 0, or 1, 2, … for the pieces after the first.
    number: int
    start: int
    end: int


class Limits(NamedTuple):
    """What a parcel can hold; where nobody limits the bytes, they count nothing."""

    items: int
    bytes: int | None

    @classmethod
    def of(cls, rules: PackRules) -> "Limits":
        """The limits that the rules set."""
        return cls(rules.max_items, rules.max_bytes)

    def exceeded_by(self, group: Group) -> bool:
        """Whether the group is too large for a parcel of its own."""
        return group.items > self.items or (self.bytes is not None and group.bytes > self.bytes)


@dataclass
class Load:
    """What a parcel holds so far."""

    pieces: list[Piece] = field(default_factory=list)
    items: int = 0
    bytes: int = 0

    def copy(self) -> "Load":
        """The same, to try something with."""
        return Load(self.pieces.copy(), self.items, self.bytes)

    def put(self, group: Group) -> None:
        """Put a whole group in; the caller has made sure that it fits."""
        self.put_piece(Piece(group, 0, 0, group.items), group.bytes)

    def put_piece(self, piece: Piece, size: int) -> None:
        """Put a piece in that is `size` bytes large."""
        self.pieces.append(piece)
        self.items += piece.end - piece.start
        self.bytes += size


def cut(group: Group, first: Load, limits: Limits) -> list[tuple[int, int, int]]:
    """Where a group is cut if it goes on in `first` and then in new parcels: start, end and bytes of each piece."""
    pieces, start, items, size, before = [], 0, first.items, 0, first.bytes
    for at, member in enumerate(group.members):
        grown = before + size + (member.size or 0)
        if items == limits.items or (limits.bytes is not None and grown > limits.bytes):
            pieces.append((start, at, size))
            start, items, size, before = at, 0, 0, 0
        items += 1
        size += member.size or 0
    pieces.append((start, group.items, size))
    return pieces


def continues(group: Group, load: Load, limits: Limits) -> bool:
    """Whether the cut may begin in a parcel that holds something: it must not cost the group one parcel more."""
    if not load.items:
        return True
    here = cut(group, load, limits)
    return here[0][1] > 0 and len(here) <= len(cut(group, Load(), limits))


def put_cut(group: Group, loads: list[Load], limits: Limits) -> None:
    """Cut the group into the last of the loads and as many new ones as it needs."""
    for number, (start, end, size) in enumerate(cut(group, loads[-1], limits)):
        if number:
            loads.append(Load())
        loads[-1].put_piece(Piece(group, number, start, end), size)
