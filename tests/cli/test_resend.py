"""`batchline resend` and `batchline bench`, as a user calls them."""

import json
from pathlib import Path

import pytest

from batchline import NewMessage, Timeline, open_store
from tests.cli.conftest import Call, on_terminal


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store with three dead letters of a topic."""
    url = f"sqlite:///{tmp_path}/store.db"
    with open_store(url) as opened:
        timeline = Timeline(opened)
        timeline.create_topic("jobs", max_attempts=1, dead_letter="grave")
        timeline.create("jobs", [NewMessage(b"x", id=id) for id in "abc"], producer_group="shop")
        timeline.release(timeline.lease("jobs", "c", limit=10))
        timeline.lease("jobs", "c", limit=10)
    monkeypatch.setenv("BATCHLINE_STORE", url)
    return url


def counts(store: str) -> tuple[int, int]:
    with open_store(store) as opened:
        return Timeline(opened).count("jobs").total, Timeline(opened).count("grave").total


def test_dead_letters_are_shown_and_left_and_then_sent_again(store: str, batchline: Call) -> None:
    assert sorted(batchline("resend", "grave", "--dry-run").out.split()) == ["a", "b", "c"]
    dry = json.loads(batchline("resend", "grave", "--dry-run", "--limit", 2, "--json").out)
    assert (dry["topic"], dry["to"], len(dry["letters"])) == ("grave", "jobs", 2)
    assert counts(store) == (0, 3)
    assert len(batchline("resend", "grave", "--limit", 1).out.split()) == 1
    rest = json.loads(batchline("resend", "grave", "--json").out)
    assert (rest["to"], len(rest["messages"]), rest["parcels"], rest["fanout"]) == ("jobs", 2, [], None)
    assert counts(store) == (3, 0)
    nothing = batchline("resend", "grave")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "there are no dead letters\n")


def test_they_go_to_another_topic_if_that_is_wanted(store: str, batchline: Call) -> None:
    batchline("topic", "create", "other")
    assert batchline("resend", "grave", "--to", "other").code == 0
    assert json.loads(batchline("topic", "show", "other", "--json").out)["counts"]["total"] == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["grvae"], "did you mean 'grave'?"),
        (["grave", "--to", "nowhere"], "there is no topic 'nowhere'"),
        (["jobs"], "say to which topic they are sent"),
    ],
)
def test_what_is_asked_for_wrongly_is_answered(store: str, batchline: Call, words: list[str], said: str) -> None:
    answer = batchline("resend", *words)
    assert (answer.code, said in answer.err) == (1, True)
    assert counts(store) == (0, 3)


def test_a_terminal_shows_how_many(store: str) -> None:
    assert "3 messages would go to jobs" in on_terminal("resend", "grave", "--dry-run")
    assert "✓ 3 messages sent again to jobs" in on_terminal("resend", "grave")


def test_a_store_is_measured(store: str, batchline: Call) -> None:
    found = json.loads(batchline("bench", "--count", 50, "--for", "1s", "--json").out)
    assert [one["verb"] for one in found["figures"]] == ["create", "lease", "done", "ack"] * 2
    assert all(one["per_second"] > 0 and one["p99_ms"] >= one["p50_ms"] for one in found["figures"])
    lines = batchline("bench", "--count", 5).out.splitlines()
    assert [line.split("\t")[:2] for line in lines[::4]] == [["create", "1000"], ["create", "1"]]
    assert {line.split("\t")[0] for line in batchline("topic", "list").out.splitlines()} == {"grave", "jobs"}
    assert "p50 of a call" in on_terminal("bench", "--count", 5)


def test_ack_is_a_command_of_its_own_as_well(store: str, batchline: Call) -> None:
    batchline("fanout", "open", "one")
    (item,) = batchline("fanout", "add", "one", 1, "--items").out.split()
    batchline("fanout", "seal", "one")
    assert json.loads(batchline("ack", item, "--json").out)["completed"] == ["one"]
    assert json.loads(batchline("fanout", "ack", item, "--json").out)["repeated"] == 1
