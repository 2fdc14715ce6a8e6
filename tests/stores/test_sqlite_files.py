"""The files of a SQLite store: only their owner may read them, from the first moment."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchline import Tracker, open_store
from batchline.errors import StoreError, StoreUnavailable
from batchline.runtime.clock import elapsed_seconds
from batchline.stores import connections
from batchline.stores.address import read_address
from batchline.stores.opening import find_store
from batchline.stores.sqlite import store as sqlite_store


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """Forbid nothing by the umask."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


def test_all_files_of_a_new_store_are_its_owners_only(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'b.db'}") as store:
        Tracker(store).open("a")
        assert {path.name: mode(path) for path in tmp_path.iterdir()} == dict.fromkeys(
            ("b.db", "b.db-wal", "b.db-shm"), "0o600"
        )


def test_the_file_is_the_owners_only_before_sqlite_opens_it(tmp_path: Path) -> None:
    program = """
import os, sys
from batchline import open_store

os.umask(0)
path = sys.argv[1]
sys.addaudithook(lambda event, _: event == "sqlite3.connect" and print(oct(os.stat(path).st_mode)))
open_store(f"sqlite:///{path}").close()
"""
    command = [sys.executable, "-c", program, str(tmp_path / "b.db")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.stderr == ""
    assert set(ended.stdout.split()) == {"0o100600"}


def test_an_existing_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    path.touch()
    path.chmod(0o640)
    with open_store(f"sqlite:///{path}") as store:
        Tracker(store).open("a")
        assert {mode(path) for path in tmp_path.iterdir()} == {"0o640"}


def test_a_link_leads_to_a_file_that_is_its_owners_only(tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to("real.db")
    open_store(f"sqlite:///{link}").close()
    assert link.is_symlink()
    assert mode(tmp_path / "real.db") == "0o600"
    circle = tmp_path / "circle.db"
    circle.symlink_to("circle.db")
    with pytest.raises(StoreError, match="unable to open database file"):
        open_store(f"sqlite:///{circle}")


@pytest.mark.parametrize("name", ["a b%20c?mode=ro#.db", "ä'\".db", "file:x.db"])
def test_a_name_with_special_characters_is_taken_as_it_is(tmp_path: Path, name: str) -> None:
    quoted = name.replace("%", "%25").replace("?", "%3F").replace("#", "%23")
    with open_store(f"sqlite:///{tmp_path}/{quoted}") as store:
        Tracker(store).open("a")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_looking_makes_no_file(tmp_path: Path) -> None:
    with find_store(read_address(f"sqlite:///{tmp_path / 'b.db'}")) as store:
        assert store.version() == 0
        with pytest.raises(StoreError, match="unable to open database file"):
            open_store(f"sqlite:///{tmp_path / 'no' / 'b.db'}")
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_ends_waits_for_a_locked_file_for_a_short_while_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "BUSY_S", 0.05)
    monkeypatch.setattr(connections, "HURRIED_S", 0.1)
    with open_store(f"sqlite:///{tmp_path / 'b.db'}") as store, open_store(f"sqlite:///{tmp_path / 'b.db'}") as other:
        store.hurry()
        began_s = elapsed_seconds()

        def while_locked(_: object) -> None:
            with pytest.raises(StoreUnavailable, match="database is locked"):
                Tracker(store).open("a")

        other.transact(while_locked)
        assert elapsed_seconds() - began_s < 60  # patience is 120 s
