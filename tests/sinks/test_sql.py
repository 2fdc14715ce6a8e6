"""The SQL sink, on each kind of database."""

import asyncio
import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.core.consignment import Consignment
from batchline.errors import InvalidSink, RefusedParcel, StoreUnavailable, Undelivered
from batchline.sinks.sql import SqlSink
from batchline.stores.address import read_address
from batchline.stores.connections import Connections
from batchline.stores.opening import find_store
from tests.servers.database import fresh_mariadb, fresh_postgresql
from tests.sinks.parcels import measurement, parcel, parcel_of

NUMBERS = itertools.count(1)
Make = Callable[..., SqlSink]


@pytest.fixture(scope="module", params=["sqlite", "postgresql", "mariadb"])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database of this file only, of each kind in turn."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path_factory.mktemp('sinks') / 'sink.db'}?synchronous=normal"
        return
    fresh = {"postgresql": fresh_postgresql, "mariadb": fresh_mariadb}[request.param]
    with fresh(str(request.getfixturevalue(f"{request.param}_url"))) as url:
        yield url


@pytest.fixture
def table() -> str:
    return f"sink{next(NUMBERS)}"


@pytest.fixture
def make(database: str) -> Iterator[Make]:
    made = []

    def making(table: str, **options: Any) -> SqlSink:
        made.append(SqlSink(database, table=table, **options))
        return made[-1]

    yield making
    for sink in made:
        asyncio.run(sink.close())


def run(database: str, sql: str) -> list[Any]:
    """The answer to a query, in any of the databases."""
    with closing(find_store(read_address(database))) as store:
        connections: Connections = store.connections  # type: ignore[attr-defined]
        return _run(connections, sql.replace('"', "`") if database.startswith("mysql") else sql)


def _run(connections: Connections, sql: str) -> list[Any]:
    def work(connection: Any) -> list[Any]:
        cursor = connection.cursor()
        cursor.execute(sql)
        return list(cursor.fetchall()) if cursor.description else []

    return connections.transact(work)


def rows(database: str, table: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in run(database, f'SELECT * FROM "{table}" ORDER BY parcel, place')]


def refusals(sink: SqlSink, *parcels: Consignment) -> dict[str, str]:
    answer = sink.send(parcels)
    assert all(isinstance(error, RefusedParcel) for error in answer.values())
    return {id: str(error) for id, error in answer.items()}


# Rows


def test_a_measurement_is_a_row(database: str, table: str, make: Make) -> None:
    assert refusals(make(table), parcel("d@1", 2), parcel("Gerät@2", 1, lane=1)) == {}
    found = rows(database, table)
    assert [row[:4] for row in found] == [
        ("Gerät@2", 0, "d0", "temperature"),
        ("d@1", 0, "d0", "temperature"),
        ("d@1", 1, "d1", "temperature"),
    ]
    assert [str(moment)[:19].replace("T", " ") for moment in found[2][4:6]] == [
        "2026-11-15 12:00:01",
        "2026-11-15 12:00:02",
    ]
    assert found[2][6] == 21.5
    whole = found[2][7] if isinstance(found[2][7], dict) else json.loads(found[2][7])
    assert whole == measurement(1)


def test_fields_of_other_names_fill_the_columns_and_what_is_missing_is_null(
    database: str, table: str, make: Make
) -> None:
    sink = make(table, fields={"key": "device", "event_time": "t", "value": "n"})
    one = {"device": 7, "t": "2026-11-15T13:00:00.5+01:00", "n": "on"}
    assert refusals(sink, parcel_of([one, {"t": 1_763_208_000_000_000, "n": True}])) == {}
    (first, second) = rows(database, table)
    assert (first[2:4], first[5:7]) == (("7", None), (None, None))
    assert str(first[4]).replace("T", " ").startswith("2026-11-15 12:00:00.5")
    assert (second[2], str(second[4])[:10], second[6]) == (None, "2025-11-15", None)


@pytest.fixture(scope="module")
def twins(database: str) -> Iterator[list[SqlSink]]:
    sinks = [SqlSink(database, table=name) for name in ("repeated", "once")]
    yield sinks
    for sink in sinks:
        asyncio.run(sink.close())


@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4), max_size=6))
def test_any_sequence_of_sends_with_repetitions_leaves_the_rows_of_sending_each_once(
    twins: list[SqlSink], calls: list[list[int]]
) -> None:
    parcels = [parcel(f"p{number}", number, number=number + 1) for number in range(5)]
    each_once = [[number] for number in {*itertools.chain.from_iterable(calls)}]
    left = []
    for sink, sends in zip(twins, (calls, each_once), strict=True):
        _run(sink._table._connections, f"DELETE FROM {sink._table.quoted}")
        for numbers in sends:
            assert refusals(sink, *(parcels[number] for number in numbers)) == {}
        left.append(_run(sink._table._connections, f"SELECT * FROM {sink._table.quoted} ORDER BY parcel, place"))
    assert left[0] == left[1]
    assert len(left[0]) == sum(number for (number,) in each_once)


def test_a_parcel_that_has_changed_overwrites_what_it_was(database: str, table: str, make: Make) -> None:
    sink = make(table)
    sink.send([parcel("p", 1)])
    sink.send([parcel_of([{"key": "other"}], "p")])
    assert [row[2] for row in rows(database, table)] == ["other"]


def test_ids_that_differ_only_in_case_are_two_parcels(database: str, table: str, make: Make) -> None:
    make(table).send([parcel("A@1", 1), parcel("a@1", 1, lane=1)])
    assert len(rows(database, table)) == 2


# Refusals


