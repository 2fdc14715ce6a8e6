"""Migrations: by whoever comes first, once, whole; and never backwards."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from batchline.core.message import NewMessage
from batchline.errors import SchemaMismatch
from batchline.runtime.prune import Prune
from batchline.runtime.timeline import Timeline
from batchline.runtime.tracker import Tracker
from batchline.stores.address import read_address
from batchline.stores.migrations import read_migrations, schema_version, statements_of
from batchline.stores.opening import find_store, open_store
from batchline.stores.postgres.store import MIGRATING
from tests.stores.newer_program import COMPATIBLE, INCOMPATIBLE, newer_program
from tests.stores.observing import beside
from tests.stores.older import undo_strays
from tests.stores.racing import PATIENCE_S, Gate, select, write
from tests.waiting import wait_until

ROOMS = ("sqlite", "postgres", "mysql")
NAMES = [migration.name for migration in read_migrations("postgres")]
NEWEST = len(NAMES)
PROCESSES = 8


def columns(url: str) -> dict[str, set[str]]:
    """The columns of our tables."""
    if url.startswith("sqlite"):
        found = select(
            url,
            "SELECT t.name, c.name FROM sqlite_schema AS t, pragma_table_xinfo(t.name) AS c "
            "WHERE t.type = 'table' AND t.name LIKE 'batchline%'",
        )
    else:
        schema = "current_schema()" if url.startswith("postgresql") else "DATABASE()"
        found = select(
            url, f"SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = {schema}"
        )
    tables: dict[str, set[str]] = {}
    for table, column in found:
        tables.setdefault(table, set()).add(column)
    return tables


def check_works(url: str) -> None:
    with open_store(url) as store:
        tracker = Tracker(store)
        fanout = tracker.open(labels={"job": "import"}).id
        (group,) = tracker.add(fanout, 3)
        tracker.seal(fanout)
        assert tracker.fail(group.items(), "no use").failed == (fanout,)


def test_from_an_empty_database_and_once(sql_database: str) -> None:
    with find_store(read_address(sql_database)) as store:
        assert store.version() == 0
        assert store.migrate() == NAMES
        assert store.version() == NEWEST
        assert store.migrate() == []
        store.check_schema()
    check_works(sql_database)
    with open_store(sql_database, migrate=False) as store:
        assert store.version() == NEWEST


def migrate_in_process(urls: Sequence[str], gate: Gate, end: Any) -> None:
    """Migrate each database at the same time as the others, and tell what that took."""
    taken = []
    for url in urls:
        with find_store(read_address(url)) as store:
            gate.wait(PATIENCE_S)
            taken.append(store.migrate())
            store.check_schema()
    end.send(taken)


def test_of_processes_that_migrate_at_once_exactly_one_does(
    postgresql_database: str, mariadb_database: str, tmp_path: Path
) -> None:
    urls = [*(f"sqlite:///{tmp_path / f'{number}.db'}" for number in range(5)), postgresql_database, mariadb_database]
    context = get_context("spawn")
    gate = context.Barrier(PROCESSES)
    here, there = context.Pipe(duplex=False)
    processes = [context.Process(target=migrate_in_process, args=(urls, gate, there)) for _ in range(PROCESSES)]
    try:
        for process in processes:
            process.start()
        there.close()
        taken = [here.recv() for _ in processes]
    finally:
        for process in processes:
            process.join(PATIENCE_S)
            process.kill()
        here.close()
    for number, url in enumerate(urls):
        assert sorted(one[number] for one in taken) == [[]] * (PROCESSES - 1) + [NAMES]
        check_works(url)


@pytest.mark.parametrize("migrate", [True, False])
def test_a_newer_schema_is_refused_and_not_touched(sql_database: str, migrate: bool) -> None:
    write(sql_database, "CREATE TABLE batchline_migrations (number integer PRIMARY KEY, name varchar(100) NOT NULL)")
    write(sql_database, f"INSERT INTO batchline_migrations VALUES ({NEWEST + 1}, 'from the future')")
    before = columns(sql_database)
    with pytest.raises(SchemaMismatch, match=f"has version {NEWEST + 1}, this program knows versions up to {NEWEST}"):
        open_store(sql_database, migrate=migrate)
    assert columns(sql_database) == before
    assert select(sql_database, "SELECT * FROM batchline_migrations") == [(NEWEST + 1, "from the future")]


# --- newer schemas that older programs work with ----------------------------------------------------------------------


def test_a_process_works_on_after_a_newer_program_has_run_a_compatible_migration(sql_database: str) -> None:
    with open_store(sql_database) as older:
        timeline = Timeline(older)
        timeline.create_topic("jobs")
        for _ in range(10):  # by then psycopg has prepared what it repeats
            older.check_schema()
        with newer_program(COMPATIBLE), open_store(sql_database) as newer:
            assert newer.version() == 99
        older.check_schema()
        assert timeline.create("jobs", [NewMessage(b"job", id="a")], producer_group="p")[0].outcome == "created"
        assert timeline.topic("jobs").name == "jobs"
    check_works(sql_database)  # opened anew, it works too


def test_a_process_refuses_the_schema_after_an_incompatible_migration(sql_database: str) -> None:
    with open_store(sql_database) as older:
        with newer_program(INCOMPATIBLE):
            open_store(sql_database).close()
        # What comes after it, however compatible, does not make it compatible.
        later = replace(COMPATIBLE, number=101, name="0101_colours")
        with newer_program(INCOMPATIBLE, later):
            open_store(sql_database).close()
        said = rf"has version 101, this program knows versions up to {NEWEST}: use a Batchline that knows version 100$"
        with pytest.raises(SchemaMismatch, match=said):
            older.check_schema()
    with pytest.raises(SchemaMismatch, match=said):
        open_store(sql_database)


def test_a_store_made_by_an_older_program_learns_which_programs_its_migrations_work_with(sql_database: str) -> None:
    open_store(sql_database).close()
    write(sql_database, "ALTER TABLE batchline_migrations DROP COLUMN works_from")
    with open_store(sql_database) as older:
        assert older.schema() == (NEWEST, NEWEST)
        with newer_program(COMPATIBLE):
            assert older.migrate() == ["0099_colours"]
        assert older.schema() == (99, NEWEST)
        older.check_schema()
    found = select(sql_database, "SELECT works_from FROM batchline_migrations ORDER BY number")
    assert found == [(None,)] * NEWEST + [(NEWEST,)]


@pytest.mark.parametrize("rows", [[(7, "a")], [(7, "a", None)], [(7, "a", 7)], [(6, "b", 7), (7, "a", 3)]])
def test_a_schema_that_does_not_say_works_with_nothing_older(rows: list[tuple[Any, ...]]) -> None:
    assert schema_version(rows) == (7, 7)


@pytest.mark.parametrize("room", ROOMS)
def test_each_new_migration_says_which_programs_work_with_it(room: str) -> None:
    for migration in read_migrations(room):
        first = migration.sql.partition("\n")[0]
        says = first == f"-- Works with programs from migration {migration.works_from:04} on."
        assert says == (migration.number > 6), f"{room}/{migration.name}: line 1 is {first!r}"
        assert migration.works_from <= migration.number


def test_without_migrating_an_empty_database_is_refused_with_what_to_run(sql_database: str) -> None:
    with pytest.raises(SchemaMismatch, match=rf"lacks {', '.join(NAMES)}: run batchline migrate"):
        open_store(sql_database, migrate=False)
    assert columns(sql_database) == {}


@pytest.mark.parametrize("reached", range(1, len(statements_of(read_migrations("mysql")[0])) + 1))
def test_in_mariadb_a_migration_that_was_cut_short_is_completed_by_the_next(
    mariadb_database: str, reached: int
) -> None:
    for statement in statements_of(read_migrations("mysql")[0])[:reached]:
        write(mariadb_database, statement)
    with open_store(mariadb_database) as store:
        assert store.version() == NEWEST
    check_works(mariadb_database)


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_who_dies_while_migrating_makes_room_for_the_next(kind: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(f"{kind}_database")
    lock, waiting = {
        "postgresql": (
            f"SELECT pg_advisory_lock({MIGRATING})",
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'",
        ),
        "mariadb": (
            "SELECT GET_LOCK(CONCAT('batchline ', MD5(DATABASE())), 0)",
            "SELECT 1 FROM information_schema.processlist WHERE db = DATABASE() AND state = 'User lock'",
        ),
    }[kind]
    with beside(url) as watch, ThreadPoolExecutor(1) as threads:
        with beside(url) as dies:
            dies.run(lock)
            opening = threads.submit(open_store, url)
            wait_until(lambda: watch.run(waiting))
            assert not opening.done()
        opening.result(PATIENCE_S).close()
    check_works(url)


@pytest.mark.parametrize("room", ROOMS)
def test_numbers_are_consecutive_and_names_the_same_in_every_room(room: str) -> None:
    migrations = read_migrations(room)
    assert [migration.number for migration in migrations] == list(range(1, NEWEST + 1))
    assert [migration.name for migration in migrations] == NAMES
    assert all(migration.name.startswith(f"{migration.number:04}_") for migration in migrations)


def test_the_three_databases_have_the_same_tables_and_columns(
    postgresql_database: str, mariadb_database: str, tmp_path: Path
) -> None:
    urls = (f"sqlite:///{tmp_path / 'batchline.db'}", postgresql_database, mariadb_database)
    for url in urls:
        open_store(url).close()
    in_sqlite, in_postgresql, in_mariadb = map(columns, urls)
    assert in_sqlite == in_postgresql == in_mariadb
    assert "batchline_fanouts" in in_sqlite


def test_what_was_done_before_sessions_came_is_not_created_again(sql_database: str) -> None:
    messages = [NewMessage(b"job", id=f"job-{number}") for number in range(64)]
    with open_store(sql_database) as store:
        timeline = Timeline(store)
        timeline.create_topic("jobs")
        timeline.create("jobs", messages, producer_group="p")
        for leased in (timeline.lease("jobs", "w", limit=9), timeline.lease("jobs", "w", limit=55)[50:]):
            timeline.done(leased)
    undo_strays(sql_database)
    # As it was: ended spots without bits.
    write(sql_database, "UPDATE batchline_spots SET bits = 0, size = 0 WHERE segment = -1")
    write(sql_database, "DROP TABLE batchline_sessions")
    for table, column in (("spots", "session"), ("attempts", "version"), ("topics", "keep_us")):
        write(sql_database, f"ALTER TABLE batchline_{table} DROP COLUMN {column}")
    write(sql_database, "DELETE FROM batchline_migrations WHERE number > 5")
    with open_store(sql_database) as store:
        timeline = Timeline(store)
        assert {one.outcome for one in timeline.create("jobs", messages, producer_group="p")} == {"exists"}
        assert timeline.count("jobs").total == 64 - 9 - 5
        prune = Prune(store, clock=lambda: 1_000 * (timeline.now_ms() + 60_000))
        while prune.run_once():
            pass
        assert select(sql_database, "SELECT COUNT(*) FROM batchline_message_ids") == [(64 - 9 - 5,)]
        again = timeline.create("jobs", messages, producer_group="p")
        assert [one.outcome for one in again].count("created") == 9 + 5
