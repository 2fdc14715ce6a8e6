"""A chart over time, drawn with characters.

Rate  cost a second; █ is 20,000
     20,000 ┤▇▇▇▇██████████████████████████████
            │██████████████████████████████████
          0 ┼──────────────────────────────────
 instance 1 █▅▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄  ø 10,100  ▲ 20,000
             ╷0 s      ╷20 s     ╷40 s
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from batchline.pictures.axis import SECOND, elapsed_text, tick_step, ticks
from batchline.pictures.series import Chart, Curve, binned, few, mean, number_text, sums_of

__all__ = ["draw_charts"]

EIGHTHS: Final = " ▁▂▃▄▅▆▇█"
#: Beyond the limit a bar looks otherwise, without colours, too.
BEYOND, NOTHING = "▒", "·"
TALL: Final = 5
MOST_CURVES: Final = 10
LONGEST_LABEL, LEAST_PLOT = 14, 20
COLOURS: Final = ("blue", "yellow", "green", "magenta", "cyan", "bright_magenta", "bright_yellow", "bright_green")
QUIET, OVER = "dim", "bold red"


@dataclass(frozen=True, slots=True)
class _Frame:
    """The widths that all charts share, so that a moment is in the same place of each."""

    label: int
    plot: int
    number: int


def draw_charts(charts: Sequence[Chart], width: int) -> Text:
    """Draw charts of the same time, one below the other, in lines of at most so many cells."""
    drawn = [few(chart, MOST_CURVES) for chart in charts]
    frame = _frame_of(drawn, width)
    lines = [line for chart in drawn for line in (*_chart(chart, frame), Text())][:-1]
    for line in lines:
        line.rstrip()
        line.truncate(width, overflow="ellipsis")
    return Text("\n", no_wrap=True, overflow="crop").join(lines)


def _frame_of(charts: Sequence[Chart], width: int) -> _Frame:
    curves = [curve for chart in charts for curve in chart.curves]
    tops = [number_text(chart.top) for chart in charts]
    label = min(LONGEST_LABEL, max(map(cell_len, [*tops, *(curve.name for curve in curves)])))
    number = max((len(number_text(max(curve.values, default=0))) for curve in curves), default=0)
    seconds = max(chart.seconds for chart in charts)
    room = width - label - 2 * number - 10
    # A second takes up to two cells, where it is short.
    return _Frame(label, max(LEAST_PLOT, min(room, 2 * seconds)), number)


def _chart(chart: Chart, frame: _Frame) -> Iterator[Text]:
    full = f"; █ is {number_text(chart.highest)}" if any(any(curve.values) for curve in chart.curves) else ""
    yield Text.assemble((chart.title, "bold"), "  ", (f"{chart.unit}{full}", QUIET))
    if chart.summed:
        yield from _tall(chart, frame)
    for curve in chart.curves:
        yield _curve(curve, chart, frame)
    yield _axis(chart, frame)


def _tall(chart: Chart, frame: _Frame) -> Iterator[Text]:
    """All together, against the limit; of each column the largest second."""
    values = binned(sums_of(chart.curves), frame.plot, max)
    limit = chart.limit or 0
    each = chart.top / TALL
    for row in range(TALL - 1, -1, -1):
        marks = {chart.top: row == TALL - 1, limit: row * each < limit <= (row + 1) * each}
        said = next((number_text(value) for value, here in reversed(marks.items()) if here), "")
        line = Text(f"{said:>{frame.label}} {'┤' if said else '│'}", QUIET)
        for value in values:
            line.append(*_cell(value, row * each, each, limit))
        if marks[limit]:
            line.append(f"  ◂ {chart.limit_name}", QUIET)
        yield line
    yield Text(f"{0:>{frame.label}} ┼{'─' * frame.plot}", QUIET)


def _cell(value: float, floor: float, each: float, limit: float) -> tuple[str, str]:
    """A part of a bar: full, partly full, or empty."""
    over = value > limit * 1.01 and floor + each > limit * 1.01
    eighths = round(max(0.0, min((value - floor) / each, 1.0)) * 8)
    if not floor and value > 0:
        eighths = max(eighths, 1)
    return (BEYOND, OVER) if over and eighths else (EIGHTHS[eighths], "")


def _curve(curve: Curve, chart: Chart, frame: _Frame) -> Text:
    values = binned(curve.values, frame.plot, mean if chart.stacked else max)
    name = set_cell_size(curve.name.rjust(frame.label), frame.label)
    bar = "".join(_eighth(value, chart.highest) for value in values)
    note = (_note(curve, frame), QUIET)
    style = OVER if curve.colour is None else COLOURS[curve.colour % len(COLOURS)]
    return Text.assemble(name, "  ", (bar, style), "  ", note)


def _eighth(value: float, top: float) -> str:
    """What is there at all is seen, however little it is."""
    return EIGHTHS[max(1, round(value / top * 8))] if value > 0 else NOTHING


def _note(curve: Curve, frame: _Frame) -> str:
    """The mean and the largest; of nothing, nothing."""
    if not any(curve.values):
        return ""
    numbers = [number_text(mean(curve.values)), number_text(max(curve.values))]
    return "  ".join(f"{sign} {number:>{frame.number}}" for sign, number in zip("ø▲", numbers, strict=True))


def _axis(chart: Chart, frame: _Frame) -> Text:
    end_us = chart.seconds * SECOND
    per_us = frame.plot / max(end_us, 1)
    step = max(tick_step(per_us, lambda step: len(elapsed_text(end_us, step)) + 3), SECOND)
    cells = [" "] * frame.plot
    for tick in ticks(0, end_us, step):
        at, text = round(tick * per_us), f"╷{elapsed_text(tick, step)}"
        if at + len(text) <= frame.plot:
            cells[at : at + len(text)] = text
    return Text(f"{'':>{frame.label}}  {''.join(cells)}", QUIET)
