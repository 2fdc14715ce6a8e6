"""What a dispatcher handles: operations, and watchers, who own them and get them back in batches."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, Final

from batchline.core.cost import Amount, Amounts, Cost, amount_of
from batchline.core.moment import check_span, us_of
from batchline.errors import InvalidOperation, InvalidRules, shown

__all__ = ["WAITING", "Operation", "OperationPlace", "Watcher"]

Callback = Callable[[list["Operation"]], Awaitable[Any] | Any]
ErrorCallback = Callable[[list["Operation"], Exception], Awaitable[Any] | Any]


class OperationPlace:
    """The place of operations: the buffer, or a batch in flight.

    It holds no operations: contexts of tasks that a callback started keep it after the batch has ended.
    """

    __slots__ = ("ended",)

    def __init__(self) -> None:
        #: Whether the callback of the batch has ended.
        self.ended = False


#: The place of operations that are enqueued.
WAITING: Final = OperationPlace()


class Watcher:
    """The owner of operations: a callback that gets them in batches, and what it can take at once."""

    __slots__ = ("callback", "max_attempts", "max_batch_size", "max_operation_time", "name", "on_dead", "on_error")

    def __init__(
        self,
        callback: Callback,
        *,
        name: str = "",
        max_attempts: int | None = None,
        max_batch_size: int | None = None,
        max_operation_time: timedelta | None = None,
        on_error: ErrorCallback | None = None,
        on_dead: ErrorCallback | None = None,
    ):
        """A watcher with an async function, or a plain one, which is run in a thread.

        `on_error` gets the operations of a batch whose callback raised, and decides what becomes of them; without it
        they are enqueued again while attempts are left. `on_dead` gets those that are not sent any more: without
        attempts left, or past their deadline; without it they are logged.
        """
        _check_function("callback", callback)
        for what, function in (("on_error", on_error), ("on_dead", on_dead)):
            if function is not None:
                _check_function(what, function)
        check_count("max_attempts", max_attempts)
        check_count("max_batch_size", max_batch_size)
        if max_operation_time is not None:
            check_span("max_operation_time", max_operation_time, 1)
        self.callback = callback
        #: What it is called in messages.
        self.name = name or str(getattr(callback, "__qualname__", "a watcher"))
        self.max_attempts = max_attempts
        self.max_batch_size = max_batch_size
        self.max_operation_time = max_operation_time
        self.on_error = on_error
        self.on_dead = on_dead

    def __repr__(self) -> str:
        return f"<Watcher {self.name}>"


class Operation:
    """Something to do that has a cost; its watcher gets it back when there is capacity for it."""

    __slots__ = ("actual", "attempts", "batchable", "cost", "deadline_us", "payload", "place", "priority", "watcher")

    def __init__(
        self,
        watcher: Watcher,
        cost: Cost = 0,
        payload: Any = None,
        *,
        batchable: bool = False,
        priority: int = 0,
        deadline: datetime | None = None,
    ):
        """An operation of a watcher; several capacities at once have a cost by name, `{"ru": 10, "network": 2}`.

        One that is not batchable travels alone. A higher `priority` goes first. After its `deadline` it is not sent.
        """
        # A million of these are made a second: only what is not plain is looked at closely.
        if type(cost) is not int or not 0 <= cost <= 1_000_000_000 or type(watcher) is not Watcher or priority != 0:
            _check(watcher, priority)
            cost = amount_of("cost", cost, InvalidOperation) or 0
        self.watcher = watcher
        self.cost: Amount = cost
        self.payload = payload
        self.batchable = batchable
        self.priority = priority
        self.deadline_us = None if deadline is None else _deadline_us(deadline)
        #: How often it was handed out.
        self.attempts = 0
        #: What it really cost, as its callback has reported; until that has ended.
        self.actual: Amount | None = None
        #: `WAITING` while it is enqueued, that of its batch while it is in flight, else None.
        self.place: OperationPlace | None = None

    def settle(self, actual: Cost) -> None:
        """Report what it really cost, from its callback: the difference is debited or refunded when that ends."""
        amount = amount_of("the actual cost", actual, InvalidOperation)
        several = isinstance(self.cost, Amounts)
        if self.cost and amount and isinstance(amount, Amounts) != several:
            expected = "mapping" if several else "number"
            raise InvalidOperation(f"the actual cost must be a {expected}, as the cost is, got {shown(actual)}")
        self.actual = amount

    def __repr__(self) -> str:
        return f"<Operation of {self.watcher.name}: cost {self.cost}, attempts {self.attempts}, {shown(self.payload)}>"


def check_count(name: str, count: object) -> None:
    """A limit is a whole number from 1 on, or None for no limit."""
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
        raise InvalidRules(f"{name} must be a whole number from 1 on, or None for no limit, got {shown(count)}")


def check_operations(operations: object) -> list[Operation]:
    """Operations, all of them such, as a list."""
    if isinstance(operations, str | bytes) or not hasattr(operations, "__iter__"):
        raise InvalidOperation(f"expected operations, got {shown(operations)}")
    listed: list[Any] = list(operations)
    if set(map(type, listed)) - {Operation}:
        for strange in (one for one in listed if not isinstance(one, Operation)):
            raise InvalidOperation(f"expected operations, got {shown(strange)} among them")
    return listed


def _check_function(name: str, function: object) -> None:
    if not callable(function):
        raise InvalidRules(f"{name} must be a function, got {shown(function)}")


def _check(watcher: object, priority: object) -> None:
    if not isinstance(watcher, Watcher):
        raise InvalidOperation(f"an operation needs a Watcher, got {shown(watcher)}")
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise InvalidOperation(f"priority must be a whole number, got {shown(priority)}")


def _deadline_us(deadline: object) -> int:
    if not isinstance(deadline, datetime):
        raise InvalidOperation(f"deadline must be a datetime, got {shown(deadline)}")
    try:
        return us_of(deadline)
    except ValueError as error:
        raise InvalidOperation(f"deadline: {error}") from error
