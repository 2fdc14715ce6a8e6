"""Bars and histograms as SVG, light or dark as the viewer prefers."""

from collections.abc import Iterator

from batchline.pictures.bars import Bars, Histogram
from batchline.pictures.elements import drawing, element, fitted, lines, text_width, words
from batchline.pictures.palette import SERIES_STYLE, type_class
from batchline.pictures.series import number_text, round_step

__all__ = ["bars_svg", "histogram_svg"]

WIDTH, LEFT, RIGHT, TOP = 1120, 76, 20, 22
#: Of bars: the room for names on the left and for amounts on the right, and the height of a line.
NAMES, AMOUNTS, LINE = 150, 150, 28
PLOT_HEIGHT, AXIS_HEIGHT = 190, 44
PLOT = WIDTH - LEFT - RIGHT
#: Room above the highest bar; and where values are marked, for their names.
HEADROOM, HEADROOM_FOR_MARKS = 1.06, 1.3
#: The least that is seen of what is there at all.
LEAST = 2.0


def bars_svg(chart: Bars, colour: int = 0) -> str:
    """Named bars, one below the other, each with its amount and its share of all."""
    total = sum(amount for _, amount in chart.bars) or 1
    height = TOP + LINE * max(len(chart.bars), 1) + 8
    room = WIDTH - NAMES - AMOUNTS
    drawn = []
    for place, (name, amount) in enumerate(chart.bars):
        y, wide = TOP + LINE * place, room * amount / chart.top
        said = f"{number_text(amount)} · {amount / total:.1%}"
        drawn += [
            element("text", words(fitted(name, 11, NAMES - 16)), x=NAMES - 10, y=y + 18, text_anchor="end"),
            element(
                "rect", lines(name, said), class_=f"area {type_class(colour)}", **_box(NAMES, y + 4, wide, LINE - 8)
            ),
            element("text", words(said), class_="quiet", x=NAMES + max(wide, LEAST) + 8, y=y + 18),
        ]
    return _svg(chart.title, chart.unit, height, NAMES, drawn)


def histogram_svg(chart: Histogram, colour: int = 0) -> str:
    """Standing bars over an axis of values."""
    scale = chart.top * (HEADROOM_FOR_MARKS if chart.marks else HEADROOM)
    drawn = [*_grid(chart, scale), *_columns(chart, scale, colour), *_marks(chart)]
    drawn.append(element("path", class_="rule", d=f"M{LEFT} {TOP + PLOT_HEIGHT}H{WIDTH - RIGHT}"))
    name = element("text", words(chart.axis), class_="quiet", x=LEFT, y=TOP + PLOT_HEIGHT + 36)
    return _svg(chart.title, chart.unit, TOP + PLOT_HEIGHT + AXIS_HEIGHT, LEFT, [*drawn, name])


def _svg(title: str, unit: str, height: float, left: float, drawn: list[str]) -> str:
    label = f"{title}: {unit}"
    return drawing(
        "series",
        SERIES_STYLE,
        WIDTH,
        height,
        label,
        element("text", words(unit), class_="quiet", x=left, y=14),
        *drawn,
    )


def _box(x: float, y: float, width: float, height: float) -> dict[str, float]:
    return {"x": x, "y": y, "width": max(width, LEAST), "height": height, "rx": 2}


def _x(value: float, chart: Histogram) -> float:
    return LEFT + PLOT * value / chart.edges[-1]


def _y(count: float, scale: float) -> float:
    return TOP + PLOT_HEIGHT * (1 - count / scale)


def _grid(chart: Histogram, scale: float) -> Iterator[str]:
    step = max(round_step(chart.top, 4), 1)
    for number in range(int(scale // step) + 1):
        y = _y(number * step, scale)
        yield element("path", class_="grid", d=f"M{LEFT} {y:.1f}H{WIDTH - RIGHT}")
        yield element("text", number_text(number * step), class_="quiet", x=LEFT - 8, y=y + 4, text_anchor="end")
    step = round_step(chart.edges[-1], 12)
    for number in range(int(chart.edges[-1] // step + 1e-9) + 1):
        x, label = _x(number * step, chart), number_text(number * step)
        anchor = "end" if x + text_width(label, 11) / 2 > WIDTH - 4 else "middle"
        yield element("text", label, class_="quiet tick", x=x, y=TOP + PLOT_HEIGHT + 17, text_anchor=anchor)


def _columns(chart: Histogram, scale: float, colour: int) -> Iterator[str]:
    for place, count in enumerate(chart.counts):
        if not count:
            continue
        x, end = _x(chart.edges[place], chart), _x(chart.edges[place + 1], chart)
        high = max(PLOT_HEIGHT * count / scale, LEAST)
        box = _box(x + 0.5, TOP + PLOT_HEIGHT - high, end - x - 1, high)
        said = lines(f"{chart.between(place)}: {number_text(count)}")
        yield element("rect", said, class_=f"area {type_class(colour)}", **box)


def _marks(chart: Histogram) -> Iterator[str]:
    """A line at each marked value, its name beside it, one below the other so that none covers another."""
    for place, (value, name) in enumerate(chart.marks):
        x = _x(value, chart)
        yield element("path", class_="late", d=f"M{x:.1f} {TOP}V{TOP + PLOT_HEIGHT}")
        left = x > LEFT + PLOT / 2
        anchor = "end" if left else "start"
        yield element(
            "text", words(name), class_="late", x=x - 6 if left else x + 6, y=TOP + 10 + 16 * place, text_anchor=anchor
        )
