"""`batchline fanout`: a command for each verb of the tracker, for people and for programs."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from batchline import ExpiryRules, Tracker, open_store
from batchline.cli import fanout as commands
from batchline.cli import screen
from tests.cli.conftest import Call, Said
from tests.cli.conftest import on_terminal as terminal

NAMES = ("open", "add", "seal", "ack", "fail", "status", "list", "pending", "failed", "expire")
Ask = Callable[..., Any]


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store of this test only, named by the environment."""
    url = f"sqlite:///{tmp_path}/store.db"
    monkeypatch.setenv("BATCHLINE_STORE", url)
    return url


@pytest.fixture
def fanout(batchline: Call) -> Call:
    """`fanout("open", "a")`."""
    return lambda *words: batchline("fanout", *words)


@pytest.fixture
def ask(fanout: Call) -> Ask:
    """The same with `--json`: what it answered, read."""

    def call(*words: object) -> Any:
        said = fanout(*words, "--json")
        assert said.err == ""
        return json.loads(said.out)

    return call


@pytest.fixture
def items(fanout: Call) -> list[str]:
    """The items of an open fanout `a`, which tolerates one failure."""
    assert fanout("open", "a", "--tolerate", 1, "--label", "job=import").code == 0
    return fanout("add", "a", 100, "--items").out.splitlines()


def run(*words: object, stdin: str | None = None) -> Said:
    """The command as a process of its own."""
    command = [sys.executable, "-m", "batchline", "fanout", *map(str, words)]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True)
    return Said(done.returncode, done.stdout, done.stderr)


def on_terminal(*words: object, columns: int = 100) -> str:
    """What a person sees, without the colours."""
    return terminal("fanout", *words, columns=columns)


# --- the story --------------------------------------------------------------------------------------------------------


def test_from_open_to_complete_in_pipes(store: str) -> None:
    assert run("open", "import-2026", "--label", "job=import") == Said(0, "import-2026\n", "")
    added = run("add", "import-2026", 1000, "--items")
    ids = added.out.splitlines()
    assert (added.code, added.err, len(set(ids))) == (0, "", 1000)
    assert run("ack", "--file", "-", stdin="\n".join(ids[:999])) == Said(0, "999 items done\n", "")
    assert run("seal", "import-2026") == Said(0, "import-2026 is sealed, 1 of 1,000 items pending\n", "")
    assert run("pending", "import-2026") == Said(0, f"{ids[999]}\n", "")
    complete = "✓ import-2026 is complete: all 1,000 items are done\n"
    assert run("ack", ids[999]) == Said(0, f"1 item done\n{complete}", "")
    assert run("ack", ids[999]) == Said(0, "0 items done, 1 done before\n", "")
    with open_store(store) as opened:
        assert Tracker(opened).status("import-2026").labels == {"job": "import"}


def test_on_postgresql(postgresql_database: str, ask: Ask) -> None:
    where = ("--store", postgresql_database)
    assert ask("open", "a", "--label", "job=import", *where)["state"] == "open"
    ids = ask("add", "a", 70, "--items", *where)["items"]
    assert ask("fail", *ids[:2], "--reason", "no", *where)["failed"] == ["a"]
    assert ask("ack", *ids, *where)["changed"] == 68
    assert [one["id"] for one in ask("list", "--label", "job=import", *where)["fanouts"]] == ["a"]
    assert ask("failed", "a", *where)["items"][1]["id"] == ids[1]
    assert ask("expire", "a", *where)["expired"] == ["a"]


def test_a_seal_that_completes_says_so(fanout: Call, ask: Ask, items: list[str]) -> None:
    fanout("ack", *items)
    assert fanout("seal", "a").out == "✓ a is complete: all 100 items are done\n"
    assert ask("open", "b")["id"] == "b"
    assert ask("seal", "b") == {"fanout": "b", "completed": True, "parents_completed": [], "parents_failed": []}
    assert ask("seal", "b")["completed"] is False


