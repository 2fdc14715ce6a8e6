"""What a configuration says: a file, `batchline.toml`, under the environment, under the options of the command line.

    store = "postgresql://…"       for every command that has --store     BATCHLINE_STORE
    [batch]
    window = "2s"                  for `batchline batch`                  BATCHLINE_BATCH_WINDOW
    [topic.create]
    max_attempts = 5               for `batchline topic create`           BATCHLINE_TOPIC_CREATE_MAX_ATTEMPTS

The commands themselves say which keys there are: a key is an option without its dashes. It is for all commands if the
option says so, by a name in the environment that has no command in it: `envvar="BATCHLINE_STORE"`.
"""

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, cast

import typer
from typer.core import TyperGroup, TyperOption

from batchline.cli import screen
from batchline.cli.toml_file import read_toml
from batchline.core.moment import span_text
from batchline.core.pipeline import Pipeline
from batchline.errors import InvalidConfiguration, did_you_mean, shown

__all__ = ["Configuration", "Configured", "Setting", "configure", "settings_of"]

FILE: Final = Path("batchline.toml")
VARIABLE: Final = "BATCHLINE_CONFIG"
PREFIX: Final = "BATCHLINE_"
#: What a pipeline's file has there and a configuration has not.
OF_PIPELINES: Final = {one.name for one in fields(Pipeline)} - {"batch", "work"}
#: What a value must be, by the type of its option; texts are for all others.
EXPECTED: Final[Mapping[object, tuple[tuple[type, ...], str]]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
}
#: How alike two names must be for one to be a slip of the other.
LIKE: Final = 0.8
KEY: Final = "batchline.configuration"


@dataclass(frozen=True, slots=True)
class Setting:
    """An option of a command, as a configuration names it."""

    command: tuple[str, ...]
    key: str
    option: TyperOption

    @property
    def shared(self) -> bool:
        """Whether its key stands above all tables, for every command that has such an option."""
        return self.option.envvar == f"{PREFIX}{self.key.upper()}"

    @property
    def name(self) -> str:
        """`batch.window`; of what is shared, the key alone."""
        return self.key if self.shared else ".".join((*self.command, self.key))

    @property
    def variable(self) -> str:
        """`BATCHLINE_BATCH_WINDOW`."""
        return PREFIX + self.name.replace(".", "_").replace("-", "_").upper()

    @property
    def default(self) -> str:
        """What holds if nobody says otherwise, as people write it; empty for nothing."""
        option = self.option
        if isinstance(option.show_default, str):
            return option.show_default
        if option.default is None or option.multiple:
            return ""
        return value_text(option.default)


def value_text(value: object) -> str:
    """A value as people write it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return " ".join(map(value_text, value))
    return span_text(value) if isinstance(value, timedelta) else str(value)


def settings_of(group: TyperGroup, above: tuple[str, ...] = ()) -> Iterator[Setting]:
    """Every option of every command below a group."""
    for word, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from settings_of(command, (*above, word))
            continue
        for option in command.params:
            if isinstance(option, TyperOption) and option.name != "help":
                yield Setting((*above, word), max(option.opts, key=len).lstrip("-").replace("-", "_"), option)


class Configured(TyperGroup):
    """The command line, each of whose options has its name in the environment."""

    def __init__(self, **given: Any):
        super().__init__(**given)
        for setting in settings_of(self):
            # The name of every single one would drown what is said about them: `batchline config` shows them.
            setting.option.show_envvar = setting.shared
            setting.option.envvar = setting.variable
            # What a file says in place of a default may have a password in it.
            setting.option.show_default = (not setting.option.is_flag and setting.default) or False


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a file says, checked, of the commands that there are."""

    settings: tuple[Setting, ...]
    path: Path | None = None
    #: By command and key.
    said: Mapping[tuple[tuple[str, ...], str], Any] = field(default_factory=dict)

    def value(self, setting: Setting) -> Any:
        """What the file says of an option: in the table of its command, or for all; None if nothing."""
        own = self.said.get((setting.command, setting.key))
        return self.said.get(((), setting.key)) if own is None and setting.shared else own

    def in_force(self, setting: Setting) -> tuple[str, str]:
        """What holds unless an option says otherwise, and who says so."""
        if text := os.environ.get(setting.variable):
            return text, setting.variable
        value = self.value(setting)
        return (setting.default, "default") if value is None else (value_text(value), str(self.path))

    def defaults(self) -> dict[str, Any]:
        """The same as Typer takes it, table in table."""
        tables: dict[str, Any] = {}
        for setting in self.settings:
            if (value := self.value(setting)) is not None:
                table = tables
                for word in setting.command:
                    table = table.setdefault(word, {})
                table[setting.option.name] = value
        return tables


