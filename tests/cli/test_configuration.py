"""One file, the environment and options: the later wins, and what is wrong is answered with what was meant."""

import json
from pathlib import Path

import pytest

from batchline.cli.config import without_secrets
from tests.cli.conftest import Call, on_terminal


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("STORE", "CONFIG", "CONSUMER", "PRODUCER_GROUP"):
        monkeypatch.delenv(f"BATCHLINE_{name}", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(text: str) -> None:
    Path("batchline.toml").write_text(text)


def in_force(batchline: Call, key: str, *words: str) -> tuple[str, str]:
    values = json.loads(batchline(*words, "config", "--all", "--json").out)["values"]
    ((value, source),) = [(one["value"], one["from"]) for one in values if one["key"] == key]
    return value, source


def test_the_file_is_under_the_environment_which_is_under_options(
    batchline: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    batchline("topic", "create", "jobs", "--store", "sqlite:///store.db")
    write('store = "sqlite:///store.db"\nproducer_group = "file"\n[put]\nbody = "of the file"\npriority = 3\n')

    def put(*words: str) -> tuple[str, str, int]:
        (id,) = batchline("put", "jobs", *words).out.split()
        for group in ("file", "environment", "option"):
            said = batchline("message", "jobs", id, "--producer-group", group, "--json")
            if said.code == 0:
                found = json.loads(said.out)
                return group, found["body"], found["priority"]
        raise AssertionError(id)

    assert put() == ("file", "of the file", 3)
    monkeypatch.setenv("BATCHLINE_PUT_BODY", "of the environment")
    monkeypatch.setenv("BATCHLINE_PRODUCER_GROUP", "environment")
    monkeypatch.setenv("BATCHLINE_PUT_PRIORITY", "4")
    assert put() == ("environment", "of the environment", 4)
    assert put("--body", "x", "--producer-group", "option", "--priority", "0") == ("option", "x", 0)


def test_a_command_has_a_table_of_its_own_also_one_in_a_group(batchline: Call) -> None:
    write(
        'store = "sqlite:///a.db"\n[topic.create]\nmax_attempts = 5\ndead_letter = "d"\n[fanout.open]\ntolerate = 3\n'
    )
    batchline("topic", "create", "jobs")
    assert json.loads(batchline("topic", "show", "jobs", "--json").out)["max_attempts"] == 5
    batchline("fanout", "open", "one")
    assert json.loads(batchline("fanout", "status", "one", "--json").out)["tolerate"] == 3


def test_lists_and_flags_come_from_the_file_and_from_the_environment(
    batchline: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    write('[fanout.open]\nlabel = ["job=import", "day=monday"]\njson = true\n')
    assert json.loads(batchline("fanout", "open", "one").out)["labels"] == {"job": "import", "day": "monday"}
    monkeypatch.setenv("BATCHLINE_FANOUT_OPEN_LABEL", "job=export shop=7")
    monkeypatch.setenv("BATCHLINE_FANOUT_OPEN_JSON", "false")
    assert batchline("fanout", "open", "two").out == "two\n"
    assert json.loads(batchline("fanout", "status", "two", "--json").out)["labels"] == {"job": "export", "shop": "7"}


def test_another_file_is_named_by_an_option_or_by_the_environment(
    here: Path, batchline: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    write('store = "sqlite:///first.db"\n')
    (here / "other.toml").write_text('store = "sqlite:///other.db"\n')
    assert in_force(batchline, "store") == ("sqlite:///first.db", "batchline.toml")
    assert in_force(batchline, "store", "--config", "other.toml") == ("sqlite:///other.db", "other.toml")
    monkeypatch.setenv("BATCHLINE_CONFIG", "other.toml")
    assert in_force(batchline, "store") == ("sqlite:///other.db", "other.toml")
    assert in_force(batchline, "store", "--config", "batchline.toml") == ("sqlite:///first.db", "batchline.toml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stor = 1", "the file has no key 'stor'; did you mean 'store'?"),
        ("[bacth]", "the file has no table 'bacth'; did you mean 'batch'?"),
        ("[batch]\nwindw = '2s'", "[batch] has no key 'windw'; did you mean 'window'?"),
        ("[batch]\nmax-delay = '2s'", "[batch] has no key 'max-delay'; did you mean 'max_delay'?"),
        ("[fanout]\nlist = 1", "expected [fanout.list], a table, got list = 1"),
        ("[fanout.lst]", "[fanout] has no table 'lst'; did you mean 'list'?"),
        ("[done]\nqqqq = 1", "[done] has no key 'qqqq'; it has file, json, store"),
        ("store = 5\n[batch]\nwindow = true", "[batch] window must be a text, got True"),
        ("[batch]\nwindow = '5 parsecs'", "[batch] window: expected a span such as 500ms"),
        ("[lease]\nlimit = '5'", "[lease] limit must be a whole number, got '5'"),
        ("[lease]\nlimit = 0", "[lease] limit: Input should be greater than or equal to 1, got 0"),
        ("[sample]\nminutes = 'x'", "[sample] minutes must be a number, got 'x'"),
        ("[batch]\nfollow = 1", "[batch] follow must be true or false, got 1"),
        ("[fanout.open]\nlabel = 'a=b'", "[fanout.open] label must be a list, got 'a=b'"),
        ("[fanout.list]\nstate = 'opn'", "'opn' is not one of 'open', 'sealed'"),
        ("[source]\naddress = 'x'", "'source' belongs into a pipeline's file"),
        ("store = ", "is no TOML"),
    ],
)
def test_what_is_wrong_in_the_file_is_answered_with_what_was_meant(batchline: Call, text: str, said: str) -> None:
    write(text)
    answer = batchline("config")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("batchline: batchline.toml")
    assert said in answer.err


def test_what_is_wrong_in_the_environment_is_named(batchline: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCHLINE_STROE", "x")
    monkeypatch.setenv("BATCHLINE_TEST_SERVERS", "x")
    said = batchline("config")
    assert (said.code, said.err) == (0, "BATCHLINE_STROE is no option of any command: did you mean BATCHLINE_STORE?\n")
    monkeypatch.setenv("BATCHLINE_LEASE_LIMIT", "many")
    said = batchline("config")
    assert said.code == 1
    assert "BATCHLINE_LEASE_LIMIT: Input should be a valid integer" in said.err
    assert "got 'many'" in said.err


def test_a_file_that_is_named_must_be_there(batchline: Call) -> None:
    said = batchline("--config", "no.toml", "config")
    assert (said.code, said.err) == (1, "batchline: no.toml cannot be read: No such file or directory\n")


def test_what_is_in_force_is_shown_and_who_says_so(batchline: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    write('store = "postgresql://me:secret@host/name"\n[batch]\nwindow = "2s"\n')
    monkeypatch.setenv("BATCHLINE_BATCH_MAX_DELAY", "7s")
    rows = dict(line.split("\t", 1) for line in batchline("config").out.splitlines())
    assert rows["store"] == "postgresql://me:…@host/name\tbatchline.toml\tBATCHLINE_STORE"
    assert rows["batch.window"] == "2s\tbatchline.toml\tBATCHLINE_BATCH_WINDOW"
    assert rows["batch.max_delay"] == "7s\tBATCHLINE_BATCH_MAX_DELAY\tBATCHLINE_BATCH_MAX_DELAY"
    assert rows["consumer"] == "cli\tdefault\tBATCHLINE_CONSUMER"
    assert "batch.leap_limit" not in rows
    of_batch = batchline("config", "batch").out
    assert "batch.leap_limit\t400ms\tdefault\tBATCHLINE_BATCH_LEAP_LIMIT\n" in of_batch
    assert "lease." not in of_batch
    wrong = batchline("config", "topic", "crate")
    assert (wrong.code, "did you mean 'topic create'?" in wrong.err) == (1, True)


def test_no_password_of_the_file_is_in_a_commands_help(batchline: Call) -> None:
    write('store = "postgresql://me:secret@host/name"\n[work]\nshared = "redis://:secret@host"\n')
    for command in ("put", "work"):
        said = batchline(command, "--help")
        assert (said.code, "secret" in said.out) == (0, False)
    assert "sqlite:///batchline.db" in batchline("put", "--help").out


def test_on_a_terminal_it_is_a_table() -> None:
    write('consumer = "me"\n')
    seen = on_terminal("config", columns=120)
    assert "in batchline.toml" in seen
    assert "in the environment" in seen


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mysql://me:a:b@c@host/x", "mysql://me:…@host/x"),
        ("redis://:pw@host", "redis://:…@host"),
        ("azure://box?account_key=abc&x=1", "azure://box?account_key=…&x=1"),
        ("sqlite:///a.db", "sqlite:///a.db"),
    ],
)
def test_secrets_are_not_shown(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


def test_a_worker_without_a_file_has_its_store_from_the_configuration_and_with_one_from_there(
    here: Path, batchline: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    write('store = "sqlite:///ours.db"\n[work]\nsink = "files:arrived"\nuntil_empty = true\n')
    assert batchline("work").code == 0
    assert (here / "ours.db").exists()
    text = '[source]\naddress = "in"\n[publish]\nstore = "sqlite:///theirs.db"\n'
    (here / "pipeline.toml").write_text(f'name = "p"\nout = "out"\n{text}')
    monkeypatch.setenv("BATCHLINE_STORE", "sqlite:///nobodys.db")
    assert batchline("work", "pipeline.toml").code == 0
    assert (here / "theirs.db").exists()
    assert not (here / "nobodys.db").exists()
    assert "--sink stands in pipeline.toml" in batchline("work", "pipeline.toml", "--sink", "stdout:").err