def test_a_child_completes_its_parent(fanout: Call, ask: Ask) -> None:
    fanout("open", "all")
    fanout("open", "part", "--parent", "all")
    assert fanout("seal", "all").out == "all is sealed, 1 of 1 item pending\n"
    said = fanout("seal", "part").out.splitlines()
    assert said == ["✓ part is complete: it has no items", "✓ all is complete: its one item is done"]
    assert ask("status", "part")["parent"] == "all"


def test_a_fanout_that_fails_says_so_once(fanout: Call, ask: Ask, items: list[str]) -> None:
    assert fanout("fail", items[0], "--reason", "first").out == "1 item failed\n"
    said = fanout("fail", items[1], "--reason", "second").out.splitlines()
    assert said == ["1 item failed", "✗ a has failed: 2 of 100 items failed, 1 is tolerated"]
    answer = ask("fail", items[2], "--reason", "third")
    assert answer == {"changed": 1, "repeated": 0, "completed": [], "failed": [], "errors": []}


def test_tolerated_failures_are_named_at_the_end(fanout: Call, items: list[str]) -> None:
    fanout("fail", items[0], "--reason", "no")
    fanout("seal", "a")
    assert fanout("ack", *items[1:]).out.splitlines()[1] == "✓ a is complete: 99 items done, 1 failed and tolerated"


# --- opening ----------------------------------------------------------------------------------------------------------


def test_without_an_id_it_gets_one(fanout: Call, ask: Ask) -> None:
    (id,) = fanout("open", "--tolerate", "any").out.splitlines()
    assert ask("status", id)["tolerate"] is None


def test_opening_again_in_another_way_is_refused(fanout: Call, items: list[str]) -> None:
    assert fanout("open", "a", "--tolerate", 1, "--label", "job=import").code == 0
    for words in (["--tolerate", 2], ["--expire-sealed", "1h"], ["--tombstone", "1h"]):
        said = fanout("open", "a", "--label", "job=import", *words)
        assert (said.code, said.out) == (1, "")
        assert "fanout 'a' is there" in said.err


def test_only_open_and_migrate_make_a_store(fanout: Call, tmp_path: Path) -> None:
    for words in (["status", "a"], ["list"], ["add", "a", 1], ["ack", "a"], ["expire"]):
        said = fanout(*words, "--store", f"sqlite:///{tmp_path}/none.db")
        assert (said.code, said.out) == (1, "")
        assert "none.db is not there" in said.err
    assert not (tmp_path / "none.db").exists()


