"""An instance's share of a capacity: which partitions it holds, until when, and what it should do about it next.

    ask (what I want, what I hold; what do the others?) → give back what is too much → renew → acquire what is missing

When all want more than there is, each may have a fair share; who holds more gives it back. A lease counts here from
before it was asked for, and ends a little before it does where it is kept: so what instances believe to hold together
is never more than there is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from batchline.core.cost import amount_of, names_of, part_of, same_names
from batchline.core.moment import check_span
from batchline.core.partitions import Asking, fair_shares, partition_count, partition_worth, partitions_wanted
from batchline.errors import InvalidRules

__all__ = ["Share", "ShareRules", "Steps"]

#: The part of a lease that is not used: what clocks that run at different speeds may differ by, and more.
GUARD: Final = 1 / 15
#: A partition that is no longer needed is kept for so long: it may be again.
KEEP_S: Final = 1.0
#: After being refused so often in a row, one tries as seldom as one ever does.
ENOUGH_REFUSALS: Final = 2
#: What cannot be divided equally goes to others after so long.
TURN_US: Final = 30_000_000


@dataclass(frozen=True, slots=True)
class ShareRules:
    """What is shared, in which pieces, and what is an instance's own."""

    #: A number, or one for each of several capacities by its name, as costs are; so are the next two.
    shared: Any
    factor: Any = 1
    reserved: Any = 0
    max_interval: timedelta = timedelta(milliseconds=500)
    lease: timedelta = timedelta(seconds=15)

    def __post_init__(self) -> None:
        for name in ("shared", "factor", "reserved"):
            object.__setattr__(self, name, amount_of(name, getattr(self, name), InvalidRules))
        if not all(part_of(self.factor, name) > 0 for name in names_of(self.factor) or (None,)):
            raise InvalidRules(f"factor must be above 0, got {self.factor!r}")
        if self.reserved and not same_names(self.reserved, self.shared):
            raise InvalidRules(f"reserved must name the capacities of shared, got {self.reserved!r}, {self.shared!r}")
        check_span("max_interval", self.max_interval, 1_000)
        check_span("lease", self.lease, 1_000)
        partition_count(self.shared, self.factor)

    @property
    def count(self) -> int:
        """How many partitions there are."""
        return partition_count(self.shared, self.factor)

    @property
    def size(self) -> str:
        """What all instances must agree on, as a text."""
        return f"shared={_text(self.shared)} factor={_text(self.factor)}"

    def worth(self, partition: int) -> Any:
        """What holding a partition is worth."""
        return partition_worth(self.shared, self.factor, partition)


@dataclass(frozen=True, slots=True)
class Steps:
    """What an instance should do next, in this order."""

    release: list[int]
    renew: list[int]
    #: Which to try, in this order, and how many of them to take.
    acquire: list[int]
    most: int


