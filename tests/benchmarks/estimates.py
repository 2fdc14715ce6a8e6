"""Estimates in Redis: acks a second beside a bare DECRBY of the same client, and what a fanout weighs."""

from redis import Redis

from batchline.runtime.estimated_tracker import EstimatedTracker
from batchline.stores.redis.estimates import KEY, EstimateStore
from tests.benchmarks.measure import Figures, console, seconds
from tests.servers.ask import ask, begin, end

__all__ = ["run"]


def run(calls: int) -> Figures:
    """Measure so many calls of each kind, against a server of this run."""
    begin()
    try:
        url = ask("redis")
        with Redis.from_url(url) as client, EstimateStore(url) as store:
            return measured(client, EstimatedTracker(store), calls)
    finally:
        end()


def measured(client: Redis, tracker: EstimatedTracker, calls: int) -> Figures:
    figures = Figures("Estimates: one client, one call after the other", "calls/s")
    fanout = tracker.open("bench").id

    def bare() -> None:
        for _ in range(calls):
            client.decrby("counter", 1)

    def acks() -> None:
        for _ in range(calls):
            tracker.ack(fanout)

    def statuses() -> None:
        for _ in range(calls):
            tracker.status(fanout)

    for name, work in (("DECRBY", bare), ("ack", acks), ("status", statuses)):
        figures.add("calls", name, calls, seconds(work, repeats=3))
    console.print(f"  a fanout of 1,000 items: {bytes_of(client, tracker):,.0f} bytes")
    return figures


def bytes_of(client: Redis, tracker: EstimatedTracker, fanouts: int = 10_000) -> float:
    """What the server needs for a complete fanout with an id of 36 characters, its share of all tables included."""
    before = int(client.info("memory")["used_memory"])
    for number in range(fanouts):
        fanout = tracker.open(f"{number:036d}").id
        tracker.add(fanout, 1_000)
        tracker.ack(fanout, 1_000)
        tracker.seal(fanout)
    assert client.exists(KEY + f"{0:036d}")
    return (int(client.info("memory")["used_memory"]) - before) / fanouts


if __name__ == "__main__":
    run(10_000).show()