def test_the_store_is_a_file_beside_you_unless_you_say_otherwise(
    fanout: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BATCHLINE_STORE")
    monkeypatch.chdir(tmp_path)
    fanout("open", "a")
    assert (tmp_path / "batchline.db").exists()


def test_an_option_goes_before_the_environment(fanout: Call, tmp_path: Path) -> None:
    fanout("open", "a", "--store", f"sqlite:///{tmp_path}/other.db")
    assert fanout("status", "a", "--store", f"sqlite:///{tmp_path}/other.db").code == 0
    assert not (tmp_path / "store.db").exists()


# --- adding -----------------------------------------------------------------------------------------------------------


def test_in_a_pipe_a_group_is_a_line_that_ack_reads(fanout: Call, ask: Ask, tmp_path: Path) -> None:
    fanout("open", "a: b\u2028c")
    lines = fanout("add", "a: b\u2028c", 130).out.rstrip("\n").split("\n")
    assert [line.split("\t")[1] for line in lines] == ["64", "64", "2"]
    (tmp_path / "groups").write_text("\n".join(lines) + "\n")
    assert ask("ack", "--file", tmp_path / "groups")["changed"] == 130
    assert ask("status", "a: b\u2028c")["pending"] == 0


def test_a_repeated_add_gives_the_same_groups(ask: Ask, items: list[str]) -> None:
    first = ask("add", "a", 100, "--add-id", "page-1")
    assert first == ask("add", "a", 100, "--add-id", "page-1")
    assert [group["upto"] for group in first["groups"]] == [64, 36]
    assert ask("status", "a")["total"] == 200


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "a", 0), "expected 1 to 10,000,000 items in one call, got 0"),
        (("add", "a", 10_000_001), "expected 1 to 10,000,000 items in one call"),
        (("add", "b", 1), "no fanout 'b' is open"),
        (("seal", "b"), "no fanout 'b' is open"),
        (("status", "b"), "no fanout 'b' is open"),
        (("pending", "b"), "no fanout 'b' is open"),
        (("failed", "b"), "no fanout 'b' is open"),
        (("expire", "b"), "no fanout 'b' is open"),
        (("list", "--parent", "b"), "no fanout 'b' is open"),
        (("open", "c", "--parent", "b"), "no fanout 'b' is open"),
        (("open", "x" * 256), "must have 1 to 255 characters, got 256"),
        (("open", "c", "--expire-sealed", "0s"), "sealed must be longer than 0"),
        (("pending", "a", "--after", "nonsense"), "expected fanout:uuid:index"),
    ],
)
def test_what_is_refused_is_said_in_a_sentence(
    fanout: Call, items: list[str], words: tuple[object, ...], said: str
) -> None:
    answer = fanout(*words)
    assert (answer.code, answer.out) == (1, "")
    assert said in answer.err
    assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("open", "c", "--tolerate", "many"), "expected a number of items, or any, got 'many'"),
        (("open", "c", "--label", "job"), "expected a pair such as job=import, got 'job'"),
        (("open", "c", "--label", "k=1", "--label", "k=2"), "'k' is given twice"),
        (("open", "c", "--expire-sealed", "soon"), "expected a span such as 500ms"),
        (("add", "a", "many"), "integer"),
        (("ack",), "name at least one item, or give --file"),
        (("ack", "--file", "nowhere"), "No such file"),
        (("fail", "x"), "--reason"),
        (("list", "--state", "seald"), "'sealed'"),
        (("pending", "a", "--limit", 0), "--limit"),
    ],
)
def test_a_wrong_command_line_is_exit_code_2(
    fanout: Call, items: list[str], words: tuple[object, ...], said: str
) -> None:
    answer = fanout(*words)
    assert (answer.code, answer.out) == (2, "")
    assert said in re.sub(r"\s*│\n│\s*", " ", answer.err)


# --- acknowledging ----------------------------------------------------------------------------------------------------


def test_the_good_items_count_and_the_others_are_named(fanout: Call, ask: Ask, items: list[str]) -> None:
    unknown = items[0].replace("a:", "b:", 1)
    beyond = items[99].rpartition(":")[0] + ":63"
    said = run("ack", "non\x1bsense", unknown, items[0], beyond)
    assert (said.code, said.out) == (1, "1 item done\n")
    assert [line.split(": ")[0] for line in said.err.splitlines()] == ["non\\x1bsense", unknown, beyond]
    answer = fanout("ack", unknown, items[0], "--json")
    assert (answer.code, answer.err) == (1, "")
    (error,) = json.loads(answer.out)["errors"]
    assert error == {"item": unknown, "error": "UnknownFanout", "message": "no fanout 'b' is open"}
    assert ask("status", "a")["acked"] == 1


def test_a_file_and_arguments_together_with_empty_lines(ask: Ask, items: list[str], tmp_path: Path) -> None:
    (tmp_path / "ids").write_bytes(f"\n{items[0]}\r\n\n{items[1]}".encode())
    assert ask("ack", items[2], "--file", tmp_path / "ids")["changed"] == 3


def test_bytes_that_are_no_text_are_an_error_of_their_line(fanout: Call, items: list[str], tmp_path: Path) -> None:
    (tmp_path / "ids").write_bytes(b"a:\xff:0\n" + items[0].encode())
    said = fanout("ack", "--file", tmp_path / "ids")
    assert (said.code, said.out) == (1, "1 item done\n")
    assert said.err.count("\n") == 1


def test_a_group_that_cannot_be_is_named_as_it_was_given(fanout: Call, items: list[str], tmp_path: Path) -> None:
    group = items[99].rpartition(":")[0]
    (tmp_path / "groups").write_text(f"{group}\t64\n{group}\t65\n")
    said = fanout("ack", "--file", tmp_path / "groups")
    assert (said.code, said.out) == (1, "36 items done\n")
    assert [line.split(": ")[0] for line in said.err.splitlines()] == [f"{group}\\t65", f"{group}\\t64"]


