"""Topics: as a person sees them, and as data for a program."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from batchline.cli import screen
from batchline.cli.message_screen import COLOURS, WIDEST
from batchline.core.future_load import Counts
from batchline.core.message import moment_ms
from batchline.core.moment import span_text
from batchline.core.topic import Topic
from batchline.stores.timeline_rows import ConsumerRow

__all__ = [
    "consumer_data",
    "counts_block",
    "counts_data",
    "topic_data",
    "topic_panel",
    "topic_row",
    "topic_table",
]

#: A bar is read without colours, too.
MARKS: Final = {"available": "█", "processing": "▚", "waiting": "░"}
#: Consumers that a terminal shows one by one.
SHOWN: Final = 20


# --- for programs -----------------------------------------------------------------------------------------------------


def topic_data(topic: Topic) -> dict[str, Any]:
    """A topic for a program; spans as the options take them."""
    return {
        "name": topic.name,
        "buckets": topic.buckets,
        "max_ahead": span_text(topic.max_ahead),
        "lease": span_text(topic.lease),
        "longest_lease": span_text(topic.longest_lease),
        "max_attempts": topic.max_attempts,
        "dead_letter": topic.dead_letter,
        "rate_limit": topic.rate_limit,
        "keep": span_text(topic.keep),
        "deleted": topic.deleted,
        "internal": topic.internal,
    }


def counts_data(counts: Counts) -> dict[str, int]:
    """Messages by state for a program."""
    return {state: getattr(counts, state) for state in ("waiting", "processing", "available", "total")}


def consumer_data(one: ConsumerRow) -> dict[str, Any]:
    """A consumer for a program."""
    speed = {"messages_per_second": one.messages_per_second}
    return {"consumer": one.consumer, "seen_at": moment_ms(one.seen_ms), "drift_ms": one.drift_ms} | speed


def topic_row(topic: Topic) -> str:
    """A topic as a line for a pipe; no name has a tab in it."""
    spans = (span_text(topic.max_ahead), span_text(topic.lease))
    ends = (topic.max_attempts, topic.dead_letter, None if topic.rate_limit is None else f"{topic.rate_limit:g}")
    return "\t".join([topic.name, str(topic.buckets), *spans, *("-" if end is None else str(end) for end in ends)])


# --- for people -------------------------------------------------------------------------------------------------------


def topic_table(topics: Iterable[Topic], width: int) -> Table:
    """A row per topic; what does not fit a narrow terminal is left out."""
    wide = width >= 80
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("topic", overflow="fold")
    table.add_column("lease", justify="right", no_wrap=True)
    if wide:
        table.add_column("ahead", justify="right", no_wrap=True)
        table.add_column("buckets", justify="right", no_wrap=True)
        table.add_column("a second", justify="right", no_wrap=True)
    table.add_column("attempts", justify="right", no_wrap=True)
    table.add_column("then to", overflow="fold")
    for one in topics:
        name = Text(one.name)
        if one.deleted:
            name.append(" being deleted", "red")
        if one.internal:
            name.append(" internal", "dim")
        more = (span_text(one.max_ahead), f"{one.buckets:,}", _any(one.rate_limit)) if wide else ()
        table.add_row(name, span_text(one.lease), *more, _any(one.max_attempts), Text(one.dead_letter or ""))
    return table


def _any(number: float | None) -> str:
    return "[dim]any[/]" if number is None else f"{number:,}" if isinstance(number, int) else f"{number:,g}"


def topic_panel(
    topic: Topic, counts: Counts, consumers: Sequence[ConsumerRow], width: int, boxed: bool
) -> RenderableType:
    """All that is known of a topic; in a box, on a terminal."""
    width = min(width, WIDEST)
    title = f"[bold]{screen.plain(topic.name)}[/]" + (" · [red]being deleted[/]" if topic.deleted else "")
    body = Group(counts_block(counts, width - 4), "", _rules(topic), "", _consumers(consumers))
    if not boxed:
        return Group(title, body)
    colour = "red" if topic.deleted else "blue"
    return Panel(body, title=title, title_align="left", border_style=colour, width=width, padding=(0, 1))


def counts_block(counts: Counts, width: int) -> RenderableType:
    """Messages by state: a bar, and what its parts are."""
    parts = [(getattr(counts, state), mark, COLOURS[state]) for state, mark in MARKS.items()]
    legend = Text("   ").join(
        Text.assemble((mark, colour), f" {state} ", (f"{count:,}", "bold"))
        for (count, mark, colour), state in zip(parts, MARKS, strict=True)
    )
    if not counts.total:
        return Text("no messages", "dim")
    return Group(screen.shares(parts, width), legend)


def _rules(topic: Topic) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("lease", f"{span_text(topic.lease)}, at most {span_text(topic.longest_lease)} at a time")
    attempts = Text("any number")
    if topic.max_attempts is not None:
        attempts = Text(f"{topic.max_attempts:,}, then to {topic.dead_letter}")
    table.add_row("attempts", attempts)
    table.add_row("takes", f"messages up to {span_text(topic.max_ahead)} ahead")
    rate = "any number" if topic.rate_limit is None else f"{topic.rate_limit:,g}"
    table.add_row("", f"{rate} a second from a producer group")
    table.add_row("keeps", f"ids for {span_text(topic.keep)} after their messages are done")
    table.add_row("buckets", f"{topic.buckets:,}")
    return table


def _consumers(consumers: Sequence[ConsumerRow]) -> RenderableType:
    if not consumers:
        return Text("no consumer takes part", "dim")
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("consumer", overflow="fold")
    for name in ("seen", "clock", "messages a second"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in consumers[:SHOWN]:
        speed = f"{one.messages_per_second:,.1f}" if one.messages_per_second else "[dim]–[/]"
        table.add_row(Text(one.consumer), screen.when(moment_ms(one.seen_ms)), f"{one.drift_ms:+,} ms", speed)
    if len(consumers) > SHOWN:
        table.add_row(f"[dim]… {len(consumers) - SHOWN:,} more[/]")
    return table
