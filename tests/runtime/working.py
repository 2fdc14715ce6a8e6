"""Workers in virtual time: parcels that are posted, a sink that does as it is told, and a look at what came of it."""

import asyncio
import functools
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, ParamSpec, TypeVar

from batchline import RetryRules, Store, Timeline, Tracker, open_store
from batchline.core.consignment import Consignment, read_consignment
from batchline.core.topic import dead_letters_of
from batchline.errors import DeliveryError, StoreUnavailable
from batchline.runtime.deliveries import Deliveries
from batchline.runtime.publisher import Publisher, make_topics
from batchline.runtime.virtual_time import run_virtually, virtual_seconds, virtual_wall_us
from batchline.runtime.worker import Worker
from batchline.sinks.sink import Sink
from batchline.stores.rows import Rows
from tests.contract.parcels.posting import parcels_of
from tests.stores.halting import Beforehand

__all__ = ["Depot", "Receiver", "Severable", "places_of", "virtually"]

P = ParamSpec("P")
T = TypeVar("T")
#: A story that takes longer than this waits for something that never comes.
LONGEST_S: Final = 100_000
RETRY: Final = RetryRules(first=timedelta(seconds=1), longest=timedelta(minutes=1), jitter=0)
Answer = Mapping[str, DeliveryError] | None


def virtually(story: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Make a test of a story: in virtual time, and what is for a thread is done at once."""

    async def bounded(work: Coroutine[Any, Any, None]) -> None:
        async with asyncio.timeout(LONGEST_S):
            await work

    @functools.wraps(story)
    def test(*args: P.args, **kwargs: P.kwargs) -> None:
        run_virtually(bounded(story(*args, **kwargs)), inline=True)

    return test


def places_of(parcel: Consignment) -> list[tuple[int, int, int]]:
    """The measurements of a parcel: lane, number and place of each."""
    return [(one["lane"], one["number"], one["place"]) for one in parcel.measurements]


class Severable(Beforehand):
    """A store that does not answer while it is severed, and counts what it is asked."""

    severed = False
    calls = 0

    def transact(self, work: Callable[[Rows], T]) -> T:
        """As the other does, if it answers."""
        self._ask()
        return self._store.transact(work)

    def read(self, work: Callable[[Rows], T]) -> T:
        """As the other does, if it answers."""
        self._ask()
        return self._store.read(work)

    def _ask(self) -> None:
        self.calls += 1
        if self.severed:
            raise StoreUnavailable("it does not answer")


class Receiver(Sink):
    """A sink that notes what it is sent, and does what `act` does with it; if it returns, all has arrived."""

    def __init__(self, act: Callable[["Receiver", Sequence[Consignment]], Any] | None = None, most: int = 1):
        self.most = most
        self.act = act
        #: Every parcel that was sent, and when.
        self.sent: list[tuple[float, Consignment]] = []
        #: Measurements in the order in which they first arrived.
        self.arrived: dict[tuple[int, int, int], float] = {}
        self.closed = 0

    async def send(self, parcels: Sequence[Consignment]) -> Answer:
        """Take parcels."""
        assert 1 <= len(parcels) <= self.most
        assert len({(one.publication, one.lane) for one in parcels}) == len(parcels)
        self.sent += [(virtual_seconds(), one) for one in parcels]
        answer = self.act(self, parcels) if self.act else None
        if asyncio.iscoroutine(answer):
            answer = await answer
        unanswered: Mapping[str, DeliveryError] = answer or {}
        for parcel in parcels:
            if parcel.id not in unanswered:
                self.take(places_of(parcel))
        return unanswered

    def take(self, places: Sequence[tuple[int, int, int]]) -> None:
        """Measurements arrive; once, however often they do."""
        for place in places:
            self.arrived.setdefault(place, virtual_seconds())

    async def close(self) -> None:
        """Nothing is open."""
        self.closed += 1

    def numbers(self, lane: int = 0) -> list[int]:
        """The numbers of a lane's parcels, as they were sent."""
        return [parcel.number for _, parcel in self.sent if parcel.lane == lane]


@dataclass
class Depot:
    """A topic with parcels, and workers on it."""

    lanes: Mapping[int, int]
    tolerate: int | None = 0
    name: str = "import"
    store: Store = field(default_factory=lambda: open_store("memory://"))

    def __post_init__(self) -> None:
        self.timeline = Timeline(self.store, clock=virtual_wall_us)
        self.tracker = Tracker(self.store, clock=virtual_wall_us)
        make_topics(self.timeline, "parcels")
        self.fanout = self.tracker.open(tolerate=self.tolerate).id
        self.workers: list[Worker] = []
        for lane, count in self.lanes.items():
            self.post(lane, 1, count)
        self.tracker.seal(self.fanout)

    def post(self, lane: int, first: int, last: int, **changes: Any) -> None:
        publisher = Publisher(self.store, "parcels", self.fanout, clock=virtual_wall_us)
        for begin in range(first, last + 1, 64):
            publisher.post(parcels_of(self.name, lane, begin, min(begin + 63, last), **changes))

    def worker(self, sink: Sink, name: str = "w", store: Store | None = None, **options: Any) -> Worker:
        usual: dict[str, Any] = {"lease": timedelta(seconds=10), "retry": RETRY, "drain": timedelta(seconds=5)}
        where = store or self.store
        worker = Worker(
            where,
            "parcels",
            sink,
            worker=name,
            timeline=Timeline(where, clock=virtual_wall_us),
            clock=virtual_seconds,
            chance=lambda: 0.0,
            **(usual | options),
        )
        self.workers.append(worker)
        return worker

    def left(self) -> int:
        return self.timeline.count("parcels").total

    async def run(self, *workers: Worker, until: Callable[[], bool] | None = None) -> None:
        """Let workers work until nothing is left, or until something is so; then stop them."""
        running = [asyncio.ensure_future(worker.run()) for worker in workers]
        while not (until() if until else self.left() == 0):
            await asyncio.wait(running, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
            for one in running:
                assert not one.done(), one.result()
        for worker in workers:
            worker.stop()
        await asyncio.gather(*running)

    def dead(self) -> list[Consignment]:
        """The dead letters."""
        found = self.timeline.lease(dead_letters_of("parcels"), "undertaker", limit=1_000)
        return [read_consignment(message.body) for message in found]

    def reached(self) -> dict[int, int]:
        """By lane, up to which number its parcels have arrived."""
        found = Deliveries(self.store, self.timeline, "parcels").reached([self.name])
        return {lane: number for (_, lane), number in found.items()}

    def check_end(self, state: str) -> None:
        """Nothing is left, and the end was told once."""
        assert self.left() == 0
        assert self.reached() == dict(self.lanes)
        status = self.tracker.status(self.fanout)
        assert (status.pending, status.state) == (0, state)
        assert self.tracker.pending_items(self.fanout) == []
        told = Counter((one.fanout, one.state) for worker in self.workers for one in worker.endings)
        assert told == {(self.fanout, state): 1}
        for worker in self.workers:
            assert self.timeline.my_leases(worker.consumer.consumer) == []