def test_a_repeated_call_is_told_the_same(ask: Ask, items: list[str]) -> None:
    ask("seal", "a", "--call-id", "s")
    for _ in range(2):
        assert ask("ack", *items, "--call-id", "last")["completed"] == ["a"]
    assert ask("ack", *items, "--call-id", "another")["completed"] == []
    ask("open", "b")
    for _ in range(2):
        assert ask("seal", "b", "--call-id", "t")["completed"] is True


# --- looking ----------------------------------------------------------------------------------------------------------


def test_status_for_programs(ask: Ask, items: list[str]) -> None:
    ask("fail", items[0], "--reason", "no")
    ask("ack", *items[1:40])
    status = ask("status", "a")
    counts = {name: status[name] for name in ("state", "total", "acked", "failed", "pending", "tolerate", "labels")}
    assert counts == {
        "state": "open",
        "total": 100,
        "acked": 39,
        "failed": 1,
        "pending": 60,
        "tolerate": 1,
        "labels": {"job": "import"},
    }
    assert status["opened_at"].endswith("+00:00")
    assert status["sealed_at"] is None


def test_status_for_people(fanout: Call, items: list[str]) -> None:
    fanout("fail", items[0], "--reason", "no")
    fanout("ack", *items[1:40])
    piped = fanout("status", "a").out
    assert "╭" not in piped
    for columns in (100, 60):
        seen = on_terminal("status", "a", columns=columns)
        assert {len(line) for line in seen.splitlines()} == {columns}
        for words in ("─ a · open ─", "40.0 %", "acked", "39", "60.0 %", "so far", "1 failed item", "job=import"):
            assert words in seen
    assert "█" * 5 in piped
    assert piped.count("▚") == 2  # in the bar, and beside its count


def test_lists_in_pages(fanout: Call, ask: Ask) -> None:
    for name in ("a", "b", "c"):
        fanout("open", name, "--label", f"name={name}", "--label", "all=1")
    page = ask("list", "--limit", 2)
    assert [one["id"] for one in page["fanouts"]] == ["a", "b"]
    assert [one["id"] for one in ask("list", "--after", page["next"])["fanouts"]] == ["c"]
    assert [one["id"] for one in ask("list", "--label", "all=1", "--label", "name=b")["fanouts"]] == ["b"]
    assert ask("list", "--older-than", "1h") == {"fanouts": [], "next": None}
    said = fanout("list", "--limit", 2)
    assert [line.split("\t")[:6] for line in said.out.splitlines()] == [[name, "open", *"0000"] for name in "ab"]
    assert said.err == f"more with --after {page['next']}\n"
    assert fanout("list", "--state", "failed") == Said(0, "", "no such fanout\n")


def test_a_list_on_a_terminal_fits_it(fanout: Call, items: list[str]) -> None:
    fanout("ack", *items[:50])
    long = "a very long name of a fanout [red] " * 5
    fanout("open", long)
    for columns in (60, 80, 120):
        seen = on_terminal("list", columns=columns)
        assert max(map(len, seen.splitlines())) <= columns
        assert re.search(r"^a +open +█+░+ +50.0 % .*\b50\b", seen, re.MULTILINE)
        assert seen.count("[red]") == 5
    assert "job=import" in seen


def test_pending_and_failed_items_in_pages(fanout: Call, ask: Ask, items: list[str]) -> None:
    page = ask("pending", "a", "--limit", 60)
    rest = ask("pending", "a", "--limit", 60, "--after", page["next"])
    assert page["items"] + rest["items"] == items
    assert rest["next"] is None
    fanout("fail", items[3], "--reason", "first\nline\x1b[2J")
    fanout("fail", items[1], "--reason", "[red]")
    assert fanout("failed", "a").out == f"{items[1]}\t[red]\n{items[3]}\tfirst\\nline\\x1b[2J\n"
    assert [item["reason"] for item in ask("failed", "a")["items"]] == ["[red]", "first\nline\x1b[2J"]
    assert ask("failed", "a", "--limit", 1)["next"] == items[1]
    seen = on_terminal("failed", "a")
    assert "[red]" in seen
    assert "first\\nline\\x1b[2J" in seen
    fanout("open", "b")
    assert fanout("pending", "b") == Said(0, "", "nothing is pending\n")
    assert fanout("failed", "b") == Said(0, "", "nothing has failed\n")


