"""How databases find their way along a long line: by an index, whatever their statistics say."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from batchline.core.spot import DONE, SEGMENTS, Spot
from batchline.runtime.timeline import Timeline
from batchline.stores.mysql.store import MysqlStore
from batchline.stores.opening import open_store
from batchline.stores.postgres.store import PostgresStore
from batchline.stores.sql_timeline import SqlTimelineRows
from batchline.stores.sqlite.store import SqliteStore
from batchline.stores.store import Store
from batchline.stores.timeline_rows import BEFORE_ALL, SpotChange, Stretch, WholeSpot
from tests.stores.observing import beside
from tests.stores.racing import write

#: Spots on the line, of which some have ended, and some are leased.
SPOTS: Final = 200_000
NOW_MS: Final = 1_000
KEYS: Final = [(number, 1) for number in range(1, 2_000, 20)]
BUNDLES: Final = [bundle for bundle, _ in KEYS]
TOPIC: Final = Stretch(1, range(SEGMENTS), range(1024), 0, NOW_MS)
PART: Final = Stretch(1, range(2, 4), range(300, 400), 0, NOW_MS)
SPOT: Final = Spot(1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0, None)
CHANGES: Final = [
    SpotChange(SPOT._replace(bundle=bundle), SPOT._replace(bundle=bundle, version=2)) for bundle in BUNDLES
]

WHOLE: Final = [WholeSpot(bundle, 1, 1, 1, "consumer-1", "parcels") for bundle in BUNDLES]

Asking = Callable[[SqlTimelineRows], object]
#: What is asked all the time.
ASKED: Final[dict[str, Asking]] = {
    "due": lambda rows: rows.due(TOPIC, BEFORE_ALL, 100),
    "due in some buckets": lambda rows: rows.due(PART, BEFORE_ALL, 100),
    "hold_due": lambda rows: rows.hold_due(KEYS, NOW_MS),
    "hold_spots": lambda rows: rows.hold_spots(KEYS),
    "hold_spots_of": lambda rows: rows.hold_spots_of(BUNDLES),
    "spots_of": lambda rows: rows.spots_of(BUNDLES),
    "write_spots": lambda rows: rows.write_spots(CHANGES),
    "end_spots": lambda rows: rows.end_spots(WHOLE, NOW_MS),
    "delete_spots": lambda rows: rows.delete_spots(KEYS),
    "bundles_by_number": lambda rows: rows.bundles_by_number(BUNDLES),
    "hold_bundles": lambda rows: rows.hold_bundles(BUNDLES),
    "content_sizes": lambda rows: rows.content_sizes(BUNDLES),
    "owners_of": lambda rows: rows.owners_of(BUNDLES),
    "message_ids": lambda rows: rows.message_ids(1, [f"id-{bundle}" for bundle in BUNDLES]),
    "hold_ended": lambda rows: rows.hold_ended(1, DONE, NOW_MS, 500),
    "hold_exhausted": lambda rows: rows.hold_exhausted(1, 3, NOW_MS, 500),
    "leased_spots": lambda rows: rows.leased_spots(1, "consumer-7", NOW_MS),
}

#: Tables with a row for each message, or nearly.
LONG: Final = ("batchline_spots", "batchline_bundles", "batchline_message_ids")
#: Those that name rows and lock them.
LOCKING: Final = ("hold_due", "hold_spots", "hold_spots_of", "write_spots", "end_spots", "delete_spots", "hold_bundles")

#: Numbers from 1 on, as each database makes them.
NUMBERS: Final = {
    "postgresql": "generate_series(1, {0}) AS numbers (n)",
    "mysql": "(SELECT seq AS n FROM seq_1_to_{0}) AS numbers",
    "sqlite": "(WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {0}) SELECT n FROM c)",
}
CONTENT: Final = {"postgresql": "'\\x0100000000'::bytea", "mysql": "x'0100000000'", "sqlite": "x'0100000000'"}
TEXT: Final = {"postgresql": "'{0}-' || {1}", "mysql": "concat('{0}-', {1})", "sqlite": "'{0}-' || {1}"}


def fill(url: str, spots: int = SPOTS) -> None:
    """Lay out a line, inside the server."""
    kind = url.partition(":")[0]
    numbers, text = NUMBERS[kind].format(spots), TEXT[kind]
    consumer = f"CASE WHEN n % 50 = 1 THEN {text.format('consumer', 'n % 20')} END"
    write(
        url,
        "INSERT INTO batchline_spots (bundle, number, topic, segment, at_ms, turn, bits, low_bucket, high_bucket, "
        "version, attempts, consumer, size) "
        f"SELECT n, 1, 1, CASE WHEN n % 100 = 0 THEN -1 ELSE n % 8 END, n, 0, 1, (n % 8) * 128, (n % 8) * 128 + 127, "
        f"1, n % 4, {consumer}, 1 FROM {numbers}",
    )
    write(
        url,
        "INSERT INTO batchline_bundles (number, topic, producer_group, created_ms, ids, content) "
        f"SELECT n, 1, 1, n, {text.format('id', 'n')}, {CONTENT[kind]} FROM {numbers}",
    )
    write(
        url,
        "INSERT INTO batchline_message_ids (topic, id, bundle, place) "
        f"SELECT 1, {text.format('id', 'n')}, n, 0 FROM {numbers}",
    )


class Explaining:
    """A cursor that explains what it is to execute, and notes that."""

    def __init__(self, cursor: Any, explain: str):
        self._cursor, self._explain = cursor, explain
        self.plans: list[tuple[Any, ...]] = []
        self.rowcount = 0

    def execute(self, sql: str, parameters: Any = None, **_: Any) -> "Explaining":
        self._cursor.execute(f"{self._explain} {sql}", parameters)
        self.plans += self._cursor.fetchall()
        return self

    def executemany(self, sql: str, parameters: Any) -> None:
        self.execute(sql, parameters[0])

    def fetchall(self) -> list[tuple[Any, ...]]:
        return []


class Sending:
    """A connection whose statements are explained."""

    def __init__(self, cursor: Explaining):
        self._cursor = cursor

    def cursor(self) -> Explaining:
        return self._cursor

    def receive(self) -> None:
        """The plans are there already."""

    def mark(self) -> None:
        """No other statement is under way."""


def explained(store: Store, connection: Any, explain: str, asking: Asking) -> list[tuple[Any, ...]]:
    """The plans of the statements by which a store is asked for something."""
    cursor = Explaining(connection.cursor(), explain)
    if isinstance(store, SqliteStore):
        from batchline.stores.sqlite.store import _session

        session = _session(connection)
    else:
        assert isinstance(store, PostgresStore | MysqlStore)
        session = store.session(connection)
    session._cursor = cursor
    setattr(session, "_connection", Sending(cursor))  # noqa: B010 - only one kind of session has it
    rows = SqlTimelineRows(session)
    rows.write_spots = _lenient(rows.write_spots)  # type: ignore[method-assign]
    asking(rows)
    assert cursor.plans
    return cursor.plans


def _lenient(call: Callable[..., None]) -> Callable[..., None]:
    """To explain writes nothing, which is not what a call expects."""
    from batchline.stores.connections import Busy

    def lenient(*arguments: Any) -> None:
        with pytest.raises(Busy):
            call(*arguments)

    return lenient


def prepared(url: str) -> Iterator[Store]:
    with open_store(url) as store:
        Timeline(store).create_topic("parcels")
        yield store


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


def check_postgresql(store: Store, connection: Any) -> None:
    for name, asking in ASKED.items():
        for (plans,) in explained(store, connection, "EXPLAIN (FORMAT JSON)", asking):
            found = list(nodes((json.loads(plans) if isinstance(plans, str) else plans)[0]["Plan"]))
            scans = [node for node in found if node["Node Type"] in ("Seq Scan", "Bitmap Heap Scan")]
            wide = [node for node in scans if node["Node Type"] == "Seq Scan" and node["Relation Name"] in LONG]
            assert not wide, f"{name} scans: {plans}"
            if name in LOCKING:
                keys = {node["Index Name"] for node in found if "Index Name" in node}
                assert keys <= {"batchline_spots_pkey", "batchline_bundles_pkey"}, f"{name} looks elsewhere: {plans}"
            if name.startswith("due") or name == "hold_ended":
                assert not [node for node in found if "Sort" in node["Node Type"]], f"{name} sorts: {plans}"
                assert not scans, f"{name} reads all that is due: {plans}"


def test_postgresql_walks_along_the_line_whatever_its_statistics_say(postgresql_database: str) -> None:
    for store in prepared(postgresql_database):
        with beside(postgresql_database) as watch:
            for table in ("spots", "bundles", "message_ids"):
                watch.run(f"ALTER TABLE batchline_{table} SET (autovacuum_enabled = false)")
            watch.run("ANALYZE")  # of tables that are empty
            fill(postgresql_database)
            check_postgresql(store, watch._connection)
            watch.run("ANALYZE")
            check_postgresql(store, watch._connection)


# --- MariaDB ----------------------------------------------------------------------------------------------------------


def check_mariadb(store: Store, connection: Any, names: Iterable[str] = ASKED) -> None:
    for name in names:
        asking = ASKED[name]
        for row in explained(store, connection, "EXPLAIN", asking):
            _, _, table, kind, _, key, _, _, _, extra = row
            ours = table is not None and (table in ("s", "b", "m") or table.startswith("batchline"))
            if ours:
                assert kind not in ("ALL", "index"), f"{name} scans: {row}"
                assert key is not None, f"{name} has no key: {row}"
                assert name == "leased_spots" or "filesort" not in (extra or ""), f"{name} sorts: {row}"


def test_mariadb_walks_along_the_line_whatever_its_statistics_say(mariadb_database: str) -> None:
    for store in prepared(mariadb_database):
        with beside(mariadb_database) as watch:
            for table in ("spots", "bundles", "message_ids"):
                watch.run(f"ALTER TABLE batchline_{table} STATS_AUTO_RECALC = 0")
                watch.run(f"ANALYZE TABLE batchline_{table}")  # while it is empty
            fill(mariadb_database)
            check_mariadb(store, watch._connection)
            for table in ("spots", "bundles", "message_ids"):
                watch.run(f"ANALYZE TABLE batchline_{table}")
            check_mariadb(store, watch._connection)


def test_mariadb_does_not_lock_a_whole_line_because_it_is_short(mariadb_database: str) -> None:
    for store in prepared(mariadb_database):
        fill(mariadb_database, 4)
        with beside(mariadb_database) as watch:
            watch.run("ANALYZE TABLE batchline_spots, batchline_bundles, batchline_message_ids")
            check_mariadb(store, watch._connection, LOCKING)


# --- SQLite -----------------------------------------------------------------------------------------------------------


def check_sqlite(store: Store, connection: Any) -> None:
    for name, asking in ASKED.items():
        plan = explained(store, connection, "EXPLAIN QUERY PLAN", asking)
        segments = {number for number, _, _, step in plan if step.startswith("CO-ROUTINE of")}
        for _, parent, _, step in plan:
            assert not step.startswith(("SCAN batchline", "SCAN s", "SCAN b", "SCAN m")), f"{name} scans: {step}"
            # The few that each segment gives, in order, are sorted once more when they are put together.
            merges = bool(segments) and parent not in segments
            assert name == "leased_spots" or merges or "TEMP B-TREE" not in step, f"{name} sorts: {step}"


def test_sqlite_walks_along_the_line_with_and_without_statistics(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'batchline.db'}"
    for store in prepared(url):
        fill(url)
        with closing(sqlite3.connect(tmp_path / "batchline.db")) as connection:
            check_sqlite(store, connection)
            connection.execute("ANALYZE")
            connection.commit()
        with closing(sqlite3.connect(tmp_path / "batchline.db")) as connection:
            check_sqlite(store, connection)
