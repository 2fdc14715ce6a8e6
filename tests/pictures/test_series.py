"""Charts over time: on a terminal and as SVG."""

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from batchline.pictures.axis import HOUR, MINUTE, SECOND, elapsed_text
from batchline.pictures.series import Chart, Curve, Stretch, binned, few, mean, number_text, round_step, sums_of
from batchline.pictures.series_svg import CURVES, LEFT, PLOT, PLOT_HEIGHT, TOP, chart_svg
from batchline.pictures.series_terminal import BEYOND, NOTHING, draw_charts

Element = ElementTree.Element
HALVES = Chart(
    "Rate", "cost a second", [Curve("one", [10.0] * 60, 0), Curve("two", [10.0] * 60, 1)], limit=20, summed=True
)
BACKLOG = Chart("Backlog", "cost", [Curve("one", list(range(60)), 0), Curve("idle", [0.0] * 60, 1)], stacked=False)


def parsed(chart: Chart) -> Element:
    return ElementTree.fromstring(chart_svg(chart))  # noqa: S314 - our own output


def with_class(root: Element, name: str) -> list[Element]:
    return [found for found in root.iter() if name in found.get("class", "").split()]


def drawn(*charts: Chart, width: int = 80) -> list[str]:
    return draw_charts(charts, width).plain.split("\n")


amounts = st.just(0.0) | st.floats(0, 1e9)
names = st.text(st.characters(exclude_categories=("C", "Z")))


@st.composite
def charts(draw: st.DrawFn) -> Chart:
    seconds = draw(st.integers(1, 40))
    curves = [
        Curve(draw(names), draw(st.lists(amounts, min_size=seconds, max_size=seconds)), place)
        for place in range(draw(st.integers(1, 25)))
    ]
    limit = draw(st.none() | st.floats(1, 1e9))
    return Chart("Rate", "cost", curves, draw(st.booleans()), limit, summed=limit is not None)


# --- numbers ---


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.25, "0.25"), (12, "12"), (99.96, "100"), (20_000, "20,000"), (1e6, "1 M"), (1_250_000, "1.25 M")],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert number_text(value) == text


@given(st.floats(1e-3, 1e12))
def test_steps_are_round_and_few(top: float) -> None:
    step = round_step(top, 4)
    assert 1.5 < top / step <= 4.0001
    assert f"{step:e}"[0] in "125"