def test_many_groups_do_not_flood_a_terminal(fanout: Call) -> None:
    fanout("open", "a")
    seen = on_terminal("add", "a", 10_000)
    assert "10,000 items of a in 157 groups" in seen
    assert "… 153 more" in seen
    assert len(seen.splitlines()) == 7
    assert len(on_terminal("add", "a", 100, "--items").splitlines()) == 100
    assert "1 item of a in 1 group\n" in on_terminal("add", "a", 1)


# --- expiring ---------------------------------------------------------------------------------------------------------


def test_expire_takes_what_is_due_and_shows_it(fanout: Call, ask: Ask, items: list[str]) -> None:
    fanout("open", "parent")
    for number in range(120):
        with open_store(os.environ["BATCHLINE_STORE"]) as opened:
            Tracker(opened).open(f"old-{number}", parent="parent", expiry=ExpiryRules(*3 * [timedelta(microseconds=1)]))
    fanout("seal", "parent")
    said = fanout("expire")
    assert said.code == 0
    assert said.out.count("expired old-") == 120
    assert "✗ parent has failed: 120 of 120 items failed, none is tolerated" in said.out
    assert said.out.count("parent") == 1
    assert ask("status", "a")["state"] == "open"


def test_a_late_ack_is_answered_expired(fanout: Call, items: list[str]) -> None:
    assert fanout("expire", "a").out == "expired a\n"
    assert fanout("expire", "a").out == "a had expired before\n"
    assert fanout("expire").out == "nothing was due\n"
    said = fanout("ack", items[0])
    assert (said.code, said.out) == (1, "0 items done\n")
    assert "fanout 'a' expired at" in said.err


# --- the command itself -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_help_has_examples_and_no_password(fanout: Call, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCHLINE_STORE", "postgresql://me:secret@host/name")
    said = fanout(name, "--help")
    assert said.code == 0
    assert f"batchline fanout {name}" in said.out.split("Examples")[1]
    assert "secret" not in said.out


def test_every_verb_has_a_command() -> None:
    assert {command.name or command.callback.__name__ for command in commands.app.registered_commands} == {*NAMES}  # type: ignore[union-attr]


def test_no_driver_is_loaded_before_it_is_needed() -> None:
    program = (
        "import sys, batchline.cli; print([m for m in ('sqlite3', 'psycopg', 'pymysql', 'redis') if m in sys.modules])"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


def test_a_reader_that_has_seen_enough_is_no_error(fanout: Call) -> None:
    fanout("open", "a")
    for words in ("--items", "--json"):
        command = f"{sys.executable} -m batchline fanout add a 1000000 {words} | head -1"
        done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("counts", "bar"),
    [((0, 0, 0), ""), ((1, 0, 0), "aaaaaaaaaa"), ((999, 1, 0), "aaaaaaaaab"), ((1, 1, 998), "abcccccccc")],
)
def test_a_bar_shows_whatever_is_there(counts: tuple[int, ...], bar: str) -> None:
    assert screen.shares(zip(counts, "abc", ("red",) * 3, strict=True), 10).plain == bar


def test_a_complete_fanout_puts_its_message_on_a_topic(
    batchline: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BATCHLINE_STORE", f"sqlite:///{tmp_path}/own.db")
    batchline("topic", "create", "reports")
    assert batchline("fanout", "open", "nightly", "--on-complete", "reports", "--body", "all imported").code == 0
    batchline("fanout", "seal", "nightly")
    (line,) = batchline("lease", "reports").out.splitlines()
    assert line.split("\t")[1:] == ["nightly", "1", "all imported"]
