"""Clients that are stopped by SIGSTOP within a transaction, while they hold locks that others wait for.

    python -m tests.faults.frozen worker work pipeline.toml …   `batchline`: SIGUSR1 stops it when it next holds a lane
    python -m tests.faults.frozen stranger URL lanes            a process of its own, which locks lanes and stops

SIGUSR2 and then SIGCONT let a worker go on. A stranger that goes on changes nothing: its transaction is rolled back.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

from batchline.core.topic import Topic
from batchline.stores import open_store
from batchline.stores.rows import Rows
from batchline.stores.sql_lanes import SqlLaneRows
from batchline.stores.topics import known_topic
from batchline.stores.tracker_rows import Listing
from tests.faults.pipeline import LANES, NAME, TOPIC
from tests.faults.plan import WORKERS

__all__ = ["main"]

TRIES, BETWEEN_S = 100, 0.05


def be_worker(words: list[str]) -> None:
    """Be `batchline` with these words, and stop where it hurts when told to."""
    wanted = threading.Event()
    signal.signal(signal.SIGUSR1, lambda *_: wanted.set())
    signal.signal(signal.SIGUSR2, lambda *_: wanted.clear())
    hold_lanes: Any = SqlLaneRows.hold_lanes

    def hold_and_stop(rows: SqlLaneRows, *lanes: Any) -> Any:
        held = hold_lanes(rows, *lanes)
        if held and wanted.is_set():
            wanted.clear()
            _stop()
        return held

    SqlLaneRows.hold_lanes = hold_and_stop  # type: ignore[method-assign, assignment]
    from batchline.cli import main as batchline

    sys.argv = ["batchline", *words]
    batchline()


def be_stranger(url: str, what: str) -> None:
    """Lock, and stop."""

    def hold(rows: Rows) -> None:
        lock, pause = LOCKS[what], threading.Event()
        for _ in range(TRIES):
            if lock(rows, known_topic(rows, TOPIC)):
                break
            pause.wait(BETWEEN_S)
        _stop()
        raise GoneOnError

    with open_store(url, migrate=False) as store:
        store.transact(hold)


class GoneOnError(Exception):
    """A stranger was let go on: what it has begun comes to nothing."""


def _lanes(rows: Rows, topic: Topic) -> bool:
    """Lock all lanes: who publishes into one, or settles parcels of it, waits."""
    return bool(rows.hold_lanes(topic.number, NAME, range(LANES)))


def _spots(rows: Rows, topic: Topic) -> bool:
    """Lock what workers have leased: they cannot settle it."""
    leased = [spot.key for name in WORKERS for spot in rows.leased_spots(topic.number, name, 0)]
    return bool(leased and rows.hold_spots(leased))


def _fanouts(rows: Rows, _: Topic) -> bool:
    """Lock fanouts that are not complete: nothing is added to them, and none is completed."""
    found = rows.list_fanouts(Listing(0, 100, newest=True))
    unfinished = sorted(number for number, status in found if status.state not in ("complete", "failed"))
    held = [rows.hold_fanout(number) for number in unfinished]
    return bool(held)


LOCKS: Final[dict[str, Callable[[Rows, Topic], bool]]] = {
    "lanes": _lanes,
    "spots": _spots,
    "fanouts": _fanouts,
    "gone": _lanes,
}


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def main(role: str, *words: str) -> None:
    """Be what is asked for."""
    if role == "worker":
        be_worker(list(words))
    else:
        be_stranger(*words)


if __name__ == "__main__":
    main(*sys.argv[1:])
