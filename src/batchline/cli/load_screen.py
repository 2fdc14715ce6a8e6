"""The load of a topic as a person sees it: bars over the future."""

from collections.abc import Iterator
from itertools import groupby, islice
from typing import Final

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from batchline.cli import screen
from batchline.cli.message_screen import WIDEST
from batchline.cli.outcomes import messages_text
from batchline.cli.topic_screen import counts_block
from batchline.core.future_load import Bin, Counts, Load
from batchline.core.moment import us_of
from batchline.pictures.axis import clock_text, day_text, duration_text

__all__ = ["load_panel"]

#: A bar is read without colours, too.
WITHIN, BEYOND, LIMIT = ("█", "blue"), ("▓", "red"), ("┊", "dim")
EIGHTHS: Final = " ▏▎▍▌▋▊▉"
#: Empty bins in a row that are shown one by one.
FEW: Final = 2
#: Bins that are shown one by one.
SHOWN: Final = 200


def load_panel(topic: str, counts: Counts, load: Load, width: int, boxed: bool) -> RenderableType:
    """Messages by state, and bars over the future; in a box, on a terminal."""
    width = min(width, WIDEST)
    first, last = load.bins[0], load.bins[-1]
    length = duration_text(us_of(last.end) - us_of(first.begin))
    due = sum(one.count for one in load.bins)
    title = f"[bold]{screen.plain(topic)}[/]"
    head = Text.assemble(
        f"from {first.begin:%Y-%m-%d %H:%M:%S} UTC on, in {length}: ", (f"{messages_text(due)} due", "bold")
    )
    parts = [counts_block(counts, width - 4), "", head]
    if due:
        parts += ["", _bars(load, width - 4)]
    parts += ["", _legend(load)]
    if not boxed:
        return Group(title, *parts)
    colour = "red" if load.spikes else "blue"
    return Panel(Group(*parts), title=title, title_align="left", border_style=colour, width=width, padding=(0, 1))


def _bars(load: Load, width: int) -> Table:
    step_us = _step_us(load)
    most = max(one.count for one in load.bins)
    mark_width = max((len(_mark(one, load)) for one in load.bins), default=0)
    count_width = len(f"{most:,}")
    clock_width = max(len(clock_text(us_of(one.begin), step_us)) for one in load.bins)
    bar_width = max(8, width - 10 - clock_width - count_width - mark_width - 8)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, width=bar_width)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True, style="bold red")
    day = ""
    for row in islice(_rows(load), SHOWN):
        one, begin_us = row[0], us_of(row[0].begin)
        clock, today = clock_text(begin_us, step_us), day_text(begin_us)
        shown_day, day = today if today != day and clock != today else "", today
        count = f"{one.count:,}" if one.count else "[dim]0[/]"
        bar: RenderableType = _bar(one, most, _limit(one, load), bar_width)
        if len(row) > 1:
            bar = f"[dim]nothing for {duration_text(us_of(row[-1].end) - begin_us)}[/]"
        table.add_row(shown_day, clock, bar, count, _mark(one, load))
    left = sum(1 for _ in islice(_rows(load), SHOWN, None))
    if left:
        table.add_row("", "", f"[dim]… {left:,} more rows; with fewer --bins it fits[/]")
    return table


def _rows(load: Load) -> Iterator[list[Bin]]:
    """What a row shows: one bin, or many empty ones."""
    for empty, group in groupby(load.bins, key=lambda one: not one.count):
        bins = list(group)
        if empty and len(bins) > FEW:
            yield bins
        else:
            yield from ([one] for one in bins)


def _step_us(load: Load) -> int:
    """How precise the clock must be to tell bins apart."""
    lengths = [us_of(one.end) - us_of(one.begin) for one in load.bins]
    inner = [us_of(one.begin) for one in load.bins[1:]]
    for step_us in (86_400_000_000, 60_000_000, 1_000_000):
        if min(lengths[1:-1] or lengths) >= step_us and all(us % step_us == 0 for us in inner):
            return step_us
    return 1_000_000 if min(lengths[1:-1] or lengths) >= 1_000_000 else 1_000


def _limit(one: Bin, load: Load) -> float | None:
    """How many messages the consumers can take in this time."""
    return (
        None if load.messages_per_second is None else load.messages_per_second * (one.end - one.begin).total_seconds()
    )


def _mark(one: Bin, load: Load) -> str:
    limit = _limit(one, load)
    return f"▲ {one.count / limit:,.1f}×" if one.spike and limit else ""


def _bar(one: Bin, most: int, limit: float | None, width: int) -> Text:
    """A bar; what is beyond the limit differs, and where it is below, the limit is marked."""
    eighths = max(1, one.count * width * 8 // most) if one.count else 0
    cells, rest = divmod(eighths, 8)
    at = width if limit is None else min(width, int(limit * width / most))
    bar = Text(no_wrap=True)
    if one.spike:
        cells = max(1, cells)
        within = min(at, cells - 1)
        bar.append(WITHIN[0] * within, WITHIN[1])
        bar.append(BEYOND[0] * (cells - within), BEYOND[1])
        return bar
    bar.append(WITHIN[0] * cells + EIGHTHS[rest].strip(), WITHIN[1])
    if len(bar) <= at < width:
        bar.append(" " * (at - len(bar)))
        bar.append(*LIMIT)
    return bar


def _legend(load: Load) -> Text:
    if load.messages_per_second is None:
        return Text("No live consumer has shown what it can take: spikes are not marked.", "dim")
    can = f"{load.messages_per_second:,.1f}".removesuffix(".0")
    if not load.spikes:
        return Text(f"The live consumers can take {can} messages a second: no spike.", "dim")
    legend = Text(f"The live consumers can take {can} messages a second", "dim")
    legend.append(f" ({LIMIT[0]}); ")
    legend.append(f"{BEYOND[0]} ▲", "bold red")
    legend.append(" is more than that.", "dim")
    return legend
