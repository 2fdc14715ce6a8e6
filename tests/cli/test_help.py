"""Every command of the tree explains itself, prints for programs, and is completed by the shell."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from batchline import Timeline, Tracker, open_store
from batchline.cli import app
from tests.cli.conftest import Call

#: What prints no results that a program would want: a report for people, whose exit code says if all of it is true;
#: and what serves until it is stopped.
FOR_PEOPLE = {"demo", "serve"}


def commands(group: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    for word, command in group.commands.items():
        name = f"{above} {word}".strip()
        yield from commands(command, name) if hasattr(command, "commands") else [(name, command)]


TREE = dict(commands(get_command(app)))


def test_the_commands_are_those_that_the_specification_names() -> None:
    first = {"run", "batch", "ingest", "work", "topic", "put", "lease", "cancel", "load"}
    assert first | {"fanout", "ack", "migrate", "bench", "demo"} <= get_command(app).commands.keys()  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", TREE)
def test_a_command_has_examples_that_call_it(name: str) -> None:
    assert "[bold]Examples[/]" in TREE[name].help
    examples = TREE[name].help.split("[bold]Examples[/]")[1]
    # The same command under two names shows the shorter.
    assert re.search(rf"batchline( --config \S+)? ({name}|{name.split()[-1]})\b", examples)


@pytest.mark.parametrize("name", TREE)
def test_every_option_and_argument_has_help_and_results_are_there_as_json(name: str) -> None:
    parameters = TREE[name].params
    assert [one.name for one in parameters if not one.help] == []
    options = {option for one in parameters for option in one.opts}
    assert "--json" in options or name in FOR_PEOPLE


@pytest.mark.parametrize("name", TREE)
def test_examples_use_options_that_there_are(name: str) -> None:
    known = {option for one in TREE[name].params for option in (*one.opts, *one.secondary_opts)}
    for line in TREE[name].help.split("[bold]Examples[/]")[1].splitlines():
        if re.match(rf" *batchline {name}\b", line):
            own = re.split(r" [|&>] ", line)[0]
            assert set(re.findall(r"(?<= )--[a-z-]+", own)) <= known, line


def test_help_is_shown_by_every_command(batchline: Call) -> None:
    for name in TREE:
        said = batchline(*name.split(), "--help")
        assert (said.code, "Examples" in said.out) == (0, True), name


# --- completion -------------------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"sqlite:///{tmp_path}/store.db"
    with open_store(url) as opened:
        Timeline(opened).create_topic("parcels")
        Timeline(opened).create_topic("jobs")
        Tracker(opened).open("import-1")
    monkeypatch.chdir(tmp_path)
    return url


def completed(line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    words = f"batchline {line}".split(" ")
    monkeypatch.setenv("_BATCHLINE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", " ".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    capsys.readouterr()
    with pytest.raises(SystemExit):
        app(prog_name="batchline")
    return capsys.readouterr().out.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("put pa", ["parcels"]),
        ("fanout status ", ["import-1"]),
        ("topic create x --dead-letter j", ["jobs"]),
        ("batch x --anchor a", ["arrival", "aligned"]),
        ("fanout list --state o", ["open"]),
        ("be", ["bench"]),
        ("put --prod", ["--producer-group"]),
    ],
)
def test_a_shell_completes_commands_options_words_and_names(
    store: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    line: str,
    expected: list[str],
) -> None:
    monkeypatch.setenv("BATCHLINE_STORE", store)
    assert completed(line, monkeypatch, capsys) == expected


def test_names_are_completed_from_the_store_of_the_configuration_and_from_none_that_is_away(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert completed("put pa", monkeypatch, capsys) == []
    assert not (tmp_path / "batchline.db").exists()
    (tmp_path / "batchline.toml").write_text(f'store = "{store}"\n')
    assert completed("put pa", monkeypatch, capsys) == ["parcels"]
    monkeypatch.setenv("BATCHLINE_STORE", "postgresql://127.0.0.1:1/none")
    assert completed("put pa", monkeypatch, capsys) == []


def test_the_script_for_a_shell_is_shown(batchline: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    said = batchline("--show-completion", "bash")
    assert (said.code, "complete -o default -F" in said.out) == (0, True)
