"""One key's windows, drawn with characters.

2023-11-14  ╷22:13:20.0 ────────╷22:13:20.5 ────────
…000000     ├──●──●●───2────────┤···············       5 timeout
…500000                         ●────●────┤·······     2 timeout
× late              ×                                  1
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from batchline.pictures.axis import clock_text, day_text, duration_text, tick_step, ticks
from batchline.pictures.captions import (
    MARKS,
    NO_MESSAGES,
    BatchNames,
    counts_text,
    distances_text,
    hidden_text,
    names_of,
    printable,
    received_text,
    stretch_text,
)
from batchline.pictures.strips import Lane, Strip, lanes_of, strips_of
from batchline.pictures.windows import Bar, WindowsPicture

__all__ = ["draw"]

#: A typical window gets at least so many cells: at 80 columns two windows, and the wait of the second, in a strip.
READABLE_CELLS = 18
LEAST_PLOT = 24
#: " 1234 timeout", "    1 by 54 years"
NOTE_CELLS = 17
LONGEST_LABEL = 16

WINDOW, MEMBER, WAITING, FRAME, QUIET = "green", "bold green", "dim", "dim", "dim"
REASON_STYLES = {"late": "bold red", "future": "bold yellow", "duplicate": "yellow", "oversize": "bold magenta"}

LEGEND = (
    ("●", MEMBER, "message"),
    ("├─┤", WINDOW, "window"),
    ("···", WAITING, "open for late messages until it closes"),
    ("→", WAITING, "closes later"),
    ("╌╌╌", WAITING, "closed before its end"),
)
SEVERAL = ("2–9 ◆", "", "several in one cell")
OFF_AXIS = ("◂ ▸", "", "event time off the axis, so far from receipt")


@dataclass(frozen=True, slots=True)
class _Scale:
    """Where a moment lies on a strip, in cells."""

    first_us: int
    last_us: int
    cells: int

    def cell(self, us: int) -> int:
        at = (us - self.first_us) * self.cells // max(1, self.last_us - self.first_us)
        return min(max(at, 0), self.cells - 1)


class _Canvas:
    """A line of cells to write on, each with a style."""

    def __init__(self, cells: int) -> None:
        self._cells = [(" ", "")] * cells

    def put(self, at: int, text: str, style: str) -> None:
        text = text[: len(self._cells) - at]
        self._cells[at : at + len(text)] = [(letter, style) for letter in text]

    def is_free(self, at: int, length: int) -> bool:
        """Whether there is room, with a space on both sides."""
        return all(letter == " " for letter, _ in self._cells[max(0, at - 1) : at + length + 1])

    def text(self) -> Text:
        return Text.assemble(*self._cells)


@dataclass(frozen=True, slots=True)
class _Frame:
    """The columns: a label, the plot, a note."""

    width: int
    labels: int
    names: BatchNames

    @property
    def plot(self) -> int:
        return max(LEAST_PLOT, self.width - self.labels - NOTE_CELLS)

    def line(self, label: str, plot: Text, note: str = "", *, label_style: str = "", note_style: str = "") -> Text:
        label = set_cell_size(label, self.labels - 1) + " "
        return Text.assemble((label, label_style), plot, (f" {note}", note_style))


def draw(picture: WindowsPicture, width: int) -> Text:
    """Draw the picture in lines of at most so many cells; wide spans are cut into strips, one below the other."""
    frame = _frame_of(picture, width)
    lines = [*_heading(picture)]
    if picture.bars or picture.rejected:
        strips = strips_of(picture, frame.plot / READABLE_CELLS)
        drawn = list(_strips(strips, frame))
        lines += [*drawn, *_legend(picture, strips, frame, used="".join(line.plain for line in drawn))]
    for line in lines:
        line.rstrip()
        line.truncate(width, overflow="ellipsis")
    return Text("\n", no_wrap=True, overflow="crop").join(lines)


def _frame_of(picture: WindowsPicture, width: int) -> _Frame:
    names = names_of(picture)
    labels = [names.short(bar.id) for bar in picture.bars] + ["2023-11-14", "▣ oversize"]
    return _Frame(width, min(LONGEST_LABEL, max(map(cell_len, labels))) + 2, names)


def _heading(picture: WindowsPicture) -> Iterator[Text]:
    key = (printable(picture.key), "bold")
    if not picture.bars and not picture.rejected:
        yield Text.assemble(key, "  ", NO_MESSAGES)
        return
    yield Text.assemble(key, "  ", stretch_text(picture))
    for text, style in ((received_text(picture), ""), (counts_text(picture), ""), (hidden_text(picture), QUIET)):
        if text:
            yield Text(text, style)


def _strips(strips: Sequence[Strip], frame: _Frame) -> Iterator[Text]:
    day = ""
    for previous, strip in zip((None, *strips), strips, strict=False):
        yield _pause(previous, strip, frame)
        scale = _Scale(strip.first_us, strip.last_us, frame.plot)
        yield _axis(scale, frame, "" if day == day_text(strip.first_us) else day_text(strip.first_us))
        yield from _strip(strip, scale, frame)
        day = day_text(strip.first_us)


def _pause(previous: Strip | None, strip: Strip, frame: _Frame) -> Text:
    """Time left out between two strips is said where it is as long as a strip: shorter, the axes tell."""
    pause = strip.first_us - previous.last_us if previous else 0
    if pause > strip.last_us - strip.first_us:
        return frame.line("", Text(f"⋮ {duration_text(pause)} without a batch", QUIET))
    return Text()


def _axis(scale: _Scale, frame: _Frame, day: str) -> Text:
    per_us = scale.cells / max(1, scale.last_us - scale.first_us)
    step = tick_step(per_us, lambda step: len(clock_text(scale.first_us, step)) + 3)
    canvas = _Canvas(frame.plot)
    canvas.put(0, "─" * frame.plot, FRAME)
    for tick in ticks(scale.first_us, scale.last_us, step):
        canvas.put(scale.cell(tick), "╷", FRAME)
        text = f"{clock_text(tick, step)} "
        if scale.cell(tick) + len(text) < frame.plot:
            canvas.put(scale.cell(tick) + 1, text, "")
    return frame.line(day, canvas.text(), label_style=QUIET)


def _strip(strip: Strip, scale: _Scale, frame: _Frame) -> Iterator[Text]:
    for bar in strip.bars:
        note = f"{bar.members:>4,} {bar.close_reason}"
        yield frame.line(frame.names.short(bar.id), _bar(bar, scale), note, note_style=QUIET)
    for lane in lanes_of(strip):
        yield from _lane(lane, scale, frame)


def _bar(bar: Bar, scale: _Scale) -> Text:
    start, end = scale.cell(bar.start_us), scale.cell(bar.end_us)
    canvas = _Canvas(scale.cells)
    canvas.put(start, "─" * (end - start), WINDOW)
    _close(canvas, bar, scale)
    canvas.put(end, "┤", WINDOW)
    canvas.put(start, "├", WINDOW)
    # A message lies before the end of its window, also where both fall into one cell.
    cells = Counter(min(scale.cell(dot.event_us), max(start, end - 1)) for dot in bar.dots)
    _marks(canvas, cells, "●", MEMBER)
    return canvas.text()


def _close(canvas: _Canvas, bar: Bar, scale: _Scale) -> None:
    """What lies between the end of the window and its close: waiting for late messages, or closed before its end."""
    end, closed = scale.cell(bar.end_us), scale.cell(bar.closed_at_us)
    if bar.closed_at_us > bar.end_us:
        canvas.put(end + 1, "·" * (closed - end), WAITING)
        if bar.closed_at_us > scale.last_us:
            canvas.put(scale.cells - 1, "→", WAITING)
    else:
        closed = max(closed, scale.cell(bar.start_us))
        canvas.put(closed, "╌" * (end - closed), WAITING)


def _lane(lane: Lane, scale: _Scale, frame: _Frame) -> Iterator[Text]:
    """The rejected messages of a reason: a line, and a second one where those off the axis need the room."""
    mark, style = MARKS[lane.reason], REASON_STYLES[lane.reason]
    canvases = [_Canvas(scale.cells)]
    _marks(canvases[0], Counter(scale.cell(message.event_us) for message in lane.here), mark, style)
    if lane.before:
        _write(canvases, f"◂ {distances_text(lane.before)}", style)
    if lane.after:
        _write(canvases, f"{distances_text(lane.after)} ▸".rjust(scale.cells), style)
    note = f"{len(lane.messages):>4,} {_distance_note(lane)}"
    yield frame.line(f"{mark} {lane.reason}", canvases[0].text(), note, label_style=style, note_style=QUIET)
    for canvas in canvases[1:]:
        yield frame.line("", canvas.text())


def _distance_note(lane: Lane) -> str:
    """How late or early they came: of the others, the time between event and receipt is not the reason."""
    if lane.reason not in {"late", "future"}:
        return ""
    furthest = max(abs(message.receive_us - message.event_us) for message in lane.messages)
    return f"{'by' if len(lane.messages) == 1 else '≤'} {duration_text(furthest)}"


def _write(canvases: list[_Canvas], text: str, style: str) -> None:
    """Write on the last line, or on a new one where it has no room; leading spaces are the place."""
    at = len(text) - len(text.lstrip())
    if not canvases[-1].is_free(at, len(text) - at):
        canvases.append(_Canvas(len(canvases[0].text())))
    canvases[-1].put(at, text.lstrip(), style)


def _marks(canvas: _Canvas, cells: Counter[int], mark: str, style: str) -> None:
    for cell, count in cells.items():
        canvas.put(cell, mark if count == 1 else str(count) if count < 10 else "◆", style)


def _legend(picture: WindowsPicture, strips: Iterable[Strip], frame: _Frame, used: str) -> Iterator[Text]:
    """Only the signs that the picture uses are explained."""
    signs = [sign for sign in LEGEND if sign[0][-1] in used]
    if re.search(r"\d[●─┤◆·]|[●─├◆]\d|◆", used):
        signs.append(SEVERAL)
    if any(strip.before or strip.after for strip in strips):
        signs.append(OFF_AXIS)
    yield Text()
    yield from _wrap([Text.assemble((sign, style), (f" {words}", QUIET)) for sign, style, words in signs], frame.width)
    if frame.names.prefix:
        yield Text(f"{frame.names.short(picture.bars[0].id)} is {printable(picture.bars[0].id)}", QUIET)


def _wrap(pieces: Iterable[Text], width: int) -> Iterator[Text]:
    line = Text()
    for piece in pieces:
        if line and line.cell_len + piece.cell_len > width:
            yield line
            line = Text()
        line = Text.assemble(line, piece, "   ")
    yield line
