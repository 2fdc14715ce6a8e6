"""Fanouts and messages of `batchline serve --demo`: imports that go on, end, fail and get stuck; reminders to come."""

import asyncio
import random
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from batchline.core.item_group import ItemGroup
from batchline.core.message import LeasedMessage, NewMessage
from batchline.errors import BatchlineError, StoreError
from batchline.runtime.clock import now_us, wait_for
from batchline.runtime.consumer import Consumer
from batchline.runtime.timeline import Timeline
from batchline.runtime.tracker import Tracker
from batchline.stores import Store

__all__ = ["Imports", "Reminders", "remind"]

MINUTE_US: Final = 60_000_000
DAY_MS: Final = 86_400_000
FILES: Final = ("orders", "customers", "prices", "stock", "invoices", "returns")
TOPIC: Final = "appointments"
GROUP: Final = "demo"
#: Reminders of the next month; and how many are made and sent meanwhile.
MONTH: Final = 3_000
A_STEP: Final = 3
STEP_S: Final = 0.5
AT_ONCE: Final = 500


@dataclass(slots=True)
class Import:
    """An import under way: what is left of it, and how fast it is done."""

    id: str
    left: list[str]
    speed: int
    failing: float
    seen: int = field(default=0)


class Imports:
    """Fanouts that somebody works on, a step at a time; and some that nobody works on any more."""

    def __init__(self, store: Store, chance: random.Random):
        self._tracker, self._chance = Tracker(store), chance
        self._running: list[Import] = []
        self._number = 0
        self._store = store

    def begin(self) -> None:
        """What has happened before somebody looked."""
        ago = Tracker(self._store, clock=lambda: now_us() - 47 * MINUTE_US)
        groups = self._open(ago, "import-ledger-2", 1_200, {"job": "import", "file": "ledger"})
        ago.ack(_ids(groups)[:871])
        broken = self._open(ago, "import-rates-1", 90, {"job": "import", "file": "rates"})
        ago.ack(_ids(broken)[:88])
        ago.fail(_ids(broken)[88:], "the line has no currency")
        ago.open("nightly", labels={"job": "nightly"})
        for part, count in (("nightly/accounts", 640), ("nightly/statements", 2_400)):
            ago.open(part, parent="nightly", labels={"job": "nightly"})
            items = _ids(ago.add(part, count))
            ago.seal(part)
            ago.ack(items if part == "nightly/accounts" else items[:2_311])
        ago.seal("nightly")

    def step(self) -> None:
        """Somebody acknowledges some items; when an import is over, the next one begins."""
        while len(self._running) < 4:
            self._begin_one()
        for one in self._running:
            done, one.left = one.left[: one.speed], one.left[one.speed :]
            bad = [item for item in done if self._chance.random() < one.failing]
            if bad:
                self._tracker.fail(bad, "404: no such article")
            self._tracker.ack([item for item in done if item not in bad])
        self._running = [one for one in self._running if one.left]

    def _begin_one(self) -> None:
        self._number += 1
        file = FILES[self._number % len(FILES)]
        count = self._chance.choice((120, 400, 900, 2_000))
        id = f"import-{file}-{self._number}"
        tolerate = None if self._number % 3 else 0
        groups = self._open(self._tracker, id, count, {"job": "import", "file": file}, tolerate)
        speed = max(count // self._chance.choice((60, 120, 240)), 1)
        self._running.append(Import(id, _ids(groups), speed, 0.002))

    def _open(
        self, tracker: Tracker, id: str, count: int, labels: dict[str, str], tolerate: int | None = 0
    ) -> list[ItemGroup]:
        tracker.open(id, labels=labels, tolerate=tolerate)
        groups = tracker.add(id, count)
        tracker.seal(id)
        return groups

    def run(self, stop: threading.Event) -> None:
        """Go on until it is told to stop."""
        self.begin()
        while not stop.wait(STEP_S):
            with suppress(StoreError):
                self.step()


def _ids(groups: list[ItemGroup]) -> list[str]:
    return [item for group in groups for item in group.items()]


class Reminders:
    """Messages over the next month, most of them in office hours; and some that are due soon, all the time."""

    def __init__(self, store: Store, chance: random.Random):
        self._timeline, self._chance = Timeline(store), chance
        self._number = 0

    def run(self, stop: threading.Event) -> None:
        """Put them on the line until it is told to stop."""
        for part in self._month():
            if stop.is_set():
                return
            self._timeline.create(TOPIC, part, producer_group=GROUP)
        while not stop.wait(STEP_S):
            with suppress(StoreError):
                self._timeline.create(TOPIC, self._soon(), producer_group=GROUP)

    def _month(self) -> Iterator[list[NewMessage]]:
        midnight_ms = now_us() // 1_000 // DAY_MS * DAY_MS
        for _ in range(MONTH // AT_ONCE):
            days = (min(int(self._chance.expovariate(0.12)), 29) for _ in range(AT_ONCE))
            moments = (midnight_ms + day * DAY_MS + self._hour_ms() for day in days)
            yield [self._message(max(at, now_us() // 1_000 + 60_000)) for at in moments]

    def _hour_ms(self) -> int:
        hour = min(max(self._chance.gauss(13.0, 3.5), 0.0), 23.9)
        return int(hour * 3_600_000)

    def _soon(self) -> list[NewMessage]:
        now_ms = now_us() // 1_000
        return [self._message(now_ms + int(self._chance.expovariate(1 / 40) * 1_000)) for _ in range(A_STEP)]

    def _message(self, at_ms: int) -> NewMessage:
        self._number += 1
        return NewMessage(b'{"say":"it is time"}', at_ms, f"appointment-{self._number:06}")


def remind(store: Store, stop: threading.Event) -> None:
    """Send reminders that are due; now and then one fails, and comes again."""
    chance = random.Random(5)  # noqa: S311 - which one fails need be no secret

    async def send(message: LeasedMessage) -> None:
        await wait_for(asyncio.Event(), 0.05 + chance.random() * 0.4)
        if chance.random() < 0.03:
            raise BatchlineError(f"{message.id}: the mail server said 451")

    async def work() -> None:
        consumer = Consumer(
            Timeline(store),
            TOPIC,
            send,
            consumer="mailer",
            drain=timedelta(seconds=1),
            look_every=timedelta(milliseconds=250),
        )
        running = asyncio.ensure_future(consumer.run())
        await asyncio.to_thread(stop.wait)
        consumer.stop()
        await running

    asyncio.run(work())
