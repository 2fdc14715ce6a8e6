"""The picture in the terminal."""

import io
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from batchline.pictures.terminal import draw
from batchline.pictures.windows import picture_of
from tests.pictures import tables
from tests.pictures.tables import BASE_US, KEY, MS, SECOND, USE_CASES, batch, rejected, steady, table_of, use_case


def lines_of(rows: list[tables.Row], width: int = 100, key: str = KEY) -> list[str]:
    return draw(picture_of(table_of(rows), key), width).plain.splitlines()


def drawn(name: str) -> str:
    return f"\n{draw(picture_of(use_case(name), KEY), 90).plain}\n"


def test_use_case_1_looks_like_this() -> None:
    assert (
        drawn("UC1")
        == """
pump  2023-11-14 22:13:20.105 – 22:13:20.300 UTC
3 batches of 6 messages · rejected: 1 late

2023-11-14  ──────────────╷22:13:20.15 ──╷22:13:20.20 ───╷22:13:20.25 ──╷
…105000     ├──●●──────●───┤······                                           3 timeout
…155000                    ├─●───●─────────┤······                           2 timeout
…230000                                            ├──●───────────┤······    1 timeout
× late                                        ×                              1 by 45 ms

● message   ├─┤ window   ··· open for late messages until it closes
…105000 is pump@1700000000105000
"""
    )


def test_use_case_4_looks_like_this() -> None:
    assert (
        drawn("UC4")
        == """
pump  2023-11-14 22:13:20.100 – 22:13:20.240 UTC
2 batches of 5 messages · rejected: 1 duplicate, 1 late

2023-11-14  ╷22:13:20.10 ────────╷22:13:20.15 ─────────╷22:13:20.20 ─────
…100000     ├───────●────●───●───┤·········                                  3 timeout
…170000                                   ├────────●───────●────┤········    2 timeout
× late                       ×                                               1 by 80 ms
= duplicate                  =                                               1

● message   ├─┤ window   ··· open for late messages until it closes
…100000 is pump@1700000000100000
"""
    )


@pytest.mark.parametrize("name", USE_CASES)
@pytest.mark.parametrize("width", [80, 100, 160])
def test_windows_stand_at_their_place(name: str, width: int) -> None:
    lines = draw(picture_of(use_case(name), KEY), width).plain.splitlines()
    windows = [(start, end) for start, end, *_ in USE_CASES[name][0]]
    left, right = windows[0][0], max(timeout for _, _, timeout, _ in USE_CASES[name][0])
    plot = width - 12 - 17
    for start, end in windows:
        (line,) = [line for line in lines if line.startswith(f"…{start}000 ") and " is " not in line]
        assert line[12:].index(re.findall("[├●]", line)[0]) == (start - left) * plot // (right - left)
        assert line[12:].index("┤") == (end - left) * plot // (right - left)


@given(tables.batches, tables.rejections, st.integers(20, 170), tables.texts)
def test_no_line_is_wider_than_the_terminal(
    batched: list[tables.Row], others: list[tables.Row], width: int, key: str
) -> None:
    renamed = [{**row, "key": key} for row in [*batched, *others]]
    picture = draw(picture_of(table_of(renamed), key), width)
    assert all(cell_len(line) <= width and line.isprintable() for line in picture.plain.split("\n"))
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    assert len(console.render_lines(picture, console.options)) == len(picture.plain.split("\n"))


@given(tables.some_batches, tables.rejections, st.sampled_from([80, 100, 160]))
def test_every_message_is_counted_once(batched: list[tables.Row], others: list[tables.Row], width: int) -> None:
    lines = lines_of([*batched, *others], width)
    body = [line for line in lines if re.search(r"\d (timeout|full|flush)$", line)]
    assert Counter(line.split()[0] for line in body).most_common(1)[0][1] == 1
    assert sum(int(line.split()[-2]) for line in body) == len(batched)
    for reason in ("late", "future", "duplicate", "oversize"):
        lanes = [line[width - 17 :] for line in lines if re.match(rf"[×▸=▣] {reason}\b", line)]
        assert sum(int(lane.split()[0]) for lane in lanes) == sum(row["verdict"] == reason for row in others)


def test_messages_of_a_cell_are_counted() -> None:
    together = [(f"t{n}", BASE_US + 100 * MS, BASE_US) for n in range(3)]
    many = [(f"u{n}", BASE_US + 300 * MS, BASE_US) for n in range(12)]
    rows = batch(BASE_US, BASE_US + 500 * MS, BASE_US + 500 * MS, [*together, *many])
    lines = lines_of(rows)
    (line,) = [line for line in lines if "┤" in line and "timeout" in line]
    assert re.search(r"├─+3─+◆─+┤ +15 timeout", line)
    assert any("2–9 ◆ several in one cell" in line for line in lines)


