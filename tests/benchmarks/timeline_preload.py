"""Fills our tables with messages that wait, by the server itself: ten million in a minute or so.

One message a bundle, as if each had been created by a call of its own: what takes the most room and rows. Indexes are
dropped and made anew, as for the peers. Numbers are small, so older than all that are made by time.
"""

import sqlite3
from contextlib import closing
from urllib.parse import urlsplit

import psycopg

from batchline.core.future_load import SLICE_MS
from batchline.core.spot import SEGMENTS
from batchline.core.topic import Topic
from batchline.runtime.clock import now_us
from tests.benchmarks.timeline_tables import HOUR_MS, WAITING_BODY, YEAR_MS
from tests.servers.database import connect_mariadb

__all__ = ["preload_ours"]

#: SQLite keeps what a transaction writes in its log, all of it.
IN_A_TRANSACTION = 500_000
#: As `Bundle.packed`: the number of bodies, the length of each, and the bodies.
CONTENT = (b"\1" + len(WAITING_BODY).to_bytes(4, "big") + WAITING_BODY.encode()).hex()
HEX = f"x'{CONTENT}'"
BUNDLES = "INSERT INTO batchline_bundles (number, topic, producer_group, created_ms, ids, content)"
SPOTS = (
    "INSERT INTO batchline_spots (bundle, number, at_ms, bits, topic, low_bucket, high_bucket, version, attempts,"
    " segment, turn, size)"
)
SLICES = "INSERT INTO batchline_slices (topic, slice, count)"
LINE = "batchline_spots_line ON batchline_spots (topic, segment, at_ms, turn, bundle, number)"
LEASED = "batchline_spots_leased ON batchline_spots (topic, consumer, at_ms)"
GROUP = "batchline_bundles_group ON batchline_bundles (producer_group, number)"


def preload_ours(url: str, topic: Topic, producer_group: int, count: int) -> None:
    """Let messages wait on an empty topic, due at random moments of the next year, but not in its first hour."""
    begin_ms = now_us() // 1_000 + HOUR_MS
    filled = {"sqlite": _sqlite, "postgresql": _postgresql, "mysql": _mariadb}[urlsplit(url).scheme]
    filled(url, Filling(topic, producer_group, count, begin_ms))


class Filling:
    """What is selected from rows that have a `number`, in words of all three databases."""

    def __init__(self, topic: Topic, producer_group: int, count: int, begin_ms: int):
        self.count = count
        self._topic, self._group, self._begin_ms = topic, producer_group, begin_ms

    def bundles(self, content: str) -> str:
        """Insert bundles."""
        return f"{BUNDLES} SELECT number, {self._topic.number}, {self._group}, {self._begin_ms}, '', {content}"

    def spots(self, some_time: str, divided: str = "/") -> str:
        """Insert spots; a bucket is any, as a hash would be."""
        buckets = self._topic.buckets
        bucket = f"number * 7919 % {buckets}"
        segment = f"({bucket}) * {SEGMENTS} {divided} {buckets}"
        values = f"{self._begin_ms} + {some_time}, 1, {self._topic.number}, {bucket}, {bucket}, 1, 0, {segment}, 0, 1"
        return f"{SPOTS} SELECT number, number, {values}"

    def slices(self, divided: str = "/") -> str:
        """Insert the sums of what waits."""
        place = f"at_ms {divided} {SLICE_MS}"
        return f"{SLICES} SELECT topic, {place}, sum(size) FROM batchline_spots GROUP BY topic, {place}"


def _postgresql(url: str, filling: Filling) -> None:
    rows = f"FROM generate_series(1::bigint, {filling.count}) AS number"
    some_time, content = f"(random() * {YEAR_MS - HOUR_MS})::bigint", f"decode('{CONTENT}', 'hex')"
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in (
            "SET max_parallel_maintenance_workers = 0",
            "SET maintenance_work_mem = '512MB'",
            "DROP INDEX batchline_spots_line, batchline_spots_leased, batchline_bundles_group",
            "ALTER TABLE batchline_bundles DROP CONSTRAINT batchline_bundles_pkey",
            "ALTER TABLE batchline_spots DROP CONSTRAINT batchline_spots_pkey",
            f"{filling.bundles(content)} {rows}",
            f"{filling.spots(some_time)} {rows}",
            "ALTER TABLE batchline_bundles ADD PRIMARY KEY (number)",
            "ALTER TABLE batchline_spots ADD PRIMARY KEY (bundle, number)",
            f"CREATE INDEX {LINE}",
            f"CREATE INDEX {LEASED} WHERE consumer IS NOT NULL",
            f"CREATE INDEX {GROUP}",
            filling.slices(),
        ):
            connection.execute(statement.encode())


def _sqlite(url: str, filling: Filling) -> None:
    some_time = f"(random() & 0x7fffffffffffffff) % {YEAR_MS - HOUR_MS}"
    with closing(sqlite3.connect(urlsplit(url).path[1:], timeout=60, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = NORMAL")
        for index in ("batchline_spots_line", "batchline_spots_leased", "batchline_bundles_group"):
            connection.execute(f"DROP INDEX {index}")
        for first in range(1, filling.count + 1, IN_A_TRANSACTION):
            last = min(first + IN_A_TRANSACTION - 1, filling.count)
            numbers = f"SELECT {first} AS number UNION ALL SELECT number + 1 FROM numbers WHERE number < {last}"
            rows = f"FROM (WITH RECURSIVE numbers AS ({numbers}) SELECT number FROM numbers)"
            connection.execute(f"{filling.bundles(HEX)} {rows}")
            connection.execute(f"{filling.spots(some_time)} {rows}")
        for statement in (f"CREATE INDEX {LINE}", f"CREATE INDEX {LEASED} WHERE consumer IS NOT NULL"):
            connection.execute(statement)
        connection.execute(f"CREATE INDEX {GROUP}")
        connection.execute(filling.slices())


def _mariadb(url: str, filling: Filling) -> None:
    some_time = f"CAST(rand() * {YEAR_MS - HOUR_MS} AS INTEGER)"
    with closing(connect_mariadb(url)) as connection, connection.cursor() as cursor:
        connection.autocommit(True)
        rows = f"FROM (SELECT seq AS number FROM seq_1_to_{filling.count}) AS numbers"
        for statement in (
            "DROP INDEX batchline_spots_line ON batchline_spots",
            "DROP INDEX batchline_spots_leased ON batchline_spots",
            "DROP INDEX batchline_bundles_group ON batchline_bundles",
            f"{filling.bundles(HEX)} {rows}",
            f"{filling.spots(some_time, 'DIV')} {rows}",
            f"CREATE INDEX {LINE}",
            f"CREATE INDEX {LEASED}",
            f"CREATE INDEX {GROUP}",
            filling.slices("DIV"),
        ):
            cursor.execute(statement)
