"""Bars and histograms: what is counted, and what is drawn of it."""

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.pictures.bars import Bars, Histogram, histogram_of, quantile
from batchline.pictures.bars_svg import LEFT, PLOT, bars_svg, histogram_svg

Element = ElementTree.Element
values = st.lists(st.floats(0, 1e6), max_size=50)


def parsed(svg: str) -> Element:
    return ElementTree.fromstring(svg)  # noqa: S314 - our own output


def rectangles(root: Element) -> list[Element]:
    return [found for found in root.iter() if "area" in found.get("class", "").split()]


def texts(root: Element) -> list[str]:
    return ["".join(found.itertext()) for found in root.iter() if found.tag.endswith("text")]


def counted(*sizes: float, top: float | None = None) -> Histogram:
    return histogram_of("Fill", "parcels", "measurements", sizes, bins=10, top=top)


@given(values)
def test_every_value_is_in_one_bin(sizes: list[float]) -> None:
    chart = histogram_of("", "", "", sizes)
    assert sum(chart.counts) == len(sizes)
    assert len(chart.edges) == len(chart.counts) + 1
    assert chart.edges[-1] >= max(sizes, default=0) * (1 - 1e-9)


def test_a_value_on_an_edge_lies_above_it_and_the_largest_below_the_last() -> None:
    chart = counted(0, 20, 39, 200, top=200)
    assert list(chart.edges) == [20.0 * place for place in range(11)]
    assert list(chart.counts) == [1, 2, 0, 0, 0, 0, 0, 0, 0, 1]


def test_nothing_is_one_empty_scale() -> None:
    assert sum(counted().counts) == 0
    assert parsed(histogram_svg(counted())) is not None


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.5, 50), (0.99, 99), (1.0, 100)])
def test_quantiles_are_values_that_are_there(share: float, value: float) -> None:
    assert quantile(list(range(100, 0, -1)), share) == value
    assert quantile([], share) == 0


def test_a_histogram_has_a_column_for_each_bin_that_is_not_empty() -> None:
    root = parsed(histogram_svg(counted(0, 20, 39, 200, top=200)))
    lefts = [float(one.get("x", "")) for one in rectangles(root)]
    assert lefts == pytest.approx([LEFT + PLOT * share + 0.5 for share in (0, 0.1, 0.9)], abs=0.1)
    assert [one[0].text for one in rectangles(root)] == ["0 – 20: 1", "20 – 40: 2", "180 – 200: 1"]
    assert "measurements" in texts(root)


def test_marked_values_are_named() -> None:
    chart = histogram_of("", "", "", [1, 2, 3], marks=[(2, "p50 2 s"), (3, "p99 3 s")])
    assert {"p50 2 s", "p99 3 s"} <= set(texts(parsed(histogram_svg(chart))))


def test_bars_are_as_long_as_their_amounts_and_say_their_shares() -> None:
    root = parsed(bars_svg(Bars("Rejections", "lines", [("late", 300), ("future", 100), ("none", 0)])))
    long, short, least = (float(one.get("width", "")) for one in rectangles(root))
    assert long == pytest.approx(3 * short, rel=0.01)
    assert least == 2
    assert {"late", "300 · 75.0%", "100 · 25.0%"} <= set(texts(root))


def test_names_are_text_whatever_is_in_them() -> None:
    root = parsed(bars_svg(Bars("<b>", "a & b", [("<script>", 1)])))
    assert "<script>" in texts(root)


def test_no_bars_are_an_empty_picture() -> None:
    assert rectangles(parsed(bars_svg(Bars("Rejections", "lines", [])))) == []