def test_a_message_just_before_the_end_leaves_the_end_visible() -> None:
    rows = batch(BASE_US, BASE_US + 500 * MS, BASE_US + 900 * MS, [("a", BASE_US + 500 * MS - 1, BASE_US)])
    assert any(re.search(r"├─+●┤·+ +1 timeout", line) for line in lines_of(rows))


def test_outliers_stand_at_the_edge_with_their_distance() -> None:
    others = [
        rejected(("a", 1, BASE_US + 100 * MS), "late"),
        rejected(("a", BASE_US - 3_200 * MS, BASE_US), "late"),
        rejected(("a", BASE_US + 86_400 * 3 * SECOND, BASE_US), "future"),
    ]
    lines = lines_of([*steady(2), *others])
    (late,) = [line for line in lines if line.startswith("× late")]
    (future,) = [line for line in lines if line.startswith("▸ future")]
    assert "  ◂ 2 of 3.2 s … 54 years  " in late
    assert future.rstrip().endswith("3 days ▸    1 by 3 days")


def test_marks_and_distances_do_not_cover_each_other() -> None:
    others = [rejected(("a", BASE_US + 1, BASE_US + SECOND), "late"), rejected(("a", 1, BASE_US), "late")]
    lines = lines_of([*steady(2), *others])
    at = next(place for place, line in enumerate(lines) if line.startswith("× late"))
    assert lines[at].split()[2] == "×"
    assert lines[at + 1].strip() == "◂ 54 years"


def test_a_batch_closed_before_its_end_and_one_that_waits_long() -> None:
    early = batch(BASE_US, BASE_US + SECOND, BASE_US + 500 * MS, [("a", BASE_US, BASE_US)], close_reason="full")
    start = BASE_US + SECOND
    late = batch(start, start + SECOND, start + 500 * SECOND, [("a", start, start)])
    lines = lines_of([*early, *late])
    assert re.search(r"●─+╌+┤ +1 full", "\n".join(lines))
    assert re.search(r"●─+┤·+→ +1 timeout", "\n".join(lines))
    assert "closed before its end" in "\n".join(lines)


def test_a_long_stream_is_cut_into_readable_strips() -> None:
    lines = lines_of(steady(40))
    windows = [line for line in lines if line.endswith("timeout")]
    assert len(windows) == 40
    # A window without its brackets: at least eighteen cells with them.
    assert all(line.index("┤") - line.index("●") >= 17 for line in windows)
    assert sum("╷" in line for line in lines) == 14


def test_what_is_hidden_is_said() -> None:
    picture = draw(picture_of(table_of(steady(5)), KEY, limit=2), 100).plain
    assert "5 batches of 15 messages · rejected: none" in picture
    assert "not shown: 3 later batches, 9 batched messages" in picture


def test_hours_left_out_and_a_new_day_are_said() -> None:
    rows = [
        *steady(1),
        *batch(
            BASE_US + 7_200 * SECOND,
            BASE_US + 7_201 * SECOND,
            BASE_US + 7_201 * SECOND,
            [("a", BASE_US + 7_200 * SECOND, 0)],
        ),
    ]
    lines = lines_of(rows)
    assert any(line.strip() == "⋮ 2 h without a batch" for line in lines)
    assert [line[:10] for line in lines if "╷" in line] == ["2023-11-14", "2023-11-15"]


def test_all_rejected_is_a_picture_too() -> None:
    picture = draw(picture_of(table_of([rejected(("a", 0, BASE_US), "late")]), KEY), 80).plain
    assert picture.splitlines()[:3] == [
        "pump  1969-12-31 23:59:59.500 – 1970-01-01 00:00:00.500 UTC",
        "received 2023-11-14 22:13:20.000000 UTC",
        "no batches · rejected: 1 late",
    ]
    assert "open for late messages" not in picture
    assert re.search(r"× late +× +1 by 54 years", picture)


def test_nothing_is_said_to_be_nothing() -> None:
    assert draw(picture_of(table_of([]), KEY), 80).plain == "pump  no messages"


def test_accepted_is_green_and_rejected_is_not() -> None:
    picture = draw(picture_of(use_case("UC4"), KEY), 80)
    styles = {picture.plain[span.start : span.end].strip(): str(span.style) for span in picture.spans}
    assert "green" in styles["●"]
    assert "red" in styles["×"]
    assert "yellow" in styles["="]
