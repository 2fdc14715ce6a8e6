"""The options of the commands, and how their texts are read."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from batchline.cli.completion import fanout_ids, words
from batchline.core.moment import span_of
from batchline.core.tracker_checks import LONGEST_PAGE
from batchline.errors import InvalidInput

__all__ = [
    "DEFAULT_STORE",
    "DEFAULT_WAIT",
    "AddId",
    "After",
    "Anchor",
    "CallId",
    "Checkpoint",
    "Clock",
    "Columns",
    "Engine",
    "ExpireSealed",
    "ExpireUnsealed",
    "FanoutId",
    "Follow",
    "Input",
    "ItemFile",
    "ItemIds",
    "Json",
    "Labels",
    "LeapLimit",
    "Limit",
    "Master",
    "MaxBytes",
    "MaxDelay",
    "Once",
    "Order",
    "Skew",
    "Split",
    "Store",
    "Tolerate",
    "Tombstone",
    "Wait",
    "Window",
    "labels_of",
    "list_of",
    "names_of",
    "read_span",
    "tolerated",
]

RULES = "Rules"
INPUT = "Input"
ENGINE = "Engine"
FOLLOWING = "Following a directory"
EXPIRY = "Expiry"


def read_span(text: str | timedelta) -> timedelta:
    """A span such as 500ms; anything else is a wrong command line."""
    if isinstance(text, timedelta):
        return text
    try:
        return span_of(text)
    except OverflowError as error:
        raise typer.BadParameter(f"expected a span that a calendar holds, got {text!r}") from error
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _rule(name: str, text: str, **more: Any) -> Any:
    return typer.Option(name, help=text, rich_help_panel=RULES, **more)


def _span_rule(name: str, text: str, shown: str) -> Any:
    return _rule(name, text, parser=read_span, metavar="SPAN", show_default=shown)


Window = Annotated[timedelta, _span_rule("--window", "Longest stretch of event time in a batch.", "500ms")]
MaxDelay = Annotated[timedelta, _span_rule("--max-delay", "Later than this a message is rejected as late.", "400ms")]
LeapLimit = Annotated[timedelta, _span_rule("--leap-limit", "Further ahead than this it is from the future.", "400ms")]
MaxBytes = Annotated[int | None, _rule("--max-bytes", "Largest batch in bytes; needs a column size.", metavar="N")]
Anchor = Annotated[
    str,
    _rule(
        "--anchor",
        "Where a window starts: arrival, lookback, event or aligned.",
        autocompletion=words("arrival", "lookback", "event", "aligned"),
    ),
]
Split = Annotated[
    str,
    _rule(
        "--split",
        "Where a conflict parts: later, or midpoint (anchor event).",
        autocompletion=words("later", "midpoint"),
    ),
]

Input = Annotated[
    Path, typer.Argument(metavar="INPUT", help="A file of JSON lines, CSV or Parquet, or a directory of such files.")
]
Columns = Annotated[
    str,
    typer.Option(
        "--columns",
        help="What the columns are called in the input, such as key=device,event_time=t.",
        metavar="OURS=THEIRS,…",
        rich_help_panel=INPUT,
    ),
]
Order = Annotated[
    str,
    typer.Option(
        "--order",
        help="Columns that order what was received at the same moment, such as an offset.",
        metavar="NAME,…",
        rich_help_panel=INPUT,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        autocompletion=words("spark", "local"),
        help="spark, or local: all in the memory of one process.",
        show_default="spark, where it is installed",
        rich_help_panel=ENGINE,
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        help="Where Spark runs: here, or on a cluster such as spark://host:7077.",
        metavar="URL",
        show_default="local[*]",
        rich_help_panel=ENGINE,
    ),
]


def _following(name: str, text: str, **more: Any) -> Any:
    return typer.Option(name, help=text, rich_help_panel=FOLLOWING, **more)


Follow = Annotated[bool, _following("--follow", "Go on with each new file in the directory, until Ctrl-C.")]
Once = Annotated[bool, _following("--once", "Take what is there, hand out what is open, and end.")]
Skew = Annotated[
    timedelta | None,
    _following(
        "--skew", "How far out of receive order rows may come.", parser=read_span, metavar="SPAN", show_default="0s"
    ),
]
Clock = Annotated[
    str | None,
    _following(
        "--clock",
        "What moves time on: data, or wall for receive times of now.",
        show_default="data",
        autocompletion=words("data", "wall"),
    ),
]
Checkpoint = Annotated[
    str | None,
    _following(
        "--checkpoint", "Where the stream is remembered.", metavar="DIR", show_default="DIR/.checkpoint of --out"
    ),
]

# --- the tracker ------------------------------------------------------------------------------------------------------

DEFAULT_STORE = "sqlite:///batchline.db"
Store = Annotated[
    str,
    typer.Option(
        "--store", help="Where state is kept: sqlite, postgresql or mysql.", metavar="URL", envvar="BATCHLINE_STORE"
    ),
]
DEFAULT_WAIT = timedelta(seconds=30)
Wait = Annotated[
    timedelta,
    typer.Option(
        "--wait",
        help="How long to wait for a store that is away at the start.",
        metavar="SPAN",
        parser=read_span,
        show_default="30s",
        envvar="BATCHLINE_WAIT",
    ),
]
FanoutId = Annotated[
    str, typer.Argument(metavar="ID", help="The id of the fanout.", show_default=False, autocompletion=fanout_ids)
]


def _pair(text: str) -> str:
    name, _, value = text.partition("=")
    if not (name and value):
        raise typer.BadParameter(f"expected a pair such as job=import, got {text!r}")
    return text


Labels = Annotated[
    list[str] | None,
    typer.Option("--label", help="A label, such as job=import; any number of them.", metavar="K=V", parser=_pair),
]
Tolerate = Annotated[
    str, typer.Option("--tolerate", help="How many items may fail before the fanout does.", metavar="N|any")
]


def _expiry(name: str, text: str, shown: str) -> Any:
    return typer.Option(name, help=text, parser=read_span, metavar="SPAN", show_default=shown, rich_help_panel=EXPIRY)


ExpireUnsealed = Annotated[
    timedelta | None, _expiry("--expire-unsealed", "Give it up after so long without activity, before the seal.", "7d")
]
ExpireSealed = Annotated[timedelta | None, _expiry("--expire-sealed", "The same, after the seal.", "30d")]
Tombstone = Annotated[
    timedelta | None, _expiry("--tombstone", "For so long a late ack is answered `expired`, not `unknown`.", "30d")
]
AddId = Annotated[
    str | None,
    typer.Option("--add-id", help="A name for this call: repeated with it, it adds nothing.", metavar="NAME"),
]
CallId = Annotated[
    str | None,
    typer.Option("--call-id", help="A name for this call: repeated with it, it gets the same answer.", metavar="NAME"),
]
ItemIds = Annotated[list[str] | None, typer.Argument(metavar="ITEM", help="Ids of items.", show_default=False)]
ItemFile = Annotated[
    typer.FileText | None,
    typer.Option(
        "--file",
        help="Ids from a file, one a line, or groups as `add` prints them; - for standard input.",
        encoding="utf-8",
        errors="replace",
    ),
]
Limit = Annotated[int, typer.Option("--limit", help="How many to show.", min=1, max=LONGEST_PAGE)]
After = Annotated[
    str | None, typer.Option("--after", help="Go on after this item, the last of the page before.", metavar="ITEM")
]


def labels_of(pairs: Sequence[str] | None) -> dict[str, str]:
    """`["job=import", "day=monday"]` as a mapping; two values for one name are refused."""
    labels: dict[str, str] = {}
    for name, _, value in (pair.partition("=") for pair in pairs or ()):
        if labels.setdefault(name, value) != value:
            raise typer.BadParameter(
                f"{name!r} is given twice, as {labels[name]!r} and {value!r}", param_hint="--label"
            )
    return labels


def tolerated(text: str) -> int | None:
    """`3` as a number, `any` as None."""
    if text == "any":
        return None
    if not (text.isascii() and text.isdecimal()):
        raise typer.BadParameter(f"expected a number of items, or any, got {text!r}", param_hint="--tolerate")
    return int(text)


# --- texts with several parts -----------------------------------------------------------------------------------------


def names_of(columns: str) -> dict[str, str]:
    """`key=device,type=sensor` as a mapping from our names to theirs."""
    names = {}
    for pair in filter(None, columns.split(",")):
        ours, equals, theirs = pair.partition("=")
        if not (ours and equals and theirs):
            raise InvalidInput(f"--columns expects pairs such as key=device, got {pair!r}")
        names[ours.strip()] = theirs.strip()
    return names


def list_of(names: str) -> list[str]:
    """`a,b` as a list."""
    return [name.strip() for name in names.split(",") if name.strip()]
