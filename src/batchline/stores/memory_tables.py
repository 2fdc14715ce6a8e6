"""Tables in the memory of this process, and how to take back what was done to them."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

__all__ = ["MemoryTables", "Table"]


class Table(dict[Any, Any]):
    """A dictionary that remembers how to take back what was done to it."""

    def __init__(self, done: list[Callable[[], None]]):
        super().__init__()
        self._done = done

    def __setitem__(self, key: Any, value: Any) -> None:
        self._remember(key)
        super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        self._remember(key)
        super().__delitem__(key)

    def _remember(self, key: Any) -> None:
        if key in self:
            before = self[key]
            self._done.append(lambda: dict.__setitem__(self, key, before))
        else:
            self._done.append(lambda: dict.__delitem__(self, key))


@dataclass(slots=True)
class MemoryTables:
    """All there is, and what the transaction under way has done to it."""

    done: list[Callable[[], None]] = field(default_factory=list)
    fanouts: Table = field(init=False)
    numbers: Table = field(init=False)
    labels: Table = field(init=False)
    shards: Table = field(init=False)
    adds: Table = field(init=False)
    add_ids: Table = field(init=False)
    groups: Table = field(init=False)
    failures: Table = field(init=False)
    last: Table = field(init=False)
    topics: Table = field(init=False)
    producer_groups: Table = field(init=False)
    rates: Table = field(init=False)
    bundles: Table = field(init=False)
    message_ids: Table = field(init=False)
    spots: Table = field(init=False)
    attempts: Table = field(init=False)
    slices: Table = field(init=False)
    consumers: Table = field(init=False)
    sessions: Table = field(init=False)
    brokers: Table = field(init=False)
    resources: Table = field(init=False)
    partitions: Table = field(init=False)
    askings: Table = field(init=False)
    lanes: Table = field(init=False)
    tokens: Table = field(init=False)
    reports: Table = field(init=False)

    def __post_init__(self) -> None:
        for one in fields(self):
            if one.name != "done":
                setattr(self, one.name, Table(self.done))

    def next_number(self, of: str) -> int:
        """Numbers are never used again."""
        self.last[of] = self.last.get(of, 0) + 1
        return int(self.last[of])

    def undo(self) -> None:
        """Take back what the transaction has done."""
        while self.done:
            self.done.pop()()
