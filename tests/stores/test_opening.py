"""From an address to a store, or to an error that says what is wrong with it."""

from pathlib import Path

import pytest

from batchline import Tracker, open_store
from batchline.errors import InvalidStore, SchemaMismatch, StoreError, StoreUnavailable
from batchline.stores.memory import MemoryStore
from batchline.stores.sqlite.store import SqliteStore


def test_each_scheme_opens_its_store(tmp_path: Path, postgresql_database: str, mariadb_database: str) -> None:
    urls = {
        "memory://": "MemoryStore",
        f"sqlite:///{tmp_path / 'b.db'}": "SqliteStore",
        postgresql_database: "PostgresStore",
        postgresql_database.replace("postgresql://", "postgres://"): "PostgresStore",
        mariadb_database: "MysqlStore",
        mariadb_database.replace("mysql://", "mariadb://"): "MysqlStore",
    }
    for url, kind in urls.items():
        with open_store(url) as store:
            assert (type(store).__name__, store.url) == (kind, url)
            assert Tracker(store).seal(Tracker(store).open().id).completed


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgress://h/n", r"expected a store such as memory://.*; got postgress://; did you mean 'postgresql'\?"),
        ("sqlit:///b.db", r"got sqlit://; did you mean 'sqlite'\?"),
        ("oracle://h/n", "expected a store such as memory://.*; got oracle://"),
        ("redis://h/0", "Redis keeps estimates and leases only: EstimateStore and open_leases take its address"),
        ("memory://host", "expected memory:// alone, got memory://host/"),
        ("memory:///path", "expected memory:// alone, got memory:///path"),
        ("memory://?synchronous=full", "memory:// takes the options none, got 'synchronous'"),
        ("sqlite://b.db", r"expected sqlite:///file.db \(memory:// for none\), got sqlite://b.db/"),
        ("sqlite://", "expected sqlite:///file.db"),
        ("sqlite:///:memory:", "expected sqlite:///file.db"),
        ("sqlite:///b.db?synchronus=full", "did you mean 'synchronous'"),
        ("sqlite:///b.db?synchronous=off", "synchronous must be one of 'normal', 'full', got 'off'"),
        ("mysql://h", "expected mysql://user:password@host/name, got mysql://h/ without a name"),
        ("mysql://h/n?connections=0", "connections in the store's address must be at least 1, got 0"),
        ("mysql://h/n?connections=many", "connections in the store's address: .*'many'"),
        ("mysql://h/n?patience=5", "patience in the store's address: expected a span such as .*, got '5'"),
        ("postgresql://h/n?connections=-1", "connections in the store's address must be at least 1, got -1"),
        ("postgresql://h/n?sslmod=require", "postgresql://h/n: .*sslmod"),
    ],
)
def test_an_address_that_names_no_store_is_refused(
    url: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidStore, match=said):
        open_store(url)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_a_server_that_never_answered_is_not_waited_for(scheme: str) -> None:
    with pytest.raises(StoreUnavailable, match=rf"(?s){scheme}://me@127.0.0.1:1/n: .*\(tried for 0\.\d s\)") as raised:
        open_store(f"{scheme}://me:secret@127.0.0.1:1/n")
    assert "secret" not in str(raised.value)


def test_a_file_that_cannot_be_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=rf"SQLite file {tmp_path}/none/b.db: unable to open"):
        open_store(f"sqlite:///{tmp_path}/none/b.db")
    (tmp_path / "text").write_text("This is no database, but long enough to be looked at. " * 20)
    with pytest.raises(StoreError, match="file is not a database"):
        open_store(f"sqlite:///{tmp_path}/text")


def test_without_migrations_an_older_schema_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'b.db'}"
    with pytest.raises(SchemaMismatch, match=r"lacks 0001_tracker.*: run batchline migrate"):
        open_store(url, migrate=False)
    open_store(url).close()
    with open_store(url, migrate=False) as store:
        assert Tracker(store).list().fanouts == ()


def test_stores_of_one_file_see_each_other_and_those_in_memory_do_not(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'with space.db'}"
    with open_store(url) as one, open_store(url) as other:
        fanout = Tracker(one).open().id
        assert Tracker(other).status(fanout).id == fanout
        assert isinstance(other, SqliteStore)
    with open_store("memory://") as one, open_store("memory://") as other:
        Tracker(one).open()
        assert Tracker(other).list().fanouts == ()
        assert isinstance(other, MemoryStore)
