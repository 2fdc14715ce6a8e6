"""Workers that a test starts as processes of their own, and may kill; each tells through a pipe what it does."""

from itertools import count
from typing import Any, Final

from batchline.runtime.tracker import Tracker
from batchline.stores.opening import open_store

__all__ = ["ITEMS", "add_for_ever_uncommitted", "finish_fanouts", "finish_with_threads", "hold_leases", "seal_in_part"]

#: Of each fanout.
ITEMS: Final = 4


def finish_fanouts(url: str, run: int, first: int, last: int | None, end: Any) -> None:
    """Open, fill, acknowledge and seal fanouts in order, from one on; the end is told to calls of this run alone."""
    with open_store(url) as store:
        tracker = Tracker(store)
        number = first
        while last is None or number <= last:
            fanout = f"fanout-{number}"
            end.send((number, "begun"))
            tracker.open(fanout)
            items = [item for group in tracker.add(fanout, ITEMS, add_id="only") for item in group.items()]
            end.send((number, "added"))
            told = list(tracker.ack(items[:1], call_id=f"{run} {fanout} 0").completed)
            told += tracker.ack(items[1:2], call_id=f"{run} {fanout} 1").completed
            end.send((number, "acked"))
            if number % 2:
                told += tracker.ack(items, call_id=f"{run} {fanout} 2").completed
                told += [fanout] * tracker.seal(fanout, call_id=f"{run} {fanout} 3").completed
            else:
                told += [fanout] * tracker.seal(fanout, call_id=f"{run} {fanout} 3").completed
                told += tracker.ack(items, call_id=f"{run} {fanout} 2").completed
            end.send((number, f"told {len(told)}"))
            number += 1
    end.close()


def add_for_ever_uncommitted(url: str, fanout: str, count: int, end: Any) -> None:
    """Stand in the midst of a transaction that has written a lot, until killed."""
    from batchline.stores.tracking import add_items

    with open_store(url) as store:

        def work(rows: Any) -> None:
            add_items(rows, fanout, count, "never", 1)
            end.send("written")
            end.recv()

        store.transact(work)


def seal_in_part(url: str, fanout: str, transactions: int, end: Any) -> None:
    """Seal the leaf of a deep chain, and stop inside the transaction after this many until killed."""
    with open_store(url) as store:
        transact, before = store.transact, count()

        def halting(work: Any) -> Any:
            def halted(rows: Any) -> Any:
                answer = work(rows)
                end.send("written")
                end.recv()
                return answer

            return transact(halted if next(before) == transactions else work)

        store.transact = halting  # type: ignore[method-assign]
        Tracker(store).seal(fanout)


def finish_with_threads(url: str, fanout: str, threads: int, adds: int, gate: Any, end: Any) -> None:
    """Threads that each add to one fanout, and acknowledge what they added one by one."""
    from concurrent.futures import ThreadPoolExecutor

    with open_store(url) as store, ThreadPoolExecutor(threads) as pool:
        tracker = Tracker(store)

        def run(_: int) -> int:
            done = 0
            for _ in range(adds):
                for group in tracker.add(fanout, 3):
                    done += sum(tracker.ack([item]).changed for item in group.items())
                tracker.status(fanout)
            return done

        gate.wait(60)
        end.send(sum(pool.map(run, range(threads))))


def hold_leases(url: str, topic: str, now_us: int, end: Any) -> None:
    """Lease all messages, finish the first, and stand in the midst of finishing the second until killed."""
    from batchline.runtime.timeline import Timeline
    from batchline.stores.leasing import done_leases

    with open_store(url) as store:
        timeline = Timeline(store, clock=lambda: now_us)
        found = timeline.lease(topic, "worker", limit=100)
        timeline.done(found[0].lease)
        end.send([one.id for one in found])

        def work(rows: Any) -> None:
            done_leases(rows, [found[1].lease], now_us // 1_000, iter(range(1, 9)))
            end.send("written")
            end.recv()

        store.transact(work)
