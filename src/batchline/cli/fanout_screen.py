"""Fanouts as a person sees them: a panel for one, a table for many, a sentence for what has ended."""

from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from batchline.cli import screen
from batchline.core.fanout import FailedItem, FanoutStatus
from batchline.core.item_group import ItemGroup

__all__ = ["ended_text", "failed_table", "fanout_row", "fanout_table", "group_table", "items_text", "status_panel"]

COLOURS: Final = {"open": "cyan", "sealed": "blue", "complete": "green", "failed": "red", "expired": "yellow"}
#: A bar is read without colours, too.
ACKED, FAILED, PENDING = ("█", "green"), ("▚", "red"), ("░", "dim")
WIDEST: Final = 100
#: Groups that a terminal shows one by one.
SHOWN: Final = 8


def items_text(count: int) -> str:
    """`1 item`, `1,000 items`."""
    return f"{count:,} item{'' if count == 1 else 's'}"


def ended_text(status: FanoutStatus) -> str:
    """What became of a fanout, in a sentence."""
    name = f"[bold]{screen.plain(status.id)}[/]"
    if status.state == "complete":
        return f"[green]✓[/] {name} is complete: {_all_done(status)}"
    if status.state == "failed":
        are = f"{status.tolerate:,} {'is' if status.tolerate == 1 else 'are'}" if status.tolerate else "none is"
        return f"[red]✗[/] {name} has failed: {status.failed:,} of {items_text(status.total)} failed, {are} tolerated"
    left = "nothing is pending" if not status.pending else f"{status.pending:,} of {items_text(status.total)} pending"
    return f"{name} is [{COLOURS[status.state]}]{status.state}[/], {left}"


def _all_done(status: FanoutStatus) -> str:
    if not status.total:
        return "it has no items"
    if status.failed:
        return f"{items_text(status.acked)} done, {status.failed:,} failed and tolerated"
    return "its one item is done" if status.total == 1 else f"all {items_text(status.total)} are done"


# --- one --------------------------------------------------------------------------------------------------------------


def status_panel(status: FanoutStatus, width: int, boxed: bool) -> RenderableType:
    """All that is known of a fanout; in a box, on a terminal."""
    width = min(width, WIDEST)
    title = f"[bold]{screen.plain(status.id)}[/] · [{COLOURS[status.state]}]{status.state}[/]"
    body = Group(_progress(status, width - 4), "", _counts(status), "", _facts(status))
    if not boxed:
        return Group(title, body)
    return Panel(body, title=title, title_align="left", border_style=COLOURS[status.state], width=width, padding=(0, 1))


def _progress(status: FanoutStatus, width: int) -> Text:
    line = _bar(status, width - 9)
    line.append(f"  {_percent(status.total - status.pending, status.total):>7}")
    return line


def _bar(status: FanoutStatus, width: int) -> Text:
    if not status.total:
        return Text("░" * width, "dim", no_wrap=True)
    parts = [(status.acked, *ACKED), (status.failed, *FAILED), (status.pending, *PENDING)]
    return screen.shares(parts, width)


def _percent(part: int, total: int) -> str:
    """Rounded down: 100 % means all."""
    return f"{part * 1000 // total / 10:.1f} %" if total else "–"


def _counts(status: FanoutStatus) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(justify="right")
    table.add_column(justify="right")
    for name, count, (character, colour) in (
        ("acked", status.acked, ACKED),
        ("failed", status.failed, FAILED),
        ("pending", status.pending, PENDING),
    ):
        table.add_row(f"[{colour}]{character}[/] {name}", f"[bold]{count:,}[/]", _percent(count, status.total))
    table.add_row("  total", f"[bold]{status.total:,}[/]", "" if status.sealed else "so far")
    return table


def _facts(status: FanoutStatus) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name in ("opened", "sealed", "completed", "failed", "expired"):
        moment = getattr(status, f"{name}_at")
        if moment is not None:
            table.add_row(name, screen.moment_text(moment))
    table.add_row("last active", screen.moment_text(status.last_activity_at))
    table.add_row("tolerates", _tolerates(status))
    if status.parent is not None:
        table.add_row("parent", Text(status.parent))
    if status.labels:
        table.add_row("labels", Text(_labels(status)))
    return table


def _tolerates(status: FanoutStatus) -> str:
    if status.tolerate is None:
        return "any number of failed items"
    return f"{status.tolerate or 'no'} failed item{'' if status.tolerate == 1 else 's'}"


def _labels(status: FanoutStatus) -> str:
    return " ".join(f"{name}={value}" for name, value in status.labels.items())


# --- many -------------------------------------------------------------------------------------------------------------


def fanout_table(statuses: Iterable[FanoutStatus], width: int) -> Table:
    """A row per fanout, with a bar; what does not fit a narrow terminal is left out."""
    wide, widest = width >= 80, width >= 110
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("fanout", overflow="fold", ratio=1)
    table.add_column("state", no_wrap=True)
    table.add_column("progress", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    for name in ("items", "failed", "pending", "opened") if wide else ("pending",):
        table.add_column(name, justify="right", no_wrap=True)
    if widest:
        table.add_column("labels", overflow="ellipsis", no_wrap=True, max_width=30)
    for status in statuses:
        counts = (f"{status.total:,}", _failed_text(status), f"{status.pending:,}", screen.when(status.opened_at))
        table.add_row(
            Text(status.id),
            f"[{COLOURS[status.state]}]{status.state}[/]",
            _bar(status, 20 if wide else 8),
            _percent(status.total - status.pending, status.total),
            *(counts if wide else (f"{status.pending:,}",)),
            *([Text(_labels(status))] if widest else []),
        )
    return table


def _failed_text(status: FanoutStatus) -> str:
    return f"[red]{status.failed:,}[/]" if status.failed else "0"


def fanout_row(status: FanoutStatus) -> str:
    """A fanout as a line for a pipe; no id has a tab in it."""
    counts = (status.total, status.acked, status.failed, status.pending)
    return "\t".join([status.id, status.state, *map(str, counts), status.opened_at.isoformat()])


def failed_table(items: Sequence[FailedItem]) -> Table:
    """Failed items with their reasons."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("failed", no_wrap=True)
    table.add_column("item", overflow="fold")
    table.add_column("reason", overflow="fold", style="red")
    for item in items:
        table.add_row(screen.when(item.failed_at), Text(item.id), Text(screen.one_line(item.reason)))
    return table


def group_table(groups: Sequence[ItemGroup]) -> Table:
    """Groups, the first and the last of many."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("group", overflow="fold")
    table.add_column("items", justify="right", no_wrap=True)
    few = len(groups) <= SHOWN
    for group in groups if few else groups[:3]:
        table.add_row(Text(f"{group.fanout}:{group.id}"), str(group.upto))
    if not few:
        table.add_row(f"[dim]… {len(groups) - 4:,} more[/]", "")
        table.add_row(Text(f"{groups[-1].fanout}:{groups[-1].id}"), str(groups[-1].upto))
    return table
