"""`batchline migrate`: a schema brought up to date, by any number of processes at once."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from batchline import open_store
from batchline.stores.address import read_address
from tests.cli.conftest import Call


def test_it_says_which_migrations_ran_and_then_that_it_is_up_to_date(tmp_path: Path, batchline: Call) -> None:
    store = f"sqlite:///{tmp_path}/new.db"
    said = batchline("migrate", "--store", store)
    assert (said.code, said.err) == (0, "")
    assert "✓ 0001_tracker" in said.out
    assert "is now at version" in said.out
    said = batchline("migrate", "--store", store)
    assert (said.code, said.out) == (0, f"{store} is up to date, at version {_version(store)}\n")


def _version(store: str) -> int:
    with open_store(store) as opened:
        return opened.version()


def test_json_names_the_migrations_and_no_password(postgresql_database: str, batchline: Call) -> None:
    answers = [json.loads(batchline("migrate", "--store", postgresql_database, "--json").out) for _ in range(2)]
    assert answers[0]["migrated"][0] == "0001_tracker"
    assert answers[1]["migrated"] == []
    assert answers[0]["version"] == answers[1]["version"] == len(answers[0]["migrated"])
    assert answers[0]["store"] == read_address(postgresql_database).shown


def test_several_at_once_migrate_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "batchline", "migrate", "--store", f"sqlite:///{tmp_path}/new.db", "--json"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(6)]
    said = [(*process.communicate(), process.returncode) for process in running]
    assert [(err, code) for _, err, code in said] == [("", 0)] * 6
    ran = [json.loads(out)["migrated"] for out, _, _ in said]
    assert sum("0001_tracker" in names for names in ran) == 1


@pytest.mark.parametrize("words", [("migrate",), ("fanout", "open", "a"), ("fanout", "status", "a")])
def test_a_newer_schema_is_refused(tmp_path: Path, batchline: Call, words: tuple[str, ...]) -> None:
    path = tmp_path / "new.db"
    assert batchline("migrate", "--store", f"sqlite:///{path}").code == 0
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO batchline_migrations (number, name) VALUES (9999, 'from_the_future')")
    connection.close()
    said = batchline(*words, "--store", f"sqlite:///{path}")
    assert (said.code, said.out) == (1, "")
    assert "the store's schema has version 9999" in said.err


@pytest.mark.parametrize(
    ("store", "said"),
    [
        ("memory://", "would be gone with this command"),
        ("sqlite:///{tmp}/no/such/directory/x.db", "unable to open database file"),
        ("sqlight:///x.db", "did you mean 'sqlite'?"),
        ("redis://localhost", "Redis keeps estimates and leases only"),
        ("x.db", "expected the address of a store"),
    ],
)
def test_what_is_no_store_is_refused(tmp_path: Path, batchline: Call, store: str, said: str) -> None:
    answer = batchline("migrate", "--store", store.format(tmp=tmp_path))
    assert (answer.code, answer.out) == (1, "")
    assert said in answer.err
    assert "Traceback" not in answer.err