def test_what_a_table_cannot_hold_is_refused_and_the_others_are_written(database: str, table: str, make: Make) -> None:
    sink = make(table)
    wrong = [
        parcel_of([{"event_time": "noon"}], "no time"),
        parcel_of([{"event_time": "2026-11-15T12:00:00"}], "naive"),
        parcel_of([7], "no object"),
        replace(parcel("no text", 1), payload=b'[{"key": "half a pair: \\ud800"}]'),
        replace(parcel("no JSON", 1), payload=b"[{]"),
    ]
    assert refusals(sink, parcel("good"), *wrong, parcel("fine", lane=1)).keys() == {one.id for one in wrong}
    assert {row[0] for row in rows(database, table)} == {"good", "fine"}


def make_table(database: str, table: str, more: str, collation: str = "utf8mb4_bin") -> None:
    """A table of a user's own."""
    collated = f" CHARACTER SET utf8mb4 COLLATE {collation}" if database.startswith("mysql") else ""
    texts = ", ".join(
        f'"{name}" VARCHAR(1000)' for name in ("key", "type", "event_time", "receive_time", "measurement")
    )
    run(
        database,
        f'CREATE TABLE "{table}" (id INTEGER, parcel VARCHAR(100){collated}, place INTEGER, {texts}, '
        f"value DOUBLE PRECISION CHECK (value < 100){more})",
    )


def test_a_constraint_of_the_users_refuses_a_parcel_by_itself(database: str, table: str, make: Make) -> None:
    make_table(database, table, ", UNIQUE (place, parcel)")
    answer = refusals(make(table), parcel("good"), parcel("hot", 1, lane=1, value=100.5))
    assert list(answer) == ["hot"]
    assert "the table does not take it" in answer["hot"]
    assert [row[1] for row in rows(database, table)] == ["good"] * 3


def test_a_text_that_is_too_long_for_the_users_column_is_refused_and_not_cut(
    database: str, table: str, make: Make
) -> None:
    make_table(database, table, ", UNIQUE (place, parcel)")
    refused = refusals(make(table), parcel("long", 1, key="x" * 1001))
    # SQLite's columns have no length.
    assert list(refused) == ([] if database.startswith("sqlite") else ["long"])


# Tables


@pytest.mark.parametrize("name", ['a "b"', "`c`", "100%s", "select", "Größe", "x'; --"])
def test_a_table_may_have_any_name(database: str, make: Make, name: str) -> None:
    sink = make(name)
    sink.send([parcel()])
    assert len(sink._table.columns()) == 8


def test_a_table_may_be_named_with_its_schema(database: str, table: str, make: Make) -> None:
    schema = {"sqlite": "main", "postgresql": "public"}.get(database.partition(":")[0]) or read_address(database).path
    make(f"{schema}.{table}").send([parcel()])
    assert len(rows(database, table)) == 3


def test_a_table_that_lacks_columns_is_refused_by_their_names(database: str, table: str, make: Make) -> None:
    run(database, f'CREATE TABLE "{table}" (parcel INTEGER, place INTEGER, type INTEGER)')
    with pytest.raises(InvalidSink, match=f"{table}.* lacks the columns key, event_time, receive_time, value, measure"):
        make(table)


@pytest.mark.parametrize("key", ["", ", UNIQUE (parcel)", ", UNIQUE (parcel, place, id)"])
def test_a_table_without_a_key_over_parcel_and_place_is_refused(
    database: str, table: str, make: Make, key: str
) -> None:
    make_table(database, table, key)
    with pytest.raises(InvalidSink, match=r"(?i)unique"):
        make(table)


def test_a_table_that_does_not_tell_capital_letters_from_small_ones_is_refused(
    mariadb_database: str, table: str
) -> None:
    make_table(mariadb_database, table, ", UNIQUE (parcel, place)", "utf8mb4_general_ci")
    with pytest.raises(InvalidSink, match="must tell A from a"):
        SqlSink(mariadb_database, table=table)


@pytest.mark.parametrize("name", ["", "a.b.c", "a\nb", ".a", 7])
def test_what_is_no_name_is_refused(database: str, make: Make, name: Any) -> None:
    with pytest.raises(InvalidSink, match=r"expected a name, or schema\.name"):
        make(name)


def test_fields_must_be_of_known_columns(make: Make) -> None:
    with pytest.raises(InvalidSink, match="did you mean 'event_time'"):
        make("t", fields={"event_tim": "t"})
    with pytest.raises(InvalidSink, match="must be a name"):
        make("t", fields={"key": 7})


# Servers


def test_a_table_that_is_gone_is_undelivered(database: str, table: str, make: Make) -> None:
    sink = make(table)
    run(database, f'DROP TABLE "{table}"')
    with pytest.raises(Undelivered):
        sink.send([parcel()])


def test_a_connection_that_was_ended_is_renewed(postgresql_database: str) -> None:
    sink = SqlSink(postgresql_database)
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    run(postgresql_database, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
    assert sink.send([parcel()]) == {}
    asyncio.run(sink.close())
    assert len(rows(postgresql_database, "measurements")) == 3


def test_several_may_make_the_table_at_once(database: str, table: str) -> None:
    async def making() -> None:
        sinks = await asyncio.gather(*(asyncio.to_thread(SqlSink, database, table=table) for _ in range(6)))
        for sink in sinks:
            await sink.close()

    asyncio.run(making())
    assert rows(database, table) == []


def test_a_server_that_is_not_there_is_unavailable_without_its_password() -> None:
    with pytest.raises(StoreUnavailable) as caught:
        SqlSink("postgresql://me:s3cret@127.0.0.1:1/db")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("address", ["memory://", "postgrsql://host/db", "redis://host"])
def test_what_is_no_database_is_refused(address: str) -> None:
    with pytest.raises(InvalidSink, match="expected the address of a database"):
        SqlSink(address)
