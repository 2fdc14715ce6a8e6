"""How a long axis is cut."""

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from batchline.pictures.strips import lanes_of, levels_of, strips_of
from batchline.pictures.windows import picture_of, typical_us
from tests.pictures import tables
from tests.pictures.tables import BASE_US, KEY, MS, SECOND, batch, rejected, steady, table_of


@given(tables.batches, tables.rejections, st.floats(1, 30))
def test_all_is_on_exactly_one_strip(batched: list[tables.Row], others: list[tables.Row], windows: float) -> None:
    picture = picture_of(table_of([*batched, *others]), KEY)
    strips = strips_of(picture, windows)
    assert [bar for strip in strips for bar in strip.bars] == list(picture.bars)
    lanes = [lane for strip in strips for lane in lanes_of(strip)]
    assert Counter(message for lane in lanes for message in lane.messages) == Counter(picture.rejected)
    for strip in strips:
        assert all(strip.first_us <= bar.start_us < bar.end_us <= strip.last_us for bar in strip.bars)
        assert all(strip.first_us <= message.event_us <= strip.last_us for message in strip.rejected)
        assert all(message.event_us < strip.first_us for message in strip.before)
        assert all(message.event_us > strip.last_us for message in strip.after)


@given(tables.some_batches, st.floats(1, 30))
def test_a_strip_is_longer_than_asked_for_only_for_one_long_window(batched: list[tables.Row], windows: float) -> None:
    picture = picture_of(table_of(batched), KEY)
    strips = strips_of(picture, windows)
    longest = typical_us(picture.bars) * windows * (1.5 if len(strips) == 1 else 1)
    for strip in strips:
        first = strip.bars[0]
        own = max(first.end_us, min(first.closed_at_us, first.end_us + typical_us(picture.bars)))
        assert strip.last_us - strip.first_us <= max(longest, own - first.start_us)
    assert all(a.last_us < b.last_us for a, b in pairwise(strips))


def test_strips_share_the_windows_evenly_and_one_scale() -> None:
    strips = strips_of(picture_of(table_of(steady(40)), KEY), 4)
    assert [len(strip.bars) for strip in strips] == [3] * 13 + [1]
    assert {strip.last_us - strip.first_us for strip in strips} == {1_900 * MS}


def test_what_is_a_little_too_long_for_one_strip_stays_whole() -> None:
    assert len(strips_of(picture_of(table_of(steady(5)), KEY), 4)) == 1
    assert len(strips_of(picture_of(table_of(steady(6)), KEY), 4)) == 2


def test_hours_without_a_batch_are_left_out() -> None:
    hours = [BASE_US + hour * 3_600 * SECOND for hour in range(3)]
    rows = [row for hour in hours for row in batch(hour, hour + SECOND, hour + 2 * SECOND, [("a", hour, hour)])]
    strips = strips_of(picture_of(table_of(rows), KEY), 4)
    assert [(strip.first_us, strip.last_us) for strip in strips] == [(hour, hour + 2 * SECOND) for hour in hours]


def test_a_rejected_message_off_all_strips_is_where_it_was_received() -> None:
    old = rejected(("a", 0, BASE_US + 3_900 * MS), "late")
    late = rejected(("b", BASE_US + 600 * MS, BASE_US + 3_900 * MS), "late")
    strips = strips_of(picture_of(table_of([*steady(10), old, late]), KEY), 4)
    (home,) = [strip for strip in strips if strip.before]
    assert home.first_us <= BASE_US + 3_900 * MS <= home.last_us
    assert [message.type for message in strips[0].rejected] == ["b"]


spans = st.tuples(st.floats(0, 100), st.floats(0.1, 30)).map(lambda span: (span[0], span[0] + span[1]))


@given(st.lists(spans, max_size=30))
def test_spans_of_a_level_do_not_overlap(spans: list[tuple[float, float]]) -> None:
    levels = levels_of(sorted(spans), most=30)
    placed = list(zip(levels, sorted(spans), strict=True))
    for level in set(levels):
        assert all(a[1] <= b[0] for a, b in pairwise([span for at, span in placed if at == level]))


@given(st.lists(spans, max_size=30))
def test_no_more_levels_than_allowed(spans: list[tuple[float, float]]) -> None:
    levels = levels_of(sorted(spans), most=3)
    assert len(levels) == len(spans)
    assert set(levels) <= {0, 1, 2}
