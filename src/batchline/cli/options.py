"""The options of the commands, and how their texts are read."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from batchline.core.moment import span_of
from batchline.errors import InvalidInput

__all__ = [
    "Anchor",
    "Checkpoint",
    "Clock",
    "Columns",
    "Engine",
    "Follow",
    "Input",
    "Json",
    "LeapLimit",
    "Master",
    "MaxBytes",
    "MaxDelay",
    "Once",
    "Order",
    "Skew",
    "Split",
    "Window",
]

RULES = "Rules"
INPUT = "Input"
ENGINE = "Engine"
FOLLOWING = "Following a directory"


def _span(text: str | timedelta) -> timedelta:
    if isinstance(text, timedelta):
        return text
    try:
        return span_of(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _rule(name: str, text: str, **more: Any) -> Any:
    return typer.Option(name, help=text, rich_help_panel=RULES, **more)


def _span_rule(name: str, text: str, shown: str) -> Any:
    return _rule(name, text, parser=_span, metavar="SPAN", show_default=shown)


Window = Annotated[timedelta, _span_rule("--window", "Longest stretch of event time in a batch.", "500ms")]
MaxDelay = Annotated[timedelta, _span_rule("--max-delay", "Later than this a message is rejected as late.", "400ms")]
LeapLimit = Annotated[timedelta, _span_rule("--leap-limit", "Further ahead than this it is from the future.", "400ms")]
MaxBytes = Annotated[int | None, _rule("--max-bytes", "Largest batch in bytes; needs a column size.", metavar="N")]
Anchor = Annotated[str, _rule("--anchor", "Where a window starts: arrival, lookback, event or aligned.")]
Split = Annotated[str, _rule("--split", "Where a conflict parts: later, or midpoint (anchor event).")]

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
Json = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]

Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
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
        "--skew", "How far out of receive order rows may come.", parser=_span, metavar="SPAN", show_default="0s"
    ),
]
Clock = Annotated[
    str | None,
    _following("--clock", "What moves time on: data, or wall for receive times of now.", show_default="data"),
]
Checkpoint = Annotated[
    str | None,
    _following(
        "--checkpoint", "Where the stream is remembered.", metavar="DIR", show_default="DIR/.checkpoint of --out"
    ),
]


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
