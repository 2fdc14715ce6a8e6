"""A chart over time as SVG: stacked areas or lines, a limit, and values that show where one points."""

from collections.abc import Iterator, Sequence

from batchline.pictures.axis import SECOND, elapsed_text, tick_step, ticks
from batchline.pictures.elements import drawing, element, fitted, lines, text_width, words
from batchline.pictures.palette import SERIES_STYLE, type_class
from batchline.pictures.series import Chart, Curve, binned, few, mean, number_text, round_step

__all__ = ["chart_svg"]

WIDTH, LEFT, RIGHT, TOP, PLOT_HEIGHT = 1120, 76, 20, 22, 190
PLOT = WIDTH - LEFT - RIGHT
AXIS_HEIGHT, LEGEND_LINE = 26, 18
#: Most points of a curve, and most places where values show.
POINTS, BANDS = 500, 125
#: Most curves, each with a look of its own.
CURVES = 20
#: Room above the highest value, so that neither it nor the limit lies on the edge.
HEADROOM = 1.06


def chart_svg(chart: Chart) -> str:
    """Draw the chart as one SVG element, light or dark as the viewer prefers."""
    chart = few(chart, CURVES)
    curves = chart.curves
    legend = _legend(curves)
    height = TOP + PLOT_HEIGHT + AXIS_HEIGHT + LEGEND_LINE * len(legend) + 8
    scale = chart.top * HEADROOM
    label = f"{chart.title}: {chart.unit}, at most {number_text(chart.top)}"
    return drawing(
        "series",
        SERIES_STYLE,
        WIDTH,
        height,
        label,
        element("text", words(chart.unit), class_="quiet", x=LEFT, y=14),
        *_stretches(chart),
        *_grid(chart, scale),
        *(_areas if chart.stacked else _lines)(curves, chart, scale),
        *_limit(chart, scale),
        element("path", class_="rule", d=f"M{LEFT} {TOP + PLOT_HEIGHT}H{WIDTH - RIGHT}"),
        *_bands(curves, chart),
        *(
            element("g", line, transform=f"translate(0 {TOP + PLOT_HEIGHT + AXIS_HEIGHT + LEGEND_LINE * place})")
            for place, line in enumerate(legend)
        ),
    )


def _look(curve: Curve) -> str:
    return "refused" if curve.colour is None else type_class(curve.colour)


def _x(second: float, chart: Chart) -> float:
    return LEFT + PLOT * second / max(chart.seconds, 1)


def _y(value: float, scale: float) -> float:
    return TOP + PLOT_HEIGHT * (1 - value / scale)


def _grid(chart: Chart, scale: float) -> Iterator[str]:
    step = round_step(chart.top, 4)
    value = 0.0
    while value <= scale:
        y = _y(value, scale)
        yield element("path", class_="grid", d=f"M{LEFT} {y:.1f}H{WIDTH - RIGHT}")
        yield element("text", number_text(value), class_="quiet", x=LEFT - 8, y=y + 4, text_anchor="end")
        value += step
    end_us = chart.seconds * SECOND
    step_us = tick_step(PLOT / max(end_us, 1), lambda step: text_width(elapsed_text(end_us, step), 11) + 44)
    for tick in ticks(0, end_us, max(step_us, SECOND)):
        x = _x(tick / SECOND, chart)
        yield element("path", class_="grid", d=f"M{x:.1f} {TOP}V{TOP + PLOT_HEIGHT + 5}")
        label = elapsed_text(tick, max(step_us, SECOND))
        anchor = "end" if x + text_width(label, 11) / 2 > WIDTH - 4 else "middle"
        yield element("text", label, class_="quiet tick", x=x, y=TOP + PLOT_HEIGHT + 17, text_anchor=anchor)


