"""`batchline config`: every value in force, and who says so."""

import re
from collections.abc import Sequence
from typing import Annotated, Final

import typer
from rich.table import Table
from rich.text import Text

from batchline.cli import screen
from batchline.cli.configuration import Configuration, Setting, configuration_of
from batchline.cli.options import Json
from batchline.errors import InvalidInput, did_you_mean

__all__ = ["config", "without_secrets"]

PASSWORD: Final = re.compile(r"(://[^:/@\s]*):\S*@")
SECRET: Final = re.compile(r"([?&][^=&\s]*(?:key|password|secret|signature|sig|token)=)[^&\s]*", re.IGNORECASE)


def config(
    context: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="Every option of this one, such as topic create.", show_default=False),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every option of every command.")] = False,
    json: Json = False,
) -> None:
    """Show the values in force, and who says so: a default, the file, or the environment; an option would win.

    Without a COMMAND: what all commands share, and what is not as it would be by itself. Passwords are not shown. In a
    pipe a line has the key, the value, who says so, and its name in the environment, with tabs between.

    [bold]Examples[/]

      batchline config
      batchline config topic create
      batchline --config fleet.toml config work
      batchline config --all --json | jq -r '.values[] | select(.from != "default") | .key'
    """
    found = configuration_of(context)
    shown = _asked(found, command or [], all_=all_)
    rows = [(one.name, *_in_force(found, one), one.variable) for one in shown]
    if json:
        keys = ("key", "value", "from", "variable")
        values = [dict(zip(keys, row, strict=True)) for row in rows]
        screen.say_json({"file": str(found.path) if found.path else None, "values": values})
    elif not screen.out.is_terminal:
        screen.say_lines("\t".join(map(screen.one_line, row)) for row in rows)
    else:
        where = f"in {screen.plain(str(found.path))}" if found.path else "no batchline.toml here"
        screen.out.print(f"[dim]{where}[/]", _table(rows), highlight=False)


def without_secrets(text: str) -> str:
    """A value as people may see it."""
    return SECRET.sub(r"\1…", PASSWORD.sub(r"\1:…@", text))


def _in_force(found: Configuration, setting: Setting) -> tuple[str, str]:
    value, source = found.in_force(setting)
    return without_secrets(value), source


def _asked(found: Configuration, words: Sequence[str], *, all_: bool) -> list[Setting]:
    """The settings to show, each once."""
    command = tuple(words)
    known = sorted({" ".join(one.command[: end + 1]) for one in found.settings for end in range(len(one.command))})
    if command and " ".join(command) not in known:
        raise InvalidInput(f"there is no command {' '.join(words)!r}{did_you_mean(' '.join(words), known)}")
    some = {
        one.name: one
        for one in found.settings
        if one.command[: len(command)] == command and (command or all_ or _matters(found, one))
    }
    return list(some.values())


def _matters(found: Configuration, setting: Setting) -> bool:
    return setting.shared or found.in_force(setting)[1] != "default"


def _table(rows: Sequence[tuple[str, ...]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("key", "value", "from", "in the environment"):
        table.add_column(name, overflow="fold")
    for key, value, source, variable in rows:
        colour = "dim" if source == "default" else "bold"
        table.add_row(Text(key), Text(value or "–", colour), Text(source), Text(variable, "dim"))
    return table
