"""Sends parcels: through the dispatcher, within its capacity, into the sink; each is answered."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from batchline.core.consignment import Consignment
from batchline.core.operation import Operation, Watcher
from batchline.errors import InvalidMessage, InvalidOperation, RefusedParcel, Throttled, TooExpensive
from batchline.runtime.byte_budget import ByteBudget
from batchline.runtime.callbacks import call_in
from batchline.runtime.dispatcher import Dispatcher
from batchline.sinks.sink import Sink

__all__ = ["EXPANDED_BYTES", "Sending"]

#: Measurements as JSON that a worker holds while it sends them, in all batches together: one parcel may have as many.
EXPANDED_BYTES: Final = 128 << 20
#: Bytes from which on they are expanded in a thread.
LARGE: Final = 1 << 20


@dataclass(slots=True, eq=False)
class _Sent:
    """A parcel on its way through the dispatcher, and who waits for its answer: None, or why it did not arrive."""

    parcel: Consignment
    answer: "asyncio.Future[object]"


class Sending:
    """A sink behind a dispatcher."""

    def __init__(
        self, sink: Sink, dispatcher: Dispatcher, price: Callable[[Consignment], int | float], concurrency: int
    ):
        self._sink, self._dispatcher, self._price = sink, dispatcher, price
        self._watcher = Watcher(self._deliver, name="sink", max_batch_size=sink.most, on_error=self._fail)
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix="sink")
        self._expanded = ByteBudget(EXPANDED_BYTES)
        #: How many parcels wait for their turn, and what they cost.
        self._waiting, self._expected = 0, 0.0
        #: How often the sink has said that it has too much to do.
        self.throttled = 0

    @contextmanager
    def waiting(self, parcel: Consignment) -> Iterator[None]:
        """A parcel waits for its turn: capacity is asked for it, too. The dispatcher sees but one of each lane."""
        cost = self._cost(parcel)
        self._expect(1, cost)
        try:
            yield
        finally:
            self._expect(-1, -cost)

    def _cost(self, parcel: Consignment) -> int | float:
        """What it will cost; nothing, if that cannot be told: it is refused when its turn has come."""
        if self._dispatcher.limiter is None:
            return 0
        with suppress(ValueError, TypeError, AttributeError, InvalidMessage):
            return self._price(parcel)
        return 0

    def _expect(self, parcels: int, cost: float) -> None:
        self._waiting += parcels
        # Sums of fractions would leave a little when nobody waits.
        self._expected = self._expected + cost if self._waiting else 0
        self._dispatcher.expect(self._expected)

    async def send(self, parcel: Consignment) -> object:
        """Send a parcel; the answer is None, or why it did not arrive. Who does not wait any more is not answered."""
        sent = _Sent(parcel, asyncio.get_running_loop().create_future())
        try:
            operation = self._operation(sent)
            await self._dispatcher.enqueue(operation)
        except (TooExpensive, InvalidOperation, InvalidMessage) as error:
            return RefusedParcel(str(error))
        # At once, if there is capacity: the next of its lane waits for it.
        self._dispatcher.flush()
        return await sent.answer

    async def close(self) -> None:
        """Let go of the sink."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        await self._sink.close()

    def _operation(self, sent: _Sent) -> Operation:
        try:
            cost = self._price(sent.parcel)
        except (ValueError, TypeError, AttributeError) as error:
            raise InvalidOperation(f"the cost of parcel {sent.parcel.id!r} cannot be told: {error}") from error
        return Operation(self._watcher, cost, sent, batchable=self._sink.most > 1)

    async def _deliver(self, operations: list[Operation]) -> None:
        """What the dispatcher calls. Those whose lease was lost meanwhile are not sent: somebody else has them."""
        all_sent: list[_Sent] = [operation.payload for operation in operations]
        while some := _distinct(one for one in all_sent if not one.answer.done()):
            size = sum(sent.parcel.size for sent in some.values())
            await self._expanded.take(size)
            try:
                answers = await self._answers(some)
            finally:
                self._expanded.give_back(size)
            for id, sent in some.items():
                if not sent.answer.done():
                    sent.answer.set_result(answers.get(id))

    async def _fail(self, operations: list[Operation], error: Exception) -> None:
        """Answer parcels whose sink raised a BaseException: the dispatcher tells it from the end of the loop."""
        for operation in operations:
            if not operation.payload.answer.done():
                operation.payload.answer.set_result(error)

    async def _answers(self, some: Mapping[str, _Sent]) -> Mapping[str, object]:
        """What the sink answers; if it raises something, that holds for all of them."""
        parcels, refused = await self._opened([sent.parcel for sent in some.values()])
        try:
            found = await call_in(self._threads, self._sink.send, parcels) if parcels else None
            return dict(found or {}) | refused
        except Throttled:
            self.throttled += 1
            raise
        except Exception as error:  # noqa: BLE001 - whatever a sink raises, the parcel is retried with back-off
            return dict.fromkeys(some, error) | refused

    async def _opened(self, parcels: Sequence[Consignment]) -> tuple[list[Consignment], dict[str, RefusedParcel]]:
        """Expand parcels, in a thread if that takes long; of those that cannot be, why."""
        if sum(parcel.size for parcel in parcels) < LARGE:
            return _open_all(parcels)
        return await asyncio.get_running_loop().run_in_executor(self._threads, _open_all, parcels)


def _open_all(parcels: Sequence[Consignment]) -> tuple[list[Consignment], dict[str, RefusedParcel]]:
    opened: list[Consignment] = []
    refused: dict[str, RefusedParcel] = {}
    for parcel in parcels:
        try:
            opened.append(parcel.opened())
        except InvalidMessage as error:
            refused[parcel.id] = RefusedParcel(str(error))
    return opened, refused


def _distinct(sent: Iterable[_Sent]) -> dict[str, _Sent]:
    """Choose those of different ids, by which the sink answers, and no more than may be expanded at once.

    Parcels of several publications may share an id.
    """
    found: dict[str, _Sent] = {}
    left = EXPANDED_BYTES
    for one in sent:
        if found and one.parcel.size > left:
            break
        if one.parcel.id not in found:
            found[one.parcel.id] = one
            left -= one.parcel.size
    return found
