"""Our timeline as a queue like its peers, in three ways to create messages; and any contender by its name."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta
from itertools import count
from typing import Any

from batchline import LeasedMessage, NewMessage, Prune, Timeline, open_store
from batchline.core.message import LATEST_MS
from batchline.core.spot import DONE
from batchline.runtime.clock import now_us
from tests.benchmarks.timeline_peers import PEERS, Queue, missing, peer, settle
from tests.benchmarks.timeline_preload import preload_ours
from tests.benchmarks.timeline_tables import DAY_MS, LEASE_MS, WAITING_BODY, YEAR_MS, Table

__all__ = ["CHOSEN", "MOMENTS", "OURS", "TOPIC", "WAYS", "Ours", "contender", "contenders", "counted"]

OURS, CHOSEN, MOMENTS = "batchline", "batchline, chosen ids", "batchline, a moment each"
WAYS = (OURS, CHOSEN, MOMENTS)
TOPIC, GROUP = "bench", "producers"
LEASED_FOR = timedelta(milliseconds=LEASE_MS)


class Ours:
    """The timeline. Each thread is a consumer; those that `attend` share the buckets."""

    def __init__(self, url: str, way: str = OURS):
        self._url = url
        self._store = open_store(url)
        # Nobody sends heartbeats here: a share holds for as long as the benchmark.
        self.timeline = Timeline(self._store, live_for=timedelta(hours=1))
        self.topic = self.timeline.create_topic(TOPIC, keep=timedelta(0))
        self._prune = Prune(self._store)
        ways: dict[str, Callable[[bytes], NewMessage | bytes]] = {CHOSEN: self._chosen, MOMENTS: self._moment}
        self._new = ways.get(way)
        # Each process has ids of its own; each message a moment that has passed.
        self._ids = count(now_us() << 20)
        self._moments = count(self.timeline.now_ms() - DAY_MS)
        self._naming = threading.Lock()
        self.attend(range(1))

    def attend(self, workers: range) -> None:
        """Subscribe as these consumers, beside those of other processes; threads take their names as they come."""
        self._names = [f"worker-{number}" for number in reversed(workers)]
        self._consumers: dict[int, str] = {}
        for name in self._names * 2:  # all know of all at the second time
            self.timeline.heartbeat(TOPIC, name)

    def consumer(self) -> str:
        """The consumer that this thread is."""
        me = threading.get_ident()
        with self._naming:
            if me not in self._consumers:
                self._consumers[me] = self._names.pop() if len(self._names) > 1 else self._names[0]
            return self._consumers[me]

    def create(self, bodies: Sequence[bytes]) -> None:
        """Create messages that are due at once, or were."""
        messages = bodies if self._new is None else [self._new(body) for body in bodies]
        outcomes = self.timeline.create(TOPIC, messages, producer_group=GROUP)
        assert all(outcome.outcome == "created" for outcome in outcomes)

    def _chosen(self, body: bytes) -> NewMessage:
        return NewMessage(body, id=f"order-{next(self._ids):x}")

    def _moment(self, body: bytes) -> NewMessage:
        return NewMessage(body, at=next(self._moments))

    def create_at(self, moments_ms: Sequence[int]) -> None:
        """Create messages that are due at these moments."""
        body = WAITING_BODY.encode()
        self.timeline.create(TOPIC, [NewMessage(body, at=ms) for ms in moments_ms], producer_group=GROUP)

    def preload(self, count: int) -> None:
        """Let the server fill the tables, with what was never in one call."""
        owner = self._store.transact(lambda rows: rows.producer_group(GROUP))
        preload_ours(self._url, self.topic, owner, count)
        settle(self._url)

    def lease(self, limit: int) -> Sequence[LeasedMessage]:
        """Lease what is due in this thread's buckets."""
        return self.timeline.lease(TOPIC, self.consumer(), limit=limit, duration=LEASED_FOR)

    def done(self, tokens: Sequence[Any]) -> int:
        """Finish messages; `prune` removes them."""
        return sum(outcome.ok for outcome in self.timeline.done(tokens))

    def prune(self) -> bool:
        """Remove some of what is done; tells whether there is more."""
        return self._prune.run_once()

    def ended(self) -> int:
        """How many spots there are to be pruned."""
        return len(self._store.transact(lambda rows: rows.hold_ended(self.topic.number, DONE, LATEST_MS, 10_000_000)))

    def count(self) -> int:
        """Count all messages."""
        return self.timeline.count(TOPIC).total

    def load(self) -> int:
        """Look at the load of a year; returns how many wait in it."""
        to_ms = self.timeline.now_ms() + 2 * YEAR_MS
        return sum(one.count for one in self.timeline.load(TOPIC, to=to_ms).bins)

    def close(self) -> None:
        """Close the store."""
        self._store.close()


def contenders(database: str) -> tuple[str, ...]:
    """Who is measured on a database, the plain table first: ratios are to it."""
    return (*(name for name in PEERS[database] if not missing(name)), *WAYS)


@contextmanager
def contender(name: str, url: str) -> Iterator[Queue]:
    """Ours or a peer, in an empty database, or in one that other processes use."""
    if name in WAYS:
        with closing(Ours(url, name)) as ours:
            yield ours
    else:
        with peer(name, url) as queue:
            yield queue


def counted(queue: Queue) -> int:
    """Let a queue that can do it count its messages."""
    assert isinstance(queue, Ours | Table)
    return queue.count()
