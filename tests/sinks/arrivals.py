"""What has arrived at a receiver, kept in a SQLite file that outlives its process: each parcel once, by its key."""

import json
import sqlite3
import threading
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Arrival", "Arrivals", "Lane", "lanes_of"]

#: A publication, and a lane of it.
Lane = tuple[str, int]
SCHEMA = """
CREATE TABLE IF NOT EXISTS arrivals (
    place INTEGER PRIMARY KEY, key TEXT UNIQUE, publication TEXT, lane INTEGER, number INTEGER,
    measurements TEXT NOT NULL, complete INTEGER NOT NULL, times INTEGER NOT NULL, behind INTEGER NOT NULL)
"""
COLUMNS = "key, publication, lane, number, measurements, complete, times, behind"


@dataclass(slots=True)
class Arrival:
    """A parcel that has arrived, as often as it may have come."""

    #: The Idempotency-Key as it was sent, percent-decoded.
    key: str
    publication: str | None
    lane: int | None
    number: int | None
    #: Those that were taken, each once.
    measurements: list[Any] = field(default_factory=list)
    #: Whether all were that it came with the last time.
    complete: bool = True
    #: How often it was taken, and how often of these when a later one of its lane had already been.
    times: int = 1
    behind: int = 0


class Arrivals:
    """A table of them in the order in which each came first; threads may share it."""

    def __init__(self, path: Path | None = None):
        self._lock = threading.Lock()
        self._database = sqlite3.connect(path or ":memory:", isolation_level=None, check_same_thread=False)
        # What a process has written is there after its kill: only a power failure would need more.
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute(SCHEMA)
        newest = "SELECT publication, lane, max(number) FROM arrivals WHERE lane IS NOT NULL GROUP BY 1, 2"
        self._newest = {(row[0], row[1]): row[2] for row in self._database.execute(newest)}

    def take(self, key: str, body: Any, without: Collection[int] = ()) -> None:
        """Take a parcel, without the measurements at these places; what was taken before is not taken again."""
        with self._lock:
            head, came = (body, body["measurements"]) if isinstance(body, dict) else ({}, body)
            lane = head.get("publication"), head.get("lane"), head.get("number")
            kept = [one for place, one in enumerate(came) if place not in without]
            found = self._database.execute(f"SELECT {COLUMNS} FROM arrivals WHERE key = ?", (key,)).fetchone()
            before = _arrival(found) if found else None
            now = Arrival(key, *lane, kept, len(kept) == len(came), behind=self._is_behind(*lane))
            self._write(_merged(before, now))

    def _is_behind(self, publication: Any, lane: Any, number: Any) -> int:
        if number is None:
            return 0
        newest = self._newest[publication, lane] = max(number, self._newest.get((publication, lane), 0))
        return int(number < newest)

    def _write(self, one: Arrival) -> None:
        head = one.key, one.publication, one.lane, one.number
        values = *head, json.dumps(one.measurements), one.complete, one.times, one.behind
        self._database.execute(
            f"INSERT INTO arrivals ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET "
            "measurements = excluded.measurements, complete = excluded.complete, times = excluded.times, "
            "behind = excluded.behind",
            values,
        )

    def all(self) -> list[Arrival]:
        """What has arrived, in the order in which each came first."""
        with self._lock:
            return [_arrival(row) for row in self._database.execute(f"SELECT {COLUMNS} FROM arrivals ORDER BY place")]

    def forget(self) -> None:
        """Be as if nothing had come."""
        with self._lock:
            self._database.execute("DELETE FROM arrivals")
            self._newest.clear()

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def _arrival(row: tuple[Any, ...]) -> Arrival:
    key, publication, lane, number, measurements, complete, times, behind = row
    return Arrival(key, publication, lane, number, json.loads(measurements), bool(complete), times, behind)


def _merged(before: Arrival | None, now: Arrival) -> Arrival:
    if before is None:
        return now
    if not before.complete:  # a parcel in parts: the rest of it may have come
        before.measurements += [one for one in now.measurements if one not in before.measurements]
        before.complete = now.complete
    before.times += 1
    before.behind += now.behind
    return before


def lanes_of(arrivals: list[Arrival]) -> dict[Lane, list[int]]:
    """The numbers of each lane in the order in which they came first."""
    lanes: dict[Lane, list[int]] = {}
    for one in arrivals:
        if one.publication is not None and one.lane is not None and one.number is not None:
            lanes.setdefault((one.publication, one.lane), []).append(one.number)
    return lanes
