"""Calls that end fanouts: one transaction, and more of bounded size while there are ancestors to settle."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from batchline.core.fanout import Ending
from batchline.errors import StoreUnavailable
from batchline.stores.settling import HEAD_START_US, LEVELS_AT_ONCE, Call, propagate_from, to_propagate
from batchline.stores.store import Store

__all__ = ["CallRunner"]

log: Final = logging.getLogger("batchline")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CallRunner:
    """Runs calls so that a fanout that cannot be processed stops none but itself."""

    store: Store
    #: The moment of a transaction; raises Degraded while it is not known.
    clock: Callable[[], int]
    #: How long expiry leaves to this call what one of its transactions leaves.
    head_start_us: int = HEAD_START_US
    #: The same for what could not be processed.
    retry_after_us: int = HEAD_START_US
    #: Transactions that may follow the first; None for as many as there is work for.
    most: int | None = None

    def run(self, call_id: str, work: Callable[[Call], T]) -> T:
        """Run a call's first transaction. If its ancestors cannot be processed with it, run it without them."""
        call = Call(call_id, self.clock(), head_start_us=self.head_start_us)
        try:
            return work(call)
        except StoreUnavailable:
            raise
        except Exception:
            if call.telling_parent_of is None:
                raise
            log.warning("fanout %r ended; an ancestor is settled apart", call.telling_parent_of, exc_info=True)
        return work(Call(call_id, self.clock(), levels=0, head_start_us=self.retry_after_us))

    def propagate(self, call_id: str, numbers: Iterable[int]) -> list[Ending]:
        """Settle the ancestors of fanouts that earlier transactions left. Return all that this ended."""
        return _Propagation(self, call_id).run(list(numbers))


@dataclass(slots=True)
class _Propagation:
    """What a call has yet to propagate, and what that ended so far."""

    runner: CallRunner
    call_id: str
    endings: list[Ending] = field(default_factory=list)
    #: Each with the levels that a transaction takes on: one alone where more could not be processed.
    waiting: list[tuple[Sequence[int], int]] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)

    def run(self, numbers: Sequence[int]) -> list[Ending]:
        self._enqueue(numbers, LEVELS_AT_ONCE)
        transactions = 0
        while self.waiting and transactions != self.runner.most:
            self._step(*self.waiting.pop())
            transactions += 1
        return self.endings

    def _enqueue(self, numbers: Sequence[int], levels: int) -> None:
        new = [number for number in numbers if number not in self.seen]
        self.seen.update(new)
        if new:
            self.waiting.append((new, levels))

    def _step(self, numbers: Sequence[int], levels: int) -> None:
        runner = self.runner
        call = Call(self.call_id, runner.clock(), levels, runner.head_start_us)
        try:
            endings = runner.store.transact(partial(propagate_from, numbers=numbers, call=call))
        except StoreUnavailable:
            raise
        except Exception:
            if len(numbers) > 1 or levels > 1:
                self.waiting += [([number], 1) for number in numbers]
            else:
                log.exception("the parent of fanout %r cannot be settled; expiry tries again", call.telling_parent_of)
            return
        self.endings += endings
        self._enqueue(to_propagate(endings), levels)