def configure(context: typer.Context, given: Path | None) -> None:
    """Give all commands what the file says: the one that is named, or that in the working directory, if there is."""
    settings = tuple(settings_of(cast("TyperGroup", context.command)))
    path = given or (FILE if FILE.exists() else None)
    found = Configuration(settings) if path is None else _read(path, settings)
    _check_environment(settings)
    context.default_map = found.defaults()
    context.meta[KEY] = found


def configuration_of(context: typer.Context) -> Configuration:
    """What was found when the command began."""
    found: Configuration = context.find_root().meta[KEY]
    return found


# --- the file ---------------------------------------------------------------------------------------------------------


def _read(path: Path, settings: tuple[Setting, ...]) -> Configuration:
    try:
        return Configuration(settings, path, dict(_said(read_toml(path), (), settings)))
    except InvalidConfiguration as error:
        raise InvalidConfiguration(f"{path}: {error}") from error


def _said(
    table: Mapping[str, Any], above: tuple[str, ...], settings: tuple[Setting, ...]
) -> Iterator[tuple[tuple[tuple[str, ...], str], Any]]:
    """What a table says and those in it, checked."""
    here = {one.key: one for one in settings if (one.command == above if above else one.shared)}
    below = {one.command[len(above)] for one in settings if one.command[: len(above)] == above != one.command}
    for key, value in table.items():
        if key in here:
            yield (above, key), _checked(above, here[key], value)
        elif key in below and isinstance(value, dict):
            yield from _said(value, (*above, key), settings)
        else:
            raise _unknown(above, key, value, [*here, *below])


def _unknown(above: tuple[str, ...], key: str, value: object, known: list[str]) -> InvalidConfiguration:
    where = f"[{'.'.join(above)}]" if above else "the file"
    if key in known:
        return InvalidConfiguration(f"expected [{'.'.join((*above, key))}], a table, got {key} = {shown(value)}")
    if not above and key in OF_PIPELINES:
        return InvalidConfiguration(f"{key!r} belongs into a pipeline's file, as `batchline run FILE` takes it")
    kind = "table" if isinstance(value, dict) else "key"
    likely = did_you_mean(key.replace("-", "_"), known)
    return InvalidConfiguration(f"{where} has no {kind} {key!r}{likely or f'; it has {_some(known)}'}")


def _some(known: list[str]) -> str:
    words = sorted(known)
    return ", ".join(words[:20]) + (", …" if len(words) > 20 else "") if words else "none"


def _checked(above: tuple[str, ...], setting: Setting, value: Any) -> Any:
    where = f"[{'.'.join(above)}] {setting.key}" if above else setting.key
    option = setting.option
    if option.multiple:
        if not isinstance(value, list):
            raise InvalidConfiguration(f"{where} must be a list, got {shown(value)}")
        value = [_typed(where, str, one) for one in value]
    else:
        value = _typed(where, option.type_descriptor.annotation, value)
    _try(where, option, value)
    return value


def _typed(where: str, kind: object, value: Any) -> Any:
    types, expected = EXPECTED.get(kind, ((str, int, float), "a text"))
    if not isinstance(value, types) or (isinstance(value, bool) and kind is not bool):
        raise InvalidConfiguration(f"{where} must be {expected}, got {shown(value)}")
    return value if kind in EXPECTED else str(value)


def _try(where: str, option: TyperOption, value: Any) -> None:
    """Let the option read it, as it will when its command runs; a file is not opened for that."""
    if option.type_descriptor.is_file:
        return
    try:
        option.process_value(typer.Context(typer.core.TyperCommand(None)), value)
    except typer.BadParameter as error:
        message = error.message.removeprefix("Value error, ").removesuffix(".")
        came = "" if "got" in message else f", got {shown(value)}"
        raise InvalidConfiguration(f"{where}: {message}{came}") from error


# --- the environment --------------------------------------------------------------------------------------------------


def _check_environment(settings: tuple[Setting, ...]) -> None:
    """What the environment says is as it should be; each is named, for Typer would name the option."""
    named = {setting.variable: setting.option for setting in settings}
    for name in sorted(os.environ.keys() - named.keys()):
        if name.startswith(PREFIX) and (near := _nearly(name, named)):
            screen.err.print(f"[dim]{name} is no option of any command: did you mean {near}?[/]", highlight=False)
    for name in sorted(named.keys() & os.environ.keys()):
        if os.environ[name]:
            context = typer.Context(typer.core.TyperCommand(None))
            _try(name, named[name], named[name].value_from_envvar(context))


def _nearly(name: str, known: Iterable[str]) -> str:
    """A name in the environment that this one looks very much like: others may have theirs there, too."""
    words = {one.removeprefix(PREFIX): one for one in known}
    near = difflib.get_close_matches(name.removeprefix(PREFIX), words, n=1, cutoff=LIKE)
    return words[near[0]] if near else ""
