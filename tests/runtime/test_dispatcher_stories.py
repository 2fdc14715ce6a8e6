"""Stories made by chance: whatever happens, every operation ends once, in one place, and the rate is held."""

import asyncio
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from batchline import Dispatcher, Operation, Throttled, Watcher
from batchline.errors import BufferFull, DispatcherStopped
from batchline.runtime.virtual_time import virtual_seconds, virtual_wall_us
from tests.runtime.dispatching import capacity_of, dispatcher_of, largest_spent, ms, virtually

SEEDS = 40
CAPACITY = 200
FLUSH_S = 0.05
#: A loop that is late makes up for so much of it.
LATE_S = 0.009
DEAREST = 7.5


class Story:
    """A dispatcher, people who use it, and where each operation has ended."""

    def __init__(self, seed: int):
        self.dice = random.Random(seed)
        self.ended: dict[str, list[int]] = {place: [] for place in ("done", "dead", "given", "refused")}
        self.spent: list[tuple[float, float]] = []
        self.running = 0
        self.made = 0
        self.slots = self.dice.choice([None, 1, 3])
        self.limiter = capacity_of(CAPACITY) if self.dice.random() < 0.8 else None
        self.dispatcher: Dispatcher = dispatcher_of(
            self.limiter,
            buffer=self.dice.choice([5, 50, 10_000]),
            flush_interval=timedelta(seconds=FLUSH_S),
            max_operation_time=ms(300),
            max_concurrent_batches=self.slots,
            pause_time=ms(150),
            audit_interval=ms(200),
            emit_batch=True,
            chance=self.dice.random,
        )
        self.dispatcher.events.add_listener(self._note)
        self.watchers = [self._watcher() for _ in range(4)]

    def _note(self, name: str, _value: object, _message: object, metadata: Any) -> None:
        if name == "batch":
            self.spent.append((virtual_seconds(), sum(operation.cost for operation in metadata)))

    def _watcher(self) -> Watcher:
        on_error = self.dice.choice([None, None, self._given, self._again])
        attempts, size = self.dice.choice([None, 2, 4]), self.dice.choice([None, 1, 5])
        return Watcher(self._work, max_attempts=attempts, max_batch_size=size, on_error=on_error, on_dead=self._dead)

    async def _work(self, operations: list[Operation]) -> None:
        self.running += 1
        assert self.slots is None or self.running <= self.slots
        try:
            await self._act(operations)
        finally:
            self.running -= 1
        self.ended["done"] += [operation.payload for operation in operations]

    async def _act(self, operations: list[Operation]) -> None:
        act = self.dice.random()
        await asyncio.sleep(self.dice.choice([0, 0, 0.01, 0.1, 0.5]))
        if act < 0.15:
            raise ValueError("by chance")
        if act < 0.25:
            raise Throttled(retry_after=self.dice.choice([None, ms(50), ms(400)]))
        if act < 0.28:
            raise asyncio.CancelledError
        if act < 0.4:
            # Never less than it was taken for: then what was handed out is all there was to hand out.
            operations[0].settle(self.dice.randint(8, 12))

    async def _given(self, operations: list[Operation], _: Exception) -> None:
        self.ended["given"] += [operation.payload for operation in operations]

    async def _again(self, operations: list[Operation], _: Exception) -> None:
        # Those without attempts left are refused, all of them: then the dispatcher decides. When it is stopped while
        # this waits for room, some are in: who raised then would get those twice.
        try:
            await self.dispatcher.enqueue_many(operations)
        except DispatcherStopped as stopped:
            self.ended["refused"] += [operation.payload for operation in stopped.operations]

    def _dead(self, operations: list[Operation], _: Exception) -> None:
        self.ended["dead"] += [operation.payload for operation in operations]

    def _operation(self) -> Operation:
        self.made += 1
        within_s = self.dice.choice([None, None, None, 0.3, 5])
        moment = None if within_s is None else datetime.fromtimestamp(virtual_wall_us() / 1e6 + within_s, UTC)
        return Operation(
            self.dice.choice(self.watchers),
            self.dice.choice([0, 1, 2, DEAREST]),
            self.made,
            batchable=self.dice.random() < 0.7,
            priority=self.dice.choice([0, 0, 0, 1]),
            deadline=moment,
        )

    async def produce(self) -> None:
        """Enqueue in every way there is, until it is over."""
        for _ in range(25):
            await asyncio.sleep(self.dice.choice([0, 0.01, 0.1]))
            some = [self._operation() for _ in range(self.dice.choice([1, 3, 20]))]
            try:
                await self._enqueue(some)
            except DispatcherStopped as stopped:
                self.ended["refused"] += [operation.payload for operation in stopped.operations]

    async def _enqueue(self, some: list[Operation]) -> None:
        if self.dice.random() < 0.3:
            for operation in some:
                try:
                    self.dispatcher.enqueue_nowait(operation)
                except (BufferFull, DispatcherStopped):
                    self.ended["refused"].append(operation.payload)
        else:
            await self.dispatcher.enqueue_many(some)

    async def disturb(self) -> None:
        """Flush, pause, change the capacity."""
        for _ in range(40):
            await asyncio.sleep(self.dice.choice([0, 0.02, 0.2]))
            act = self.dice.choice([self.dispatcher.flush, self.dispatcher.pause, self._change])
            act()

    def _change(self) -> None:
        if self.limiter is not None:
            self.limiter.set_capacity(self.dice.choice([0, 10, CAPACITY, CAPACITY]))

    async def tell(self) -> None:
        """The whole story."""
        await self.dispatcher.start()
        work = [asyncio.ensure_future(one) for one in (self.produce(), self.produce(), self.produce(), self.disturb())]
        await asyncio.sleep(self.dice.choice([0.5, 2, 10]))
        if self.limiter is not None:
            self.limiter.set_capacity(CAPACITY)
        remains = await self.dispatcher.stop(timedelta(seconds=self.dice.choice([0, 1, 100])))
        await asyncio.gather(*work)
        left = [operation.payload for operation in remains.unsent + remains.unfinished]
        places = Counter(payload for payloads in [*self.ended.values(), left] for payload in payloads)
        assert places == Counter(range(1, self.made + 1))


@virtually
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_every_operation_ends_once_in_one_place_and_the_rate_is_held(seed: int) -> None:
    story = Story(seed)
    await story.tell()
    assert story.running == 0
    if story.limiter is not None and story.spent:
        for span_s in (0.01, 0.1, 1):
            assert largest_spent(story.spent, span_s) <= CAPACITY * (span_s + FLUSH_S + LATE_S) + DEAREST
