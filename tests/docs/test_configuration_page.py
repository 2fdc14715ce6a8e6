"""The page about the configuration has every key of every command, and no other."""

import tomllib
from pathlib import Path
from typing import Any, cast

import pytest
from typer.main import get_command

from batchline.cli import app
from batchline.cli.configuration import settings_of

PAGE = (Path(__file__).parents[2] / "docs/reference/configuration.md").read_text()
SETTINGS = list(settings_of(cast("Any", get_command(app))))
SHARED = sorted({one.key for one in SETTINGS if one.shared})


def test_a_row_for_each_command_has_its_keys() -> None:
    keys: dict[str, list[str]] = {}
    for one in SETTINGS:
        keys.setdefault(".".join(one.command), []).append(one.key)
    rows = [f"| `[{name}]` | {', '.join(f'`{key}`' for key in sorted(some))} |" for name, some in sorted(keys.items())]
    drawn = [line for line in PAGE.splitlines() if line.startswith("| `[")]
    assert drawn == rows


@pytest.mark.parametrize("key", SHARED)
def test_what_is_shared_is_there_with_its_name_in_the_environment(key: str) -> None:
    assert f"| `{key}` | `BATCHLINE_{key.upper()}` |" in PAGE
    assert len([one for one in SETTINGS if one.key == key]) > 1


def test_each_of_them_is_what_its_key_says() -> None:
    assert SHARED == ["consumer", "producer_group", "store", "wait"]


def test_the_variables_that_are_named_are_those_of_options() -> None:
    known = {one.variable for one in SETTINGS}
    assert {"BATCHLINE_BATCH_WINDOW", "BATCHLINE_TOPIC_CREATE_LEASE", "BATCHLINE_SERVE_LISTEN"} <= known


def test_no_two_options_have_one_name_in_the_environment() -> None:
    names: dict[str, set[str]] = {}
    for one in SETTINGS:
        names.setdefault(one.variable, set()).add(one.name)
    assert [some for some in names.values() if len(some) > 1] == []


def test_the_example_is_a_configuration() -> None:
    example = tomllib.loads(PAGE.split("```toml\n")[1].split("```")[0])
    assert set(example) <= {*SHARED, *(one.command[0] for one in SETTINGS)}
