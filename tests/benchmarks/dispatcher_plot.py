"""A plot of shares as they change: an area for each, one on the other, and a line for what there is to share."""

from collections.abc import Mapping, Sequence
from html import escape
from itertools import accumulate

__all__ = ["stacked_plot"]

WIDTH, HEIGHT = 960, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 130, 40, 50
#: Blue, orange, green, pink: told apart also by those who see few colours.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7")
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#333}.title{font-size:15px;font-weight:600}"
    ".grid{stroke:#ddd}.limit{stroke:#333;stroke-dasharray:6 4}"
)
Point = tuple[float, float]


def stacked_plot(title: str, series: Mapping[str, Sequence[float]], step_s: float, limit: float) -> str:
    """SVG of values a second, each for a step of time, and of the limit of their sum."""
    names = list(series)
    sums = [list(accumulate(values)) for values in zip(*series.values(), strict=True)]
    scale = _Scale(len(sums) * step_s, max([limit, *(levels[-1] for levels in sums)]) * 1.05)
    areas = [_area(scale, sums, place, step_s, COLOURS[place % len(COLOURS)]) for place in range(len(names))]
    parts = [*areas, *_grid(scale, limit), *_legend(names)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
        f"<title>{escape(title)}</title><style>{STYLE}</style>"
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
        f'<text class="title" x="{LEFT}" y="24">{escape(title)}</text>{"".join(parts)}</svg>\n'
    )


class _Scale:
    """From seconds and values to places in the plot."""

    def __init__(self, seconds: float, most: float):
        self.seconds, self.most = seconds, most

    def x(self, seconds: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * seconds / self.seconds, 1)

    def y(self, value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self.most, 1)


def _area(scale: _Scale, sums: Sequence[Sequence[float]], place: int, step_s: float, colour: str) -> str:
    """A step is as wide as its time: nothing is made smoother than it was."""
    top = _steps(scale, [levels[place] for levels in sums], step_s)
    bottom = _steps(scale, [levels[place - 1] if place else 0.0 for levels in sums], step_s)
    points = " ".join(f"{x},{y}" for x, y in [*top, *reversed(bottom)])
    return f'<polygon points="{points}" fill="{colour}"/>'


def _steps(scale: _Scale, values: Sequence[float], step_s: float) -> list[Point]:
    return [(scale.x(at * step_s), scale.y(value)) for step, value in enumerate(values) for at in (step, step + 1)]


def _grid(scale: _Scale, limit: float) -> list[str]:
    right = WIDTH - RIGHT
    parts = []
    for part in range(5):
        value = limit * part / 4
        y = scale.y(value)
        kind = "limit" if part == 4 else "grid"
        parts.append(f'<line class="{kind}" x1="{LEFT}" x2="{right}" y1="{y}" y2="{y}" stroke-opacity=".8"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{value:,.0f}</text>')
    for tenth in range(7):
        seconds = scale.seconds * tenth / 6
        x, y = scale.x(seconds), HEIGHT - BOTTOM + 20
        parts.append(f'<text x="{x}" y="{y}" text-anchor="middle">{seconds:g} s</text>')
    return parts


def _legend(names: Sequence[str]) -> list[str]:
    parts = []
    for place, name in enumerate(reversed(names)):
        colour = COLOURS[(len(names) - 1 - place) % len(COLOURS)]
        x, y = WIDTH - RIGHT + 12, TOP + 20 + place * 24
        parts.append(f'<rect x="{x}" y="{y - 11}" width="13" height="13" fill="{colour}"/>')
        parts.append(f'<text x="{x + 20}" y="{y}">{escape(name)}</text>')
    return parts
