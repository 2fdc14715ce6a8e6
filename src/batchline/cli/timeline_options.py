"""The options of the timeline's commands, and how their texts are read."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

import typer

from batchline.cli.completion import topic_names
from batchline.cli.options import read_span
from batchline.cli.stores import open_existing
from batchline.core.due_time import LATEST_MS, ms_of
from batchline.core.moment import LONGEST_SPAN_US, span_us
from batchline.errors import UnknownTopic, did_you_mean
from batchline.runtime.timeline import Timeline

__all__ = [
    "DEFAULT_NAME",
    "At",
    "Consumer",
    "For",
    "IdFile",
    "In",
    "LeaseFile",
    "LeaseTexts",
    "MessageFile",
    "MessageIds",
    "ProducerGroup",
    "TopicName",
    "due_of",
    "naming_topics",
    "read_after",
    "read_moment",
    "timeline_on",
]

#: Producer group and consumer of who does not say otherwise.
DEFAULT_NAME: Final = "cli"
EXAMPLE: Final = "2026-11-20T08:00:00Z"


@contextmanager
def timeline_on(url: str, topic: str | None = None) -> Iterator[Timeline]:
    """A timeline on the store as it is; should the topic not be there, the one that it looks like is named."""
    with open_existing(url) as store:
        timeline = Timeline(store)
        with naming_topics(timeline, topic):
            yield timeline


@contextmanager
def naming_topics(timeline: Timeline, topic: str | None) -> Iterator[None]:
    """Within it, a topic that is not there is answered with the one that it looks like."""
    try:
        yield
    except UnknownTopic as error:
        known = [] if topic is None else [one.name for one in timeline.topics() if not one.deleted]
        raise UnknownTopic(f"{error}{did_you_mean(topic or '', known)}") from error


def read_moment(text: str | datetime) -> datetime:
    """A moment such as 2026-11-20T08:00:00Z; anything else, and one without a zone, is a wrong command line."""
    if isinstance(text, datetime):
        return text
    try:
        moment = datetime.fromisoformat(text)
        at_ms = ms_of(moment)
    except ValueError as error:
        raise typer.BadParameter(f"expected a moment with its zone, such as {EXAMPLE}, got {text!r}") from error
    if not 0 <= at_ms <= LATEST_MS:
        raise typer.BadParameter(f"expected a moment from 1970 to 9999 in UTC, got {text!r}")
    return moment


def read_after(text: str | timedelta) -> timedelta:
    """Read a span from now such as 10m, from 0 to 36,500 days; anything else is a wrong command line."""
    span = read_span(text)
    if not 0 <= span_us(span) <= LONGEST_SPAN_US:
        raise typer.BadParameter(f"expected a span from 0s to 36500d, got {text!r}: name a past moment with at")
    return span


def due_of(at: datetime | None, in_: timedelta | None) -> datetime | timedelta | None:
    """Return the due time of --at or --in; None if neither is given. Both are a wrong command line.

    A span stays one: the timeline's clock resolves it.
    """
    if at is not None and in_ is not None:
        raise typer.BadParameter("give one of them, not both", param_hint="--at, --in")
    return at if in_ is None else in_


def _file(text: str) -> Any:
    # What is no UTF-8 must be seen where it stands, neither replaced nor an error of the whole file.
    return typer.Option("--file", help=text, encoding="utf-8-sig", errors="surrogateescape", metavar="FILE")


TopicName = Annotated[
    str, typer.Argument(metavar="TOPIC", help="The name of the topic.", show_default=False, autocompletion=topic_names)
]
ProducerGroup = Annotated[
    str,
    typer.Option("--producer-group", help="Who owns the messages.", metavar="NAME", envvar="BATCHLINE_PRODUCER_GROUP"),
]
Consumer = Annotated[
    str, typer.Option("--consumer", help="Who holds the leases.", metavar="NAME", envvar="BATCHLINE_CONSUMER")
]
At = Annotated[
    datetime | None,
    typer.Option("--at", help=f"A moment with its zone, such as {EXAMPLE}.", metavar="TIME", parser=read_moment),
]
In = Annotated[
    timedelta | None, typer.Option("--in", help="A span from now, such as 10m.", metavar="SPAN", parser=read_after)
]
For = Annotated[
    timedelta | None,
    typer.Option(
        "--for", help="How long the lease is.", metavar="SPAN", parser=read_span, show_default="the topic's lease"
    ),
]
MessageIds = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="Ids of messages; - for standard input.", show_default=False),
]
MessageFile = Annotated[typer.FileText | None, _file("Messages from a file of JSON lines; - for standard input.")]
IdFile = Annotated[
    typer.FileText | None, _file("Ids from a file, one a line, or JSON lines that have an id; - for standard input.")
]
LeaseTexts = Annotated[
    list[str] | None,
    typer.Argument(metavar="LEASE", help="Leases as `lease` prints them; - for standard input.", show_default=False),
]
LeaseFile = Annotated[
    typer.FileText | None, _file("Leases from a file, as `lease` prints them, with or without --json.")
]
