"""What the documentation shows works."""

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from batchline import errors
from batchline.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def pages_with(language: str) -> list[str]:
    return [str(page.relative_to(ROOT)) for page in PAGES if blocks(page, language)]


def write_files(page: Path, into: Path) -> None:
    """Put every block that has a title into a file of that name, as a reader would."""
    text = page.read_text()
    for name, content in re.findall(r'^```\w+ title="(.+?)"\n(.*?)^```', text, re.MULTILINE | re.DOTALL):
        (into / name).write_text(content)


@pytest.mark.parametrize("page", pages_with("python"))
def test_the_python_of_a_page_runs_from_top_to_bottom(page: str, tmp_path: Path) -> None:
    """In a process of its own, which takes along the Spark that a page may start."""
    program = tmp_path / "page.py"
    program.write_text("\n".join(blocks(ROOT / page, "python")))
    run = subprocess.run([sys.executable, "-W", "error", program], cwd=tmp_path, capture_output=True, text=True)
    assert (run.stderr, run.returncode) == ("", 0), run.stdout


@pytest.mark.parametrize("page", pages_with("console"))
def test_the_commands_of_a_page_run_one_after_the_other(page: str, tmp_path: Path) -> None:
    write_files(ROOT / page, tmp_path)
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    printed: set[str] = set()
    for line in "".join(blocks(ROOT / page, "console")).splitlines():
        if line.startswith("$ "):
            words = ["bash", "-o", "pipefail", "-c", line[2:]]
            run = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
            assert run.returncode == 0, f"{line}\n{run.stderr}"
            printed = {printed.rstrip() for printed in run.stdout.splitlines()}
        elif line.strip("… "):
            assert line.rstrip() in printed, f"{page} shows a line that is not printed"


def commands_of(group: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every command by its full name, those of groups too."""
    for word, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands_of(command, f"{name} {word}")
        else:
            yield f"{name} {word}", command


def test_the_reference_names_every_command_and_option() -> None:
    page = (ROOT / "docs/reference/cli.md").read_text()
    commands = dict(commands_of(get_command(app), "batchline"))
    assert {"batchline batch", "batchline fanout open"} < commands.keys()
    for name, command in commands.items():
        assert f"`{name}" in page
        options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
        assert {option for option in options - {"--help"} if not re.search(rf"{option}\b", page)} == set()


def test_the_tree_of_errors_in_the_reference_is_that_of_the_code() -> None:
    drawn = textwrap.dedent((errors.__doc__ or "").split("\n\n")[1]).strip()
    assert f"```\n{drawn}\n```" in (ROOT / "docs/reference/errors.md").read_text()


def test_what_a_page_says_it_prints_is_what_it_prints(capsys: pytest.CaptureFixture[str]) -> None:
    page = ROOT / "docs/howto/own-loop.md"
    (said,) = re.findall(r"It prints `(.*?)`", page.read_text())
    exec(compile(blocks(page, "python")[0], str(page), "exec"), {})  # noqa: S102 - our own page
    assert capsys.readouterr().out == f"{said}\n"
