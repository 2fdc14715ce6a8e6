"""The timeline's commands: topics, messages, leases and the load, for people and for programs."""

import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from batchline import NewMessage, Timeline, open_store, read_lease
from batchline.cli import load_screen, message_lines
from batchline.core.future_load import Bin, Load
from batchline.runtime.publisher import make_topics
from tests.cli.conftest import Call, Said, on_terminal
from tests.waiting import wait_until

NAMES = ("put", "move", "cancel", "message", "messages", "lease", "extend", "release", "done", "leases", "load")
TOPIC_NAMES = ("create", "update", "delete", "list", "show")
Ask = Callable[..., list[Any]]


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store of this test only, named by the environment."""
    url = f"sqlite:///{tmp_path}/store.db"
    monkeypatch.setenv("BATCHLINE_STORE", url)
    return url


@pytest.fixture
def parcels(batchline: Call) -> None:
    """A topic."""
    assert batchline("topic", "create", "parcels").code == 0


@pytest.fixture
def ask(batchline: Call) -> Ask:
    """A command with `--json`: its lines, read."""

    def call(*words: object) -> list[Any]:
        return [json.loads(line) for line in batchline(*words, "--json").out.splitlines()]

    return call


def run(*words: object, stdin: str | bytes = "") -> Said:
    """The command as a process of its own."""
    command = [sys.executable, "-m", "batchline", *map(str, words)]
    given = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(command, input=given, capture_output=True)
    return Said(done.returncode, done.stdout.decode(), done.stderr.decode())


def lines_of(*messages: dict[str, Any]) -> str:
    return "".join(f"{json.dumps(one)}\n" for one in messages)


def timeline() -> Timeline:
    return Timeline(open_store(os.environ["BATCHLINE_STORE"]))


# --- the story --------------------------------------------------------------------------------------------------------


def story(*where: str) -> None:
    """From a topic to messages that are done, in pipes."""
    assert run("topic", "create", "parcels", "--lease", "1m", *where) == Said(0, "parcels\n", "")
    assert run("put", "parcels", "--id", "a", "--body", "hello", *where) == Said(0, "a\n", "")
    later = lines_of({"id": "b", "in": "10m", "body": "x"}, {"id": "c", "at": "2026-01-01T00:00:00Z", "body": "y"})
    assert run("put", "parcels", "--file", "-", *where, stdin=later) == Said(0, "b\nc\n", "")
    leased = run("lease", "parcels", "--limit", 10, *where).out
    assert [line.split("\t")[1:] for line in leased.splitlines()] == [["c", "1", "y"], ["a", "1", "hello"]]
    extended = run("extend", "-", "--for", "2m", *where, stdin=leased).out
    assert run("done", "-", *where, stdin=leased).code == 1
    assert run("done", "-", *where, stdin=extended) == Said(0, "✓ 2 messages done\n", "")
    assert run("done", "-", *where, stdin=extended) == Said(0, "✓ 2 messages done\n", "")
    assert run("move", "parcels", "b", "--in", "0s", *where) == Said(0, "✓ 1 message moved\n", "")
    (line,) = run("lease", "parcels", "--json", *where).out.splitlines()
    assert json.loads(line)["body"] == "x"
    assert run("release", "-", "--in", "1h", "--reason", "why", *where, stdin=line).out == "✓ 1 message released\n"
    (held,) = json.loads(run("message", "parcels", "b", "--json", *where).out)["history"]
    assert (held["ending"], held["reason"], held["consumer"]) == ("released", "why", "cli")
    assert run("cancel", "parcels", "b", *where).code == 0
    assert json.loads(run("load", "parcels", "--json", *where).out)["counts"]["total"] == 0


def test_from_put_to_done_in_pipes() -> None:
    story()


def test_the_same_on_postgresql(postgresql_database: str) -> None:
    story("--store", postgresql_database)


def test_screens_on_postgresql(batchline: Call, postgresql_database: str) -> None:
    where = ("--store", postgresql_database)
    batchline("topic", "create", "parcels", *where)
    batchline("put", "parcels", "--id", "a", *where)
    assert batchline("put", "parcels", "--id", "a", "--body", "other", *where).code == 1
    for words in (["topic", "show", "parcels"], ["message", "parcels", "a"], ["load", "parcels"], ["lease", "parcels"]):
        assert batchline(*words, *where).code == 0
    assert batchline("messages", *where).out.startswith("a\tparcels\tprocessing\t")
    assert batchline("leases", *where).out.count("/parcels/a/cli\ta\t1\t") == 1
    assert batchline("messages", "--producer-group", "nobody", *where) == Said(0, "", "nobody has no message\n")


# --- topics -----------------------------------------------------------------------------------------------------------


def test_a_topic_has_the_rules_that_were_named(batchline: Call, ask: Ask) -> None:
    spans = ("--lease", "1m", "--longest-lease", "1h", "--max-ahead", "30d", "--keep", "1d")
    rules = ("--buckets", 16, "--rate-limit", 5, "--max-attempts", 3, "--dead-letter", "dead")
    (made,) = ask("topic", "create", "parcels", *spans, *rules)
    assert made == {
        "name": "parcels",
        "buckets": 16,
        "max_ahead": "30d",
        "lease": "1m",
        "longest_lease": "1h",
        "max_attempts": 3,
        "dead_letter": "dead",
        "rate_limit": 5.0,
        "keep": "1d",
        "deleted": False,
        "internal": False,
    }
    assert [one["name"] for one in ask("topic", "list")] == ["dead", "parcels"]
    assert batchline("topic", "list").out.splitlines()[1] == "parcels\t16\t30d\t1m\t3\tdead\t5"
    (changed,) = ask("topic", "update", "parcels", "--lease", "2m", "--no-dead-letter", "--no-rate-limit")
    assert changed == made | {"lease": "2m", "max_attempts": None, "dead_letter": None, "rate_limit": None}
    assert "is there with other rules" in batchline("topic", "create", "parcels").err


def test_a_topic_that_is_deleted_takes_no_more(batchline: Call, ask: Ask, parcels: None) -> None:
    batchline("put", "parcels")
    assert batchline("topic", "delete", "parcels").out == (
        "topic parcels takes no more messages, and its 1 message will be removed\n"
    )
    assert ask("topic", "delete", "parcels") == [{"name": "parcels", "deleted": True, "messages": 1}]
    assert "is being deleted" in batchline("put", "parcels").err
    assert ask("topic", "show", "parcels")[0]["deleted"] is True


def test_show_tells_of_messages_and_consumers(ask: Ask, parcels: None) -> None:
    timeline().heartbeat("parcels", "worker-1", messages_per_second=2.5)
    run("put", "parcels", "--in", "1h")
    (shown,) = ask("topic", "show", "parcels")
    assert shown["counts"] == {"waiting": 1, "processing": 0, "available": 0, "total": 1}
    (consumer,) = shown["consumers"]
    assert (consumer["consumer"], consumer["messages_per_second"]) == ("worker-1", 2.5)
    seen = on_terminal("topic", "show", "parcels")
    assert {len(line) for line in seen.splitlines()} == {100}
    for words in ("─ parcels ─", "waiting 1", "5m, at most 12h", "worker-1", "2.5"):
        assert words in seen


def test_topics_on_a_terminal_fit_it(batchline: Call, parcels: None) -> None:
    batchline("topic", "create", "a very long name [red] " * 8, "--max-attempts", 2, "--dead-letter", "dead")
    for columns in (60, 100):
        seen = on_terminal("topic", "list", columns=columns)
        assert max(map(len, seen.splitlines())) <= columns
        assert "parcels" in seen
    assert "✓ topic mails is there" in on_terminal("topic", "create", "mails")


def test_an_unknown_topic_is_named_with_the_one_it_looks_like(batchline: Call, parcels: None) -> None:
    for words in (["put", "parcles"], ["lease", "parcles"], ["load", "parcles"], ["topic", "show", "parcles"]):
        said = batchline(*words)
        assert (said.code, said.out) == (1, "")
        assert "there is no topic 'parcles': create it first; did you mean 'parcels'?" in said.err


def test_only_create_makes_a_store(batchline: Call, tmp_path: Path) -> None:
    for words in (["put", "a"], ["lease", "a"], ["topic", "list"], ["messages"], ["load", "a"]):
        said = batchline(*words, "--store", f"sqlite:///{tmp_path}/none.db")
        assert (said.code, said.out) == (1, "")
        assert "none.db is not there; batchline fanout open, batchline topic create, " in said.err
    assert not (tmp_path / "none.db").exists()


# --- putting ----------------------------------------------------------------------------------------------------------


def test_put_can_be_repeated_and_refuses_another_body(batchline: Call, ask: Ask, parcels: None) -> None:
    words = ("put", "parcels", "--id", "a", "--body", "x")
    assert ask(*words) == [{"id": "a", "outcome": "created", "ok": True, "reason": ""}]
    assert ask(*words)[0]["outcome"] == "exists"
    said = batchline("put", "parcels", "--id", "a", "--body", "y")
    assert (said.code, said.out) == (1, "")
    assert said.err == "a: conflict: there is a message of this id with another body\n"
    assert ask("put", "parcels", "--id", "a", "--producer-group", "other")[0]["outcome"] == "conflict"


def test_a_moment_is_a_time_or_a_span(ask: Ask, parcels: None) -> None:
    when = datetime.now(UTC).replace(microsecond=0) + timedelta(days=2)  # noqa: TID251 - as a user means it
    ask("put", "parcels", "--id", "a", "--at", when.astimezone().isoformat())
    ask("put", "parcels", "--id", "b", "--in", "48h", "--priority", 7)
    first, second = (ask("message", "parcels", id)[0] for id in "ab")
    assert datetime.fromisoformat(first["at"]) == when
    assert abs(datetime.fromisoformat(second["at"]) - when) < timedelta(minutes=1)
    assert (first["priority"], second["priority"], second["state"]) == (0, 7, "waiting")
    (far,) = ask("put", "parcels", "--in", "900d")
    assert (far["id"], far["outcome"]) == (None, "too_far")


def test_lines_take_what_they_lack_from_the_options(ask: Ask, parcels: None, tmp_path: Path) -> None:
    raw = bytes(range(256))
    new = (
        {"id": "a", "body": "text ✓", "priority": 2},
        {"id": "b", "body_base64": base64.b64encode(raw).decode(), "at": 1},
        {"in": "2h"},
    )
    (tmp_path / "new.jsonl").write_text("\ufeff" + lines_of(*new) + "\n\n")
    made = ask("put", "parcels", "--file", tmp_path / "new.jsonl", "--in", "1h", "--priority", -3)
    assert [one["outcome"] for one in made] == ["created"] * 3
    found = [ask("message", "parcels", one["id"])[0] for one in made]
    assert [one["priority"] for one in found] == [2, -3, -3]
    assert [one["state"] for one in found] == ["waiting", "available", "waiting"]
    assert (found[0]["body"], found[1]["body_base64"], found[2]["body"]) == ("text ✓", new[1]["body_base64"], "")
    command = [sys.executable, "-m", "batchline", "message", "parcels", "b", "--raw"]
    assert subprocess.run(command, capture_output=True).stdout == raw


def test_a_body_is_the_bytes_of_a_file(batchline: Call, parcels: None, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"\x00\xff\r\n")
    batchline("put", "parcels", "--id", "a", "--body-file", tmp_path / "body")
    assert timeline().read("parcels", "a", producer_group="cli").body == b"\x00\xff\r\n"


def test_an_id_twice_in_a_file_is_met_as_if_it_came_later(parcels: None) -> None:
    twice = lines_of({"id": "a", "body": "1"}, {"id": "a", "body": "1"}, {"id": "a", "body": "2"}, {"id": "b"})
    said = run("put", "parcels", "--file", "-", "--json", stdin=twice)
    outcomes = [json.loads(line)["outcome"] for line in said.out.splitlines()]
    assert (said.code, outcomes) == (1, ["created", "exists", "conflict", "created"])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"id": "a"', "expected a JSON object such as"),
        (b"[1]", "expected a JSON object such as"),
        (b"[" * 100_000, "expected a JSON object such as"),
        (b'{"bdy": "x"}', "did you mean 'body'?"),
        (b'{"body": {"a": 1}}', "body must be a text"),
        (b'{"body": "\xff"}', "body must be text in UTF-8"),
        (b'{"body": "\\ud800"}', "body must be text in UTF-8"),
        (b'{"body_base64": "?"}', "body_base64 must be bytes in Base64"),
        (b'{"body_base64": 1}', "body_base64 must be bytes in Base64"),
        (b'{"body": "", "body_base64": ""}', "body and body_base64 must be one of them"),
        (b'{"at": "2026-11-20T08:00:00"}', "expected a moment with its zone"),
        (b'{"at": 1.5}', "at must be a time with a time zone, or milliseconds"),
        (b'{"in": 5}', "in must be a span such as 10m"),
        (b'{"in": "soon"}', "expected a span such as 500ms"),
        (b'{"in": "-5m"}', "expected a span from 0s to 36500d"),
        (b'{"in": "1h", "at": 1}', "at and in must be one of them"),
        (b'{"id": 5}', "the id of a message must be a text"),
        (b'{"id": ""}', "must have 1 to 255 characters"),
        (b'{"priority": 1.5}', "priority must be a whole number"),
    ],
)
def test_a_line_that_is_no_message_is_named_and_those_before_it_count(parcels: None, line: bytes, said: str) -> None:
    answer = run("put", "parcels", "--file", "-", stdin=b'{"id": "first"}\n\n' + line + b'\n{"id": "last"}\n')
    assert (answer.code, answer.out) == (1, "first\n")
    assert answer.err.startswith("batchline: line 3: ")
    assert said in answer.err
    assert "(the lines before it count)" in answer.err
    assert "Traceback" not in answer.err


def test_large_files_go_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_lines, "AT_ONCE", 3)
    monkeypatch.setattr(message_lines, "BYTES_AT_ONCE", 10)
    sizes = [1, 1, 1, 1, 9, 2, 20, 1]
    parts = message_lines.in_parts(sizes, lambda _: None, lambda size: size)
    assert list(parts) == [[1, 1, 1], [1, 9], [2], [20], [1]]
    assert list(message_lines.in_parts("abca", lambda one: one)) == [["a", "b", "c"], ["a"]]


def test_what_was_put_is_shown_on_a_terminal(parcels: None, tmp_path: Path) -> None:
    assert re.fullmatch(
        r"✓ 1 message created\n  a due \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC · in (10|9) m\n",
        on_terminal("put", "parcels", "--id", "a", "--in", "10m"),
    )
    again = on_terminal("put", "parcels", "--id", "a", "--in", "5h")
    assert re.search(r"  a due .* · in (10|9) m\n", again), "it is due when it was, not when it was put again"
    (tmp_path / "many").write_text(lines_of(*({"id": f"m{number}"} for number in range(5_001))))
    seen = on_terminal("put", "parcels", "--file", tmp_path / "many")
    assert seen == "✓ 5,001 messages created\n  m0\n  m1\n  m2\n  … 4,997 more\n  m5000\n"
    seen = on_terminal("put", "parcels", "--file", tmp_path / "many", "--producer-group", "other", code=1)
    assert (len(seen.splitlines()), seen.splitlines()[10]) == (12, "… 4,991 more; --json tells of each")


# --- moving, cancelling, reading --------------------------------------------------------------------------------------


def test_the_good_ids_count_and_the_others_are_named(batchline: Call, ask: Ask, parcels: None) -> None:
    for id in "abc":
        batchline("put", "parcels", "--id", id)
    batchline("lease", "parcels")
    said = batchline("move", "parcels", "a", "b", "nothing", "--in", "1h")
    assert (said.code, said.out) == (1, "1 message moved\n")
    assert [line.split(": ")[:2] for line in said.err.splitlines()] == [["a", "leased"], ["nothing", "unknown"]]
    assert [one["outcome"] for one in ask("cancel", "parcels", "a", "b", "b", "x")] == [
        "leased",
        "cancelled",
        "cancelled",
        "unknown",
    ]
    assert [one["outcome"] for one in ask("cancel", "parcels", "c", "--producer-group", "other")] == ["foreign"]


def test_moments_and_ids_come_from_lines(ask: Ask, parcels: None) -> None:
    for topic, id in (("parcels", "a"), ("parcels", "b"), ("mails", "c")):
        run("topic", "create", topic)
        run("put", topic, "--id", id)
    moved = run("move", "parcels", "-", stdin=lines_of({"id": "a", "in": "1h"}, {"id": "b", "at": 5}))
    assert moved == Said(0, "✓ 2 messages moved\n", "")
    assert [ask("message", "parcels", id)[0]["state"] for id in "ab"] == ["waiting", "available"]
    assert "needs a moment to go to" in run("move", "parcels", "a").err
    listed = run("messages", "--json").out
    said = run("cancel", "parcels", "-", stdin=listed)
    assert (said.code, said.out) == (1, "✓ 2 messages cancelled\n")
    assert "line 3: the message is on topic 'mails', not on 'parcels'" in said.err


def test_a_message_is_read_by_its_owner_and_by_who_holds_it(batchline: Call, ask: Ask, parcels: None) -> None:
    batchline("put", "parcels", "--id", "a", "--body", "x", "--producer-group", "me")
    assert "neither yours nor leased to you" in batchline("message", "parcels", "a").err
    lease = ask("lease", "parcels", "--consumer", "w")[0]["lease"]
    (found,) = ask("message", "--lease", lease)
    assert (found["body"], found["state"], found["consumer"]) == ("x", "processing", "w")
    assert batchline("message", "parcels", "a", "--producer-group", "me").out.startswith("a on parcels · processing\nx")
    batchline("done", lease)
    assert "there is no message 'a'" in batchline("message", "--lease", lease).err


def test_a_message_on_a_terminal_fits_it(batchline: Call, parcels: None) -> None:
    batchline("put", "parcels", "--id", "a", "--body", "first\x1b[2J\n" + "long " * 1000)
    batchline("release", batchline("lease", "parcels").out.split("\t")[0], "--reason", "no [red]\nidea")
    for columns in (60, 100):
        seen = on_terminal("message", "parcels", "a", columns=columns)
        assert {len(line) for line in seen.splitlines()} == {columns}
        assert len(seen.splitlines()) < 60
        for words in ("a on parcels · available", "first\\x1b[2J", "bytes more, with --raw", "no [red]\\nidea"):
            assert words in seen


def test_messages_in_pages(batchline: Call, ask: Ask, parcels: None) -> None:
    timeline().create("parcels", [NewMessage(id=f"m{number}") for number in range(2_500)], producer_group="cli")
    assert len({one["id"] for one in ask("messages", "--limit", 10_000)}) == 2_500
    said = batchline("messages", "--limit", 1_500)
    after = re.fullmatch(r"more with --after (\S+)\n", said.err)
    assert after is not None
    rest = batchline("messages", "--limit", 1_500, "--after", after[1])
    assert rest.err == ""
    ids = [line.split("\t")[0] for line in (said.out + rest.out).splitlines()]
    assert len(ids) == len(set(ids)) == 2_500
    for columns in (60, 100):
        assert max(map(len, on_terminal("messages", "--limit", 5, columns=columns).splitlines())) <= columns
    assert batchline("messages", "--producer-group", "none") == Said(0, "", "none has no message\n")


# --- leasing ----------------------------------------------------------------------------------------------------------


def test_a_lease_for_programs(batchline: Call, ask: Ask, parcels: None) -> None:
    batchline("put", "parcels", "--id", "a/b%", "--body", "line\nline\t", "--producer-group", "me")
    (leased,) = ask("lease", "parcels", "--consumer", "w", "--for", "10m")
    lease = read_lease(leased["lease"])
    assert (lease.topic, lease.id, lease.consumer, lease.until.isoformat()) == ("parcels", "a/b%", "w", leased["until"])
    assert (leased["attempts"], leased["producer_group"], leased["body"]) == (1, "me", "line\nline\t")
    again = batchline("leases", "parcels", "--consumer", "w").out
    assert again == f"{leased['lease']}\ta/b%\t1\tline\\nline\\t\n"
    assert ask("leases", "--consumer", "w") == [{key: leased[key] for key in leased if key != "at"}]
    assert batchline("leases") == Said(0, "", "cli holds no lease outside of live sessions\n")


def test_nothing_due_is_no_error_and_says_what_is_next(batchline: Call, parcels: None) -> None:
    assert batchline("lease", "parcels") == Said(0, "", "nothing is due\n")
    batchline("put", "parcels", "--in", "1h")
    assert re.fullmatch(r"nothing is due; next in (1 h|59 m)\n", batchline("lease", "parcels").err)
    assert batchline("lease", "parcels", "--json") == Said(0, "", "")


def test_one_message_is_leased_by_its_version_or_is_stale(batchline: Call, ask: Ask, parcels: None) -> None:
    batchline("put", "parcels", "--id", "a")
    version = ask("message", "parcels", "a")[0]["version"]
    said = batchline("lease", "parcels", "--id", "a", "--version", version + 1)
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("a: stale: ")
    assert ask("lease", "parcels", "--id", "a", "--version", version)[0]["id"] == "a"
    said = batchline("lease", "parcels", "--id", "a", "--version", version, "--json")
    assert (said.code, json.loads(said.out)["outcome"]) == (1, "stale")


def test_a_lease_that_is_used_up_is_lost(batchline: Call, ask: Ask, parcels: None) -> None:
    batchline("put", "parcels", "--id", "a")
    lease = ask("lease", "parcels")[0]["lease"]
    (extended,) = ask("extend", lease)
    assert extended["lease"] != lease
    for command in ("extend", "release", "done"):
        said = batchline(command, lease)
        assert said.code == 1
        assert said.err == "a: lost: the lease has ended, or was used before\n"
    assert batchline("release", extended["lease"]).out == "✓ 1 message released\n"


def test_leases_come_from_arguments_files_and_json(batchline: Call, parcels: None, tmp_path: Path) -> None:
    for id in "abc":
        batchline("put", "parcels", "--id", id)
    first = batchline("lease", "parcels").out.split("\t")[0]
    (tmp_path / "second").write_text(batchline("lease", "parcels", "--json").out)
    third = batchline("lease", "parcels").out
    assert run("done", first, "-", "--file", tmp_path / "second", stdin=third).out == "✓ 3 messages done\n"
    said = run("done", "-", stdin=f"{first}\nnonsense\n{first}\n")
    assert (said.code, said.out) == (1, "✓ 1 message done\n")
    assert "line 2: expected a lease as it was given out, got 'nonsense'" in said.err


def test_leases_on_a_terminal(batchline: Call, parcels: None) -> None:
    batchline("put", "parcels", "--id", "a", "--body", "[red] " * 100)
    seen = on_terminal("lease", "parcels", "--consumer", "w" * 100)
    head, body, lease = seen.splitlines()
    assert re.fullmatch(r"a · attempt 1 · due \d+ s ago · lease ends in (5|4) m", head.strip())
    assert (len(body), body.rstrip()[-1]) == (100, "…")
    assert read_lease(lease.split()[1]).consumer == "w" * 100
    assert "a · attempt 1 · on parcels" in on_terminal("leases", "--consumer", "w" * 100)
    seen = on_terminal("extend", lease.split()[1])
    assert read_lease(seen.splitlines()[0]).id == "a"
    assert seen.splitlines()[1] == "✓ 1 message extended"


# --- the load ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def busy(parcels: None) -> None:
    """3,000 messages in three hours, most of them in the second, and consumers that take 1,800 an hour."""
    line = timeline()
    hour, now_ms = 3_600_000, line.now_ms()
    begin_ms = now_ms - now_ms % 300_000
    # Far enough from the ends of the hours, should the next 5 minutes begin before the command looks.
    new = [NewMessage(at=begin_ms + hour + 600_000 + number * 1_000) for number in range(2_400)]
    new += [NewMessage(at=begin_ms + 3 * hour + 600_000 + number) for number in range(600)]
    line.create("parcels", new, producer_group="cli")
    line.create("parcels", [NewMessage()], producer_group="cli")
    line.heartbeat("parcels", "worker-1", messages_per_second=0.5)


def test_load_for_programs(busy: None, ask: Ask) -> None:
    (load,) = ask("load", "parcels", "--within", "6h", "--bins", 6)
    assert (load["topic"], load["messages_per_second"]) == ("parcels", 0.5)
    assert load["counts"] == {"waiting": 3_000, "processing": 0, "available": 1, "total": 3_001}
    assert [(one["count"], one["spike"]) for one in load["bins"]] == [
        (0, False),
        (2_400, True),
        (0, False),
        (600, False),
        (0, False),
        (0, False),
    ]


def test_load_for_people(busy: None, batchline: Call) -> None:
    for columns in (60, 100):
        seen = on_terminal("load", "parcels", "--within", "12h", "--bins", 12, columns=columns)
        assert {len(line) for line in seen.splitlines()} == {columns}
        rows = [line.strip("│ ") for line in seen.splitlines()]
        (spike,) = [row for row in rows if row.endswith("▲ 1.3×")]
        assert re.search(r"\d\d:\d\d  █+▓+ +2,400  ▲ 1.3×$", spike)
        (low,) = [row for row in rows if re.search(r"\b600$", row)]
        assert re.search(r"█[▏▎▍▌▋▊▉]? +┊ +600$", low)
        assert sum("nothing for 8 h" in row for row in rows) == 1
    piped = batchline("load", "parcels").out
    assert "╭" not in piped
    assert "can take 0.5 messages a second" in piped


def test_load_says_that_nobody_has_shown_what_it_can_take(batchline: Call, parcels: None) -> None:
    said = batchline("load", "parcels", "--within", "10s").out
    assert "no messages" in said
    assert "spikes are not marked" in said


@pytest.mark.parametrize("within", ["1ms", "10s", "5m", "1h", "7d", "300d"])
@pytest.mark.parametrize("bins", [1, 7, 10_000])
def test_any_range_can_be_drawn(busy: None, batchline: Call, within: str, bins: int) -> None:
    said = batchline("load", "parcels", "--within", within, "--bins", bins)
    assert (said.code, said.err) == (0, "")
    assert len(said.out.splitlines()) < 220
    assert batchline("load", "parcels", "--within", within, "--from", "9999-12-31T23:59:59Z").code == 0


def test_a_small_bar_is_seen_and_a_limit_beyond_all_is_not_drawn() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    small, large = (Bin(now, now + timedelta(hours=1), count, spike=False) for count in (1, 1_000_000))
    assert load_screen._bar(small, large.count, None, 20).plain == "▏"
    assert load_screen._bar(large, large.count, 2e6, 20).plain == "█" * 20
    assert load_screen._mark(large, Load((large,), 1e9)) == ""


# --- the commands themselves ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("put", "parcels", "--at", "2026-11-20T08:00:00"), "expected a moment with its zone"),
        (("put", "parcels", "--at", "tomorrow"), "expected a moment with its zone"),
        (("put", "parcels", "--at", "9999-12-31T23:59:59-23:00"), "expected a moment from 1970 to 9999"),
        (("put", "parcels", "--in", "soon"), "expected a span such as 500ms"),
        (("put", "parcels", "--in", "9" * 30 + "d"), "expected a span that a calendar holds"),
        (("put", "parcels", "--in", "36501d"), "expected a span from 0s to 36500d"),
        (("move", "parcels", "a", "--in=-5m"), "expected a span from 0s to 36500d"),
        (("put", "parcels", "--in", "1h", "--at", "2026-11-20T08:00:00Z"), "give one of them, not both"),
        (("release", "x", "--in", "1h", "--at", "2026-11-20T08:00:00Z"), "give one of them, not both"),
        (("put", "parcels", "--body", "x", "--body-file", __file__), "give one of them, not both"),
        (("put", "parcels", "--file", __file__, "--id", "a"), "from the file, or from --id"),
        (("put", "parcels", "--priority", 1_001), "--priority"),
        (("lease", "parcels", "--id", "a"), "they go together"),
        (("lease", "parcels", "--limit", 10_001), "--limit"),
        (("done",), "name at least one lease, or give --file"),
        (("cancel", "parcels"), "name at least one id, or give --file"),
        (("message", "parcels"), "name a topic and an id, or a lease alone"),
        (("message", "parcels", "a", "--lease", "x"), "name a topic and an id, or a lease alone"),
        (("load", "parcels", "--within", "0s"), "expected a span longer than 0"),
        (("topic", "update", "parcels"), "name at least one rule to change"),
        (("topic", "update", "parcels", "--no-rate-limit", "--rate-limit", 1), "not with --rate-limit"),
        (("topic", "update", "parcels", "--no-dead-letter", "--max-attempts", 1), "not with --max-attempts"),
    ],
)
def test_a_wrong_command_line_is_exit_code_2(
    batchline: Call, parcels: None, words: tuple[object, ...], said: str
) -> None:
    answer = batchline(*words)
    assert (answer.code, answer.out) == (2, "")
    assert said in re.sub(r"\s*│\n│\s*", " ", answer.err)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("topic", "create", "x", "--max-attempts", 5), "max_attempts and dead_letter go together"),
        (("topic", "create", "x", "--lease", "13h"), "at most 12 hours"),
        (("topic", "create", "x" * 256), "must have 1 to 255 characters"),
        (("lease", "parcels", "--for", "13h"), "leases for at most"),
        (("done", "nonsense"), "expected a lease as it was given out"),
        (("messages", "--after", "nonsense"), "after must be the next of the page before"),
        (("put", "parcels", "--id", "a\x01"), "must have no control characters"),
    ],
)
def test_what_is_refused_is_said_in_a_sentence(
    batchline: Call, parcels: None, words: tuple[object, ...], said: str
) -> None:
    answer = batchline(*words)
    assert (answer.code, answer.out) == (1, "")
    assert said in answer.err
    assert "Traceback" not in answer.err


@pytest.mark.parametrize("name", [*NAMES, *(f"topic {name}" for name in TOPIC_NAMES)])
def test_help_has_examples_and_no_password(batchline: Call, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCHLINE_STORE", "postgresql://me:secret@host/name")
    said = batchline(*name.split(), "--help")
    assert said.code == 0
    assert f"batchline {name}" in said.out.split("Examples")[1]
    assert "secret" not in said.out


def test_work_goes_on_when_nobody_reads_any_more(ask: Ask, parcels: None, tmp_path: Path) -> None:
    (tmp_path / "many").write_text(lines_of(*({"id": f"m{number}"} for number in range(20_000))))
    command = f"{sys.executable} -m batchline put parcels --file {tmp_path}/many --json | head -1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert ask("load", "parcels")[0]["counts"]["total"] == 20_000
    for words in ("messages --limit 20000 --json", "messages --limit 20000", "lease parcels --limit 10000"):
        command = f"{sys.executable} -m batchline {words} | head -1"
        done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_names_come_from_the_environment(batchline: Call, parcels: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCHLINE_PRODUCER_GROUP", "shop")
    monkeypatch.setenv("BATCHLINE_CONSUMER", "worker")
    batchline("put", "parcels", "--id", "a")
    assert batchline("lease", "parcels").out.split("\t")[0].endswith("/worker")
    assert batchline("message", "parcels", "a").code == 0
    assert batchline("message", "parcels", "a", "--producer-group", "cli").code == 1


def test_tidy_frees_ids_and_names(batchline: Call, ask: Ask, parcels: None) -> None:
    ask("put", "parcels", "--id", "a")
    ask("done", ask("lease", "parcels")[0]["lease"])
    assert batchline("tidy").code == 0
    assert ask("put", "parcels", "--id", "a")[0]["outcome"] == "exists"
    assert ask("topic", "update", "parcels", "--keep", "0s")[0]["keep"] == "0s"
    said = batchline("tidy")
    assert (said.code, said.out.startswith("✓")) == (0, True)
    assert ask("put", "parcels", "--id", "a")[0]["outcome"] == "created"
    batchline("topic", "delete", "parcels")
    batchline("tidy")
    assert ask("topic", "list") == []


def test_tidy_keeps_on_until_it_is_told_to_end(ask: Ask, parcels: None, store: str) -> None:
    ask("put", "parcels", "--id", "a")
    ask("done", ask("lease", "parcels")[0]["lease"])
    ask("topic", "delete", "parcels")
    process = subprocess.Popen([sys.executable, "-m", "batchline", "tidy", "--every", "10ms"])
    try:
        with open_store(store) as opened:
            timeline = Timeline(opened)
            wait_until(lambda: timeline.topics() == [])
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()


def test_nothing_is_put_on_an_internal_topic(batchline: Call, store: str, parcels: None) -> None:
    with open_store(store) as opened:
        make_topics(Timeline(opened), "parcels")
    said = batchline("put", "parcels", "--body", "x")
    assert (said.code, said.out) == (1, "")
    assert "topic 'parcels' is internal" in said.err
    with open_store(store) as opened:
        assert Timeline(opened).count("parcels").total == 0