class Share:
    """What one instance holds of a shared capacity."""

    def __init__(self, rules: ShareRules, instance: str):
        self.rules = rules
        self.instance = instance
        #: Until when this instance may count on a partition.
        self.held: dict[int, float] = {}
        self._per_second: Any = 0
        self._enough_since_s: float | None = None
        self._refused = 0
        #: How many partitions were fair when that was last looked at.
        self._fair = rules.count
        self._silent = True

    # --- what it is worth ---

    def capacity(self, now_s: float) -> Any:
        """What may be used a second now: what is reserved, and every partition whose lease has not run out."""
        count = self.rules.count
        held = [partition for partition, until_s in self.held.items() if until_s > now_s and partition < count]
        return sum(map(self.rules.worth, held), self.rules.reserved + self.rules.shared * 0)

    @property
    def max_capacity(self) -> Any:
        """What it could be if it held everything."""
        return self.rules.reserved + self.rules.shared

    def change(self, **rules: Any) -> None:
        """Another `shared` or `reserved`, which counts at once; partitions that are no more are given back."""
        self.rules = replace(self.rules, **rules)

    # --- what it wants ---

    def want(self, per_second: Any) -> None:
        """So much could be used a second."""
        self._per_second = per_second

    @property
    def wanted(self) -> int:
        """How many partitions that takes."""
        return partitions_wanted(self._per_second, self.rules.reserved, self.rules.factor, self.rules.count)

    def asking(self, now_s: float) -> Asking | None:
        """What to tell the others; None if there is nothing to tell, nor to hold."""
        self.held = {partition: until_s for partition, until_s in self.held.items() if until_s > now_s}
        if self._silent and not self.wanted and not self.held:
            return None
        self._silent = not self.wanted and not self.held
        return Asking(self.instance, self.wanted, tuple(sorted(self.held)))

    def steps(self, askings: Sequence[Asking], now_s: float, wall_us: int, chance: float) -> Steps:
        """What to do, now that it is known what all instances want; `chance` is a random number from 0 to 1."""
        self._fair = allowed = self._allowed(askings, wall_us)
        others_lack = any(one.wanted > len(one.held) for one in askings if one.instance != self.instance)
        release = self._surplus(allowed, others_lack, now_s)
        left = [partition for partition in self.held if partition not in release]
        soon_s = now_s + self.rules.lease.total_seconds() * 2 / 3
        renew = [partition for partition in left if self.held[partition] < soon_s]
        most = max(allowed - len(left), 0)
        return Steps(release, renew, self._candidates(askings, chance) if most else [], most)

    def _allowed(self, askings: Sequence[Asking], wall_us: int) -> int:
        wanted = {asking.instance: asking.wanted for asking in askings} | {self.instance: self.wanted}
        return fair_shares(wanted, self.rules.count, wall_us // TURN_US)[self.instance]

    def _surplus(self, allowed: int, others_lack: bool, now_s: float) -> list[int]:
        """Which partitions to give back: at once if others need them, after a while if nobody does."""
        count = self.rules.count
        gone = [partition for partition in self.held if partition >= count]
        held = [partition for partition in self.held if partition < count]
        over = held[allowed:]
        if not over:
            self._enough_since_s = None
        elif not others_lack:
            self._enough_since_s = now_s if self._enough_since_s is None else self._enough_since_s
            over = over if now_s - self._enough_since_s >= KEEP_S else []
        return gone + over

    def _candidates(self, askings: Sequence[Asking], chance: float) -> list[int]:
        """All partitions that nobody says to hold, from a random one on; then the others, who may have been wrong."""
        count = self.rules.count
        begin = min(int(chance * count), count - 1)
        ring = [*range(begin, count), *range(begin)]
        taken = {partition for asking in askings if asking.instance != self.instance for partition in asking.held}
        return sorted((one for one in ring if one not in self.held), key=taken.__contains__)

    # --- what came of it ---

    def granted(self, partitions: Sequence[int], sent_s: float) -> None:
        """Partitions were leased or renewed by a call that was sent then."""
        until_s = sent_s + self.rules.lease.total_seconds() * (1 - GUARD)
        self.held |= dict.fromkeys(partitions, until_s)

    def lost(self, partitions: Sequence[int]) -> None:
        """Partitions are not, or no longer, held."""
        for partition in partitions:
            self.held.pop(partition, None)

    def refused(self, partitions: int) -> None:
        """So many partitions could not be had that were asked for: the next try is later."""
        # More often makes no difference: a store may be silent for long.
        self._refused = min(self._refused + 1, ENOUGH_REFUSALS) if partitions else 0

    def rest_s(self, chance: float) -> float:
        """How long until the next turn: at most the longest interval, and the longer the more often it was refused.

        Who has a fair share has nothing to hurry for.
        """
        longest_s = self.rules.max_interval.total_seconds()
        needy = min(self.wanted, self._fair) > len(self.held)
        most_s = min(longest_s, longest_s / 4 * 2**self._refused) if needy else longest_s
        return max(most_s * chance, 0.001) if needy else longest_s * (0.5 + chance / 2)


def _text(amount: Any) -> str:
    """An amount as a text that is the same for all who mean the same."""
    if isinstance(amount, dict):
        return ",".join(f"{name}:{float(amount[name])}" for name in sorted(amount))
    return str(float(amount))
