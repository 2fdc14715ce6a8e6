"""The picture as SVG."""

import re
from collections import Counter
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest
from hypothesis import given

from batchline.pictures.captions import printable
from batchline.pictures.palette import TYPE_COLOURS, type_class
from batchline.pictures.svg import svg
from batchline.pictures.svg_strip import LEFT, PLOT, WIDTH
from batchline.pictures.windows import WindowsPicture, picture_of
from tests.pictures import tables
from tests.pictures.tables import BASE_US, KEY, MS, SECOND, USE_CASES, batch, rejected, steady, table_of, use_case

Element = ElementTree.Element
NAME = "{http://www.w3.org/2000/svg}"


def parsed(picture: WindowsPicture) -> Element:
    return ElementTree.fromstring(svg(picture))  # noqa: S314 - our own output


def with_class(root: Element, name: str) -> list[Element]:
    return [found for found in root.iter() if name in found.get("class", "").split()]


def title(found: Element) -> str:
    text = found.findtext(f"{NAME}title")
    assert text is not None
    return text


def texts(root: Element) -> Iterator[str]:
    return (found.text or "" for found in root.iter(f"{NAME}text"))


def boxes(root: Element, kind: str) -> list[tuple[float, float]]:
    rects = [found for found in root.iter(f"{NAME}rect") if found.get("class") == kind]
    return [(float(rect.get("x", 0)), float(rect.get("width", 0))) for rect in rects]


@given(tables.batches, tables.rejections)
def test_every_batch_and_message_is_there_once_and_inside(batched: list[tables.Row], others: list[tables.Row]) -> None:
    picture = picture_of(table_of([*batched, *others]), KEY)
    root = parsed(picture)
    bars = with_class(root, "bar")
    assert sorted(bar.get("data-id", "") for bar in bars) == sorted(bar.id for bar in picture.bars)
    by_id = {bar.get("data-id"): bar for bar in bars}
    for bar in picture.bars:
        shown = Counter(title(dot).split("\n")[0] for dot in with_class(by_id[bar.id], "dot"))
        assert shown == Counter(printable(dot.type) for dot in bar.dots)
    marks = Counter(title(mark).split("\n")[0] for mark in with_class(root, "rejected"))
    assert marks == Counter(f"{message.reason}: {printable(message.type)}" for message in picture.rejected)
    assert_nothing_leaves(root)


def assert_nothing_leaves(root: Element) -> None:
    for circle in root.iter(f"{NAME}circle"):
        assert 0 <= float(circle.get("cx", "")) <= WIDTH
    for x, width in boxes(root, "window") + boxes(root, "waiting"):
        assert x >= 0
        assert x + width <= WIDTH
    for tick in with_class(root, "tick"):
        assert LEFT <= float(tick.get("x", "")) <= LEFT + PLOT


@pytest.mark.parametrize("name", USE_CASES)
def test_windows_and_messages_stand_at_their_place(name: str) -> None:
    batches, others = USE_CASES[name]
    root = parsed(picture_of(use_case(name), KEY))
    first, last = batches[0][0], max(timeout for _, _, timeout, _ in batches)

    def x(ms: float) -> float:
        return LEFT + (ms - first) * PLOT / (last - first)

    for start, end, timeout, members in batches:
        (bar,) = [bar for bar in with_class(root, "bar") if bar.get("data-id") == f"{KEY}@{BASE_US + start * MS}"]
        (window,) = boxes(bar, "window")
        assert window == pytest.approx((x(start), x(end) - x(start)), abs=0.1)
        ((left, width),) = boxes(bar, "waiting")
        assert left + width == pytest.approx(x(timeout), abs=0.2)
        events = sorted(int(re.split("[:@]", member)[1]) for member in members.split())
        assert sorted(float(dot.get("cx", "")) for dot in bar.iter(f"{NAME}circle")) == pytest.approx(
            [x(t) for t in events], abs=0.1
        )
    places = [mark.get("transform", "") for mark in with_class(root, "mark")]
    expected = [x(int(re.split("[:@]", text)[1])) for text, _ in others]
    assert sorted(float(place[10:].split()[0]) for place in places) == pytest.approx(sorted(expected), abs=0.1)


def test_a_tooltip_tells_all_of_a_window_and_of_a_message() -> None:
    root = parsed(picture_of(use_case("UC1"), KEY))
    assert title(with_class(root, "bar")[0]).split("\n") == [
        "pump@1700000000105000",
        "window 2023-11-14 22:13:20.105000 – 22:13:20.155000 UTC",
        "closed 2023-11-14 22:13:20.175000, 20 ms after its end",
        "3 messages · timeout",
    ]
    assert title(with_class(root, "dot")[0]).split("\n") == [
        "a",
        "event 2023-11-14 22:13:20.115000 UTC",
        "received 20 ms later, 2023-11-14 22:13:20.135000 UTC",
        "in pump@1700000000105000",
    ]
    assert title(with_class(root, "rejected")[0]).split("\n")[0] == "late: f"


