"""What a person sees: results on standard output, progress and complaints beside it."""

import json
import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final

from rich.bar import Bar
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from batchline.core.moment import moment_of
from batchline.runtime.clock import now_us

__all__ = [
    "age",
    "counts",
    "err",
    "forget_output",
    "json_line",
    "live",
    "moment_text",
    "one_line",
    "out",
    "plain",
    "say",
    "say_json",
    "say_json_lines",
    "say_lines",
    "say_rest",
    "shares",
    "steps",
    "tell_lines",
    "when",
]

UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


class Screen(Console):
    """Where people read; a reader that has seen enough, `head` for instance, is no error."""

    def on_broken_pipe(self) -> None:
        """End well."""
        forget_output()
        raise SystemExit(0)


out = Screen()
err = Console(stderr=True)


def plain(text: str) -> str:
    """The text without its brackets being taken for colours."""
    return escape(text)


def one_line(text: str) -> str:
    """The text with its control characters written out: it stays on its line, and moves no cursor."""
    if text.isprintable():
        return text
    return "".join(_written_out(character) for character in text)


def _written_out(character: str) -> str:
    # Cc: control characters; Cs: halves of a surrogate pair; Zl, Zp: ends of lines and paragraphs.
    if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
        return character.encode("unicode_escape").decode()
    return character


def say(text: str) -> None:
    """A sentence on standard output, with its colours; never broken by us."""
    out.print(text, highlight=False, soft_wrap=True)


def say_lines(lines: Iterable[str]) -> None:
    """Lines for a pipe, on standard output, as they are; any number of them."""
    if not tell_lines(lines):
        out.on_broken_pipe()


def tell_lines(lines: Iterable[str]) -> bool:
    """The same, of a command that has more to do: it goes on when nobody reads any more, which is told."""
    try:
        for line in lines:
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        forget_output()
        return False
    return True


def say_json(data: Mapping[str, Any]) -> None:
    """Data for a program, on standard output; moments in ISO-8601."""
    say_lines([json.dumps(data, indent=2, default=_iso)])


def say_json_lines(objects: Iterable[Mapping[str, Any]]) -> None:
    """Data for a program, on standard output, an object a line."""
    say_lines(map(json_line, objects))


def json_line(data: Mapping[str, Any]) -> str:
    """Data for a program, on one line."""
    return json.dumps(data, default=_iso)


def say_rest(found: bool, nothing: str, after: object, json: bool) -> None:
    """Beside the results: that there are none, or how to go on."""
    if json:
        return
    if not found:
        err.print(f"[dim]{nothing}[/]", highlight=False)
    elif after is not None:
        err.print(f"[dim]more with --after {plain(str(after))}[/]", highlight=False, soft_wrap=True)


def _iso(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{value!r} has no form in JSON")


def moment_text(moment: datetime) -> str:
    """A moment, and how long ago it was or when it will be."""
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC [dim]· {when(moment)}[/]"


def when(moment: datetime) -> str:
    """`3 s ago`, `in 10 m`."""
    ago = moment_of(now_us()) - moment
    # What is left is rounded up: just after something was put an hour ahead, it is due in 1 h.
    return f"in {age(-ago + timedelta(seconds=1, microseconds=-1))}" if ago < timedelta(0) else f"{age(ago)} ago"


def age(span: timedelta) -> str:
    """How long, in the largest unit."""
    seconds = max(0, span // timedelta(seconds=1))
    size, unit = next((pair for pair in UNITS if seconds >= pair[0]), UNITS[-1])
    return f"{seconds // size} {unit}"


def counts(title: str, rows: Mapping[str, int]) -> Table:
    """A table of counts with their shares, as bars; the first one is the ordinary case."""
    total = sum(rows.values()) or 1
    table = Table(title=title, title_justify="left", box=None, show_header=False, padding=(0, 2, 0, 0))
    for place, (name, count) in enumerate(rows.items()):
        bar = Bar(size=total, begin=0, end=count, width=30, color="yellow" if place else "green")
        table.add_row(plain(name), f"[bold]{count:>12,}[/]", f"{count / total:>7.2%}", bar)
    return table


def shares(parts: Iterable[tuple[int, str, str]], width: int) -> Text:
    """A bar of counts, each with its character and colour. What is there at all has a cell, however small its share."""
    there = [part for part in parts if part[0] > 0]
    total = sum(count for count, _, _ in there)
    cells = [max(1, count * width // total) for count, _, _ in there]
    if cells:
        # The largest takes what the rounding left, or gives what the small ones took.
        largest = max(range(len(there)), key=lambda place: there[place][0])
        cells[largest] += width - sum(cells)
    bar = Text(no_wrap=True)
    for (_, character, colour), length in zip(there, cells, strict=True):
        bar.append(character * length, colour)
    return bar


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
            progress.update(tasks[step], completed=done, total=total if total and (done or total > 1) else None)

        yield watch


@contextmanager
def live(text: str) -> Iterator[Callable[[str], None]]:
    """A line that changes, beside the results; the last thing it said is gone at the end."""
    with err.status(plain(text)) as status:
        yield lambda now: status.update(plain(now))


def forget_output() -> None:
    """Give standard output away, so that Python does not fail on flushing it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
