"""How much may be handed out now: a balance that grows with time, is spent by operations, and may go into debt.

An operation may go while the balance is above zero, whatever it costs; what it takes beyond the balance is a debt that
those after it wait for. A balance never holds more than one flush interval's worth, so in any span of τ at most
`capacity × (τ + flush interval) + one operation` is handed out; and `LATE_S` of capacity more if the loop was late.
"""

from typing import Any, Final

from batchline.core.cost import Amount, Amounts, part_of

__all__ = ["Balance", "Balances", "Unlimited", "open_balance"]

#: Capacity that nobody used is not saved up for longer than this.
SAVED_S: Final = 1.0
#: A loop that was late while operations waited makes up for so much of it: less than 1 % of a second.
LATE_S: Final = 0.009
#: What a nanosecond is worth is no balance, but rounding.
DUST_S: Final = 1e-9


class Unlimited:
    """No limit: everything may go."""

    limited: Final = False
    debt: Final = 0

    def accrue(self, capacity: Any, now_s: float) -> None:
        """Nothing to note."""

    def fits(self, cost: Amount) -> bool:  # noqa: ARG002 - whatever it costs
        """Whether an operation may go: always."""
        return True

    def spend(self, cost: Amount) -> None:
        """Nothing to note."""

    def settle(self, cost: Amount, actual: Amount) -> None:
        """Nothing to note."""

    def wanting(self, wanting: bool) -> None:
        """Nobody ever waits."""

    def empty(self) -> None:
        """There is nothing to empty."""

    def weight(self, cost: Amount) -> float:  # noqa: ARG002 - as above
        """What an operation weighs when watchers take turns: nothing, so they do by batches."""
        return 0.0

    def scarcest(self, cost: Amount) -> str | None:  # noqa: ARG002 - as above
        """Which capacity it uses most of: there is none."""
        return None


class Balance:
    """The balance of one capacity."""

    limited: Final = True

    def __init__(self, capacity: float, flush_s: float, now_s: float):
        self.level = 0.0
        self._capacity, self._flush_s, self._at_s = capacity, flush_s, now_s
        self._wanting = False

    def accrue(self, capacity: float, now_s: float) -> None:
        """Add what the time since the last call is worth; while the capacity changed, at the lower one."""
        passed_s = max(now_s - self._at_s, 0.0)
        saved_s = self._flush_s + LATE_S if self._wanting else min(self._flush_s, SAVED_S)
        self.level = min(self.level + min(self._capacity, capacity) * passed_s, capacity * saved_s)
        self._capacity, self._at_s = capacity, max(now_s, self._at_s)

    @property
    def debt(self) -> float:
        """How far below zero the balance was when it last accrued or was spent."""
        return max(-self.level, 0.0)

    def fits(self, cost: Amount) -> bool:
        """Whether an operation may go now."""
        return self.level > self._capacity * DUST_S or not cost

    def spend(self, cost: Amount) -> None:
        """Take what an operation costs."""
        self.level -= part_of(cost, None)

    def settle(self, cost: Amount, actual: Amount) -> None:
        """An operation cost something else than it was taken for."""
        self.level += part_of(cost, None) - part_of(actual, None)

    def wanting(self, wanting: bool) -> None:
        """Whether operations wait for this balance: then what they wait for is not unused."""
        self._wanting = wanting

    def empty(self) -> None:
        """What was saved is gone; a debt stays."""
        self.level = min(self.level, 0.0)

    def weight(self, cost: Amount) -> float:
        """What an operation weighs when watchers take turns."""
        return part_of(cost, None)

    def scarcest(self, cost: Amount) -> str | None:  # noqa: ARG002 - there is one
        """Which capacity it uses most of: the one there is, which has no name."""
        return None


class Balances:
    """The balances of several capacities: an operation may go if each it needs has something left."""

    limited: Final = True

    def __init__(self, capacity: Amounts, flush_s: float, now_s: float):
        self.each = {name: Balance(part, flush_s, now_s) for name, part in capacity.items()}
        self._capacity = capacity

    def accrue(self, capacity: Amounts, now_s: float) -> None:
        """Add what the time since the last call is worth, to each."""
        self._capacity = capacity
        for name, balance in self.each.items():
            balance.accrue(capacity[name], now_s)

    @property
    def debt(self) -> Amounts:
        """How far below zero each balance was when it last accrued or was spent."""
        return Amounts({name: balance.debt for name, balance in self.each.items() if balance.debt})

    def fits(self, cost: Amount) -> bool:
        """Whether an operation may go now."""
        return all(balance.fits(part_of(cost, name)) for name, balance in self.each.items())

    def spend(self, cost: Amount) -> None:
        """Take what an operation costs of each."""
        for name, balance in self.each.items():
            balance.spend(part_of(cost, name))

    def settle(self, cost: Amount, actual: Amount) -> None:
        """An operation cost something else than it was taken for."""
        for name, balance in self.each.items():
            balance.settle(part_of(cost, name), part_of(actual, name))

    def wanting(self, wanting: bool) -> None:
        """Whether operations wait for one of these balances: for which, its level tells."""
        for balance in self.each.values():
            balance.wanting(wanting and balance.level <= 0)

    def empty(self) -> None:
        """What was saved is gone, of each."""
        for balance in self.each.values():
            balance.empty()

    def weight(self, cost: Amount) -> float:
        """What an operation weighs when watchers take turns: its part of the capacity it uses most of."""
        parts = ((part_of(cost, name), capacity) for name, capacity in self._capacity.items())
        return max((part / capacity for part, capacity in parts if capacity), default=0.0)

    def scarcest(self, cost: Amount) -> str | None:
        """Which capacity that is."""
        return max(self._capacity, key=lambda name: part_of(cost, name) / (self._capacity[name] or 1), default=None)


def open_balance(capacity: Amount | None, flush_s: float, now_s: float) -> Balance | Balances | Unlimited:
    """The balance of a capacity, with nothing in it; of none, no limit."""
    if capacity is None:
        return Unlimited()
    if isinstance(capacity, Amounts):
        return Balances(capacity, flush_s, now_s)
    return Balance(capacity, flush_s, now_s)