def test_markup_in_data_is_text() -> None:
    key, type = "a<b>&\"c' 温度 \x00\x1b[1m\ufffe", "<script>alert(1)</script>&amp;"
    rows = batch(BASE_US, BASE_US + SECOND, BASE_US + SECOND, [(type, BASE_US, BASE_US)], key=key)
    root = parsed(picture_of(table_of(rows), key))
    assert {found.tag.removeprefix(NAME) for found in root.iter()} <= {
        "svg",
        "style",
        "rect",
        "g",
        "text",
        "path",
        "circle",
        "title",
    }
    assert "a<b>&\"c' 温度 ��[1m�" in list(texts(root))
    assert title(with_class(root, "dot")[0]).startswith(type)


@given(tables.texts, tables.texts)
def test_any_key_and_type_is_well_formed(key: str, type: str) -> None:
    rows = [
        *batch(BASE_US, BASE_US + 9, BASE_US + 9, [(type, BASE_US, BASE_US)], key=key),
        rejected((type, 0, BASE_US), "late", key=key),
    ]
    assert len(with_class(parsed(picture_of(table_of(rows), key)), "dot")) == 1


def test_it_needs_nothing_from_elsewhere_and_knows_the_dark() -> None:
    drawn = svg(picture_of(use_case("UC1"), KEY))
    assert re.findall("https?://[^\"']+", drawn) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"<script|@import|url\(|href", drawn)
    assert "@media (prefers-color-scheme:dark)" in drawn
    # Several pictures stand on one page: an id would be there twice.
    assert " id=" not in drawn


def test_outliers_are_arrows_with_their_distance() -> None:
    others = [rejected(("a", 1, BASE_US), "late"), rejected(("a", BASE_US - 3_200 * MS, BASE_US), "late")]
    ahead = rejected(("a", BASE_US + 86_400 * 3 * SECOND, BASE_US), "future")
    root = parsed(picture_of(table_of([*steady(2), *others, ahead]), KEY))
    assert {"2 of 3.2 s … 54 years", "3 days"} <= set(texts(root))
    assert len(with_class(root, "rejected")) == 3


def test_messages_of_one_moment_are_told_apart() -> None:
    rows = batch(
        BASE_US, BASE_US + SECOND, BASE_US + SECOND, [(f"type {n}", BASE_US + 9, BASE_US + 9) for n in range(14)]
    )
    dots = with_class(parsed(picture_of(table_of(rows), KEY)), "dot")
    circles = [circle for dot in dots for circle in dot.iter(f"{NAME}circle")]
    assert len({circle.get("cy") for circle in circles}) == 14
    assert len({circle.get("class") for circle in circles}) == 14


def test_twenty_types_look_different() -> None:
    assert len(set(TYPE_COLOURS)) == 10
    assert len({type_class(index) for index in range(20)}) == 20


def test_many_types_are_named_up_to_twenty() -> None:
    rows = batch(BASE_US, BASE_US + SECOND, BASE_US + SECOND, [(f"t{n:02}", BASE_US + n, BASE_US) for n in range(25)])
    root = parsed(picture_of(table_of(rows), KEY))
    named = {found.text for found in root.iter(f"{NAME}text") if "label" not in found.get("class", "")}
    assert {"t00", "t19", "+ 5 types"} <= named
    assert "t20" not in named


def test_a_batch_closed_before_its_end_shows_what_it_never_came_to() -> None:
    rows = batch(BASE_US, BASE_US + SECOND, BASE_US + 500 * MS, [("a", BASE_US, BASE_US)], close_reason="full")
    (bar,) = with_class(parsed(picture_of(table_of(rows), KEY)), "bar")
    assert boxes(bar, "window unused") == [(LEFT, PLOT)]
    assert boxes(bar, "window") == [(LEFT, PLOT / 2)]
    assert "closed 2023-11-14 22:13:20.500000, 500 ms before its end" in title(bar)


def test_hours_left_out_and_what_is_hidden_are_said() -> None:
    later = BASE_US + 7_200 * SECOND
    rows = [
        *steady(1),
        *batch(later, later + SECOND, later + SECOND, [("a", later, later)]),
        *batch(later * 2, later * 2 + 9, later, [("a", later * 2, 0)]),
    ]
    said = list(texts(parsed(picture_of(table_of(rows), KEY, limit=2))))
    assert "⋮ 2 h without a batch" in said
    assert "not shown: 1 later batch, 1 batched message" in said
    assert {"2023-11-14", "2023-11-15"} <= set(said)


def test_nothing_is_said_to_be_nothing() -> None:
    assert list(texts(parsed(picture_of(table_of([]), KEY)))) == ["pump", "no messages"]


def test_all_rejected_is_a_picture_too() -> None:
    root = parsed(picture_of(table_of([rejected(("a", 0, BASE_US), "late")]), KEY))
    assert len(with_class(root, "rejected")) == 1
    assert "no batches · rejected: 1 late" in list(texts(root))
