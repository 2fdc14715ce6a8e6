"""What a person sees: results on standard output, progress and complaints beside it."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from rich.bar import Bar
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

__all__ = ["counts", "err", "forget_output", "live", "out", "plain", "say_json", "steps"]

out = Console()
err = Console(stderr=True)


def plain(text: str) -> str:
    """The text without its brackets being taken for colours."""
    return escape(text)


def say_json(data: Mapping[str, Any]) -> None:
    """Data for a program, on standard output; moments in ISO-8601."""
    sys.stdout.write(json.dumps(data, indent=2, default=_iso) + "\n")


def _iso(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{value!r} has no form in JSON")


def counts(title: str, rows: Mapping[str, int]) -> Table:
    """A table of counts with their shares, as bars; the first one is the ordinary case."""
    total = sum(rows.values()) or 1
    table = Table(title=title, title_justify="left", box=None, show_header=False, padding=(0, 2, 0, 0))
    for place, (name, count) in enumerate(rows.items()):
        bar = Bar(size=total, begin=0, end=count, width=30, color="yellow" if place else "green")
        table.add_row(plain(name), f"[bold]{count:>12,}[/]", f"{count / total:>7.2%}", bar)
    return table


@contextmanager
def steps() -> Iterator[Any]:
    """A progress bar per step, beside the results; it is given to the path as its watch."""
    columns = (TextColumn("{task.description:<9}"), BarColumn(bar_width=40), TextColumn("{task.percentage:>4.0f} %"))
    hidden = not err.is_terminal
    with Progress(*columns, TimeElapsedColumn(), console=err, transient=True, disable=hidden) as progress:
        tasks: dict[str, TaskID] = {}

        def watch(step: str, done: int, total: int) -> None:
            if step not in tasks:
                tasks[step] = progress.add_task(step, total=None)
            # A step that cannot say how far it is shows that it moves.
            progress.update(tasks[step], completed=done, total=total if done or total > 1 else None)

        yield watch


@contextmanager
def live(text: str) -> Iterator[Callable[[str], None]]:
    """A line that changes, beside the results; the last thing it said is gone at the end."""
    with err.status(plain(text)) as status:
        yield lambda now: status.update(plain(now))


def forget_output() -> None:
    """Give standard output away, so that Python does not fail on flushing it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