def _stretches(chart: Chart) -> Iterator[str]:
    """Shaded, and named in the middle where the name has room."""
    for stretch in chart.stretches:
        begin, end = (_x(min(max(second, 0), chart.seconds), chart) for second in (stretch.begin_s, stretch.end_s))
        said = lines(f"{stretch.name}: {stretch.begin_s:.1f} – {stretch.end_s:.1f} s")
        yield element("rect", said, class_="stretch", x=begin, y=TOP, width=max(end - begin, 1), height=PLOT_HEIGHT)
        if text_width(stretch.name, 11) + 8 <= end - begin:
            yield element("text", words(stretch.name), class_="quiet", x=begin + 4, y=TOP + PLOT_HEIGHT / 2)


def _areas(curves: Sequence[Curve], chart: Chart, scale: float) -> Iterator[str]:
    """One on top of the other; each value holds for its second."""
    bins = min(chart.seconds, POINTS)
    floor = [0.0] * bins
    for curve in curves:
        ceiling = [low + value for low, value in zip(floor, binned(curve.values, bins, mean), strict=True)]
        upper = _steps(ceiling, chart, scale)
        lower = reversed(_steps(floor, chart, scale))
        if any(curve.values):
            path = "M" + "L".join([*upper, *lower]) + "Z"
            yield element("path", class_=f"area {_look(curve)}", d=path)
        floor = ceiling


def _lines(curves: Sequence[Curve], chart: Chart, scale: float) -> Iterator[str]:
    bins = min(chart.seconds, POINTS)
    for curve in reversed(curves):
        if any(curve.values):
            path = "M" + "L".join(_steps(binned(curve.values, bins, max), chart, scale))
            yield element("path", class_=f"curve {_look(curve)}", d=path)


def _steps(values: Sequence[float], chart: Chart, scale: float) -> list[str]:
    """The corners of a curve that holds each value for its time."""
    wide = chart.seconds / len(values)
    return [
        f"{_x(second * wide, chart):.1f} {_y(value, scale):.1f}"
        for place, value in enumerate(values)
        for second in (place, place + 1)
    ]


def _limit(chart: Chart, scale: float) -> Iterator[str]:
    if chart.limit is None:
        return
    y = _y(chart.limit, scale)
    yield element("path", class_="late", d=f"M{LEFT} {y:.1f}H{WIDTH - RIGHT}")
    said = f"{chart.limit_name} {number_text(chart.limit)}"
    yield element("text", words(said), class_="late", x=WIDTH - RIGHT, y=y - 5, text_anchor="end")


def _bands(curves: Sequence[Curve], chart: Chart) -> Iterator[str]:
    """Invisible, and they know the values."""
    bands = min(chart.seconds, BANDS)
    means = [binned(curve.values, bands, mean if chart.stacked else max) for curve in curves]
    for band in range(bands):
        begin, end = (chart.seconds * place / bands for place in (band, band + 1))
        said = [f"{curve.name}: {number_text(values[band])}" for curve, values in zip(curves, means, strict=True)]
        together = [f"all: {number_text(sum(values[band] for values in means))}"] if chart.stacked else []
        yield element(
            "rect",
            lines(f"{begin:.0f} – {end:.0f} s", *together, *said),
            class_="band",
            x=_x(begin, chart),
            y=TOP,
            width=_x(end, chart) - _x(begin, chart),
            height=PLOT_HEIGHT,
        )


def _legend(curves: Sequence[Curve]) -> list[str]:
    """The names of the curves, in as many lines as they take."""
    found: list[list[str]] = [[]]
    names = [fitted(curve.name, 11, 180) for curve in curves]
    widths = [text_width(name, 11) + 34 for name in names]
    x = float(LEFT)
    for curve, name, wide in zip(curves, names, widths, strict=True):
        if x + wide > WIDTH - RIGHT:
            found.append([])
            x = float(LEFT)
        swatch = element("rect", class_=f"area {_look(curve)}", x=x, y=3, width=11, height=11, rx=2)
        found[-1].append(swatch + element("text", words(name), class_="quiet", x=x + 16, y=12))
        x += wide
    return ["".join(line) for line in found]