@pytest.mark.parametrize(
    ("us", "step", "text"),
    [
        (0, 20 * SECOND, "0 s"),
        (100 * SECOND, 20 * SECOND, "100 s"),
        (150 * SECOND, 30 * SECOND, "2:30 min"),
        (MINUTE, MINUTE, "1:00 min"),
        (2 * HOUR + 5 * MINUTE, 10 * MINUTE, "2:05 h"),
        (SECOND // 2, SECOND // 2, "0.5 s"),
    ],
)
def test_ticks_say_how_long_it_has_been(us: int, step: int, text: str) -> None:
    assert elapsed_text(us, step) == text


@given(st.lists(amounts, min_size=1, max_size=300), st.integers(1, 100))
def test_bins_choose_of_every_value(values: list[float], bins: int) -> None:
    found = binned(values, bins, max)
    assert len(found) == bins
    assert max(found) == max(values) or bins > len(values)
    assert set(found) <= set(values)


def test_many_curves_are_the_first_and_all_others() -> None:
    curves = [Curve(f"{place}", [1.0, 2.0], place) for place in range(30)]
    refused = Curve("throttled", [5.0, 5.0], None)
    chart = Chart("Rate", "cost", [*curves, refused])
    shown = few(chart, 10)
    assert [curve.name for curve in shown.curves] == [*map(str, range(9)), "21 others", "throttled"]
    assert sums_of(shown.curves) == sums_of(chart.curves)
    assert few(shown, 10) is shown


def test_the_mean_of_nothing_is_nothing() -> None:
    assert mean([]) == 0


# --- on a terminal ---


def test_a_chart_against_its_limit_is_read_without_colours() -> None:
    lines = drawn(HALVES)
    assert lines[0] == "Rate  cost a second; █ is 10"
    assert re.fullmatch(r" *20 ┤█+  ◂ limit", lines[1])
    assert re.fullmatch(r" *one  █+  ø 10  ▲ 10", lines[7])
    assert re.search(r"╷0 s +╷", lines[9])


def test_what_is_beyond_the_limit_looks_otherwise() -> None:
    over = Chart("Rate", "cost", [Curve("one", [10.0] * 20 + [30.0] * 20, 0)], limit=20, summed=True)
    assert BEYOND in drawn(over)[1]
    assert BEYOND not in "".join(drawn(HALVES))


def test_nothing_is_seen_as_nothing_and_a_little_as_a_little() -> None:
    lines = drawn(BACKLOG)
    assert set(lines[2].split()[1]) == {NOTHING}
    assert re.match(f"{NOTHING}+▁", lines[1].split()[1])
    assert lines[2].split()[2:] == []


def test_a_moment_is_in_the_same_place_of_every_chart() -> None:
    lines = drawn(HALVES, BACKLOG)
    axes = [line for line in lines if "╷" in line]
    assert len(axes) == 2
    assert axes[0] == axes[1]


@given(charts(), st.sampled_from([40, 80, 120]))
def test_no_line_is_wider_than_the_terminal(chart: Chart, width: int) -> None:
    assert all(cell_len(line) <= width for line in drawn(chart, width=width))


# --- as SVG ---


def test_areas_lie_on_each_other_below_the_limit() -> None:
    root = parsed(HALVES)
    areas = [path for path in with_class(root, "area") if path.tag.endswith("path")]
    tops = [min(float(y) for y in re.findall(r" (\d+\.\d)", path.get("d", ""))) for path in areas]
    (limit,) = [path for path in with_class(root, "late") if path.tag.endswith("path")]
    assert limit.get("d", "").startswith(f"M{LEFT} {tops[1]:.1f}H")
    assert tops[0] > tops[1] > TOP


@given(charts())
def test_every_curve_is_inside_and_named(chart: Chart) -> None:
    root = parsed(chart)
    for path in (*with_class(root, "area"), *with_class(root, "curve")):
        for x, y in re.findall(r"(-?\d+\.\d) (-?\d+\.\d)", path.get("d", "")):
            assert LEFT - 0.1 <= float(x) <= LEFT + PLOT + 0.1
            assert TOP - 0.1 <= float(y) <= TOP + PLOT_HEIGHT + 0.1
    swatches = [one for one in with_class(root, "area") if one.tag.endswith("rect")]
    assert len(swatches) == min(len(chart.curves), CURVES)


def test_pointing_at_a_moment_tells_its_values() -> None:
    bands = with_class(parsed(HALVES), "band")
    assert len(bands) == 60
    assert (bands[3][0].text or "").split("\n") == ["3 – 4 s", "all: 20", "one: 10", "two: 10"]


def test_what_was_refused_is_red() -> None:
    chart = Chart("Rate", "cost", [Curve("one", [1.0], 0), Curve("throttled", [1.0], None)], limit=2)
    assert len(with_class(parsed(chart), "refused")) == 2


def test_long_simulations_are_drawn_with_few_points() -> None:
    chart = Chart("Rate", "cost", [Curve("one", [1.0] * 86_400, 0)], limit=2)
    assert len(chart_svg(chart)) < 60_000


def test_it_is_for_light_and_dark_and_needs_nothing_from_elsewhere() -> None:
    text = chart_svg(HALVES)
    assert "prefers-color-scheme:dark" in text
    assert not re.search(r"<script|<link|@import|url\(|src=|href=", text)


def test_marked_times_are_shaded_within_the_plot_and_named_where_there_is_room() -> None:
    pauses = [Stretch(10, 30, "pause"), Stretch(59.9, 90, "another pause")]
    chart = Chart("Rate", "cost", [Curve("one", [1.0] * 60, 0)], stretches=pauses)
    first, second = with_class(parsed(chart), "stretch")
    assert float(first.get("x", "")) == pytest.approx(LEFT + PLOT / 6, abs=0.1)
    assert float(first.get("width", "")) == pytest.approx(PLOT / 3, abs=0.1)
    assert float(second.get("x", "")) + float(second.get("width", "")) <= LEFT + PLOT + 1
    assert second[0].text == "another pause: 59.9 – 90.0 s"
    named = [found.text for found in with_class(parsed(chart), "quiet")]
    assert "pause" in named
    assert "another pause" not in named
