"""What a picture shows and what it leaves out."""

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given

from batchline.errors import InvalidInput, InvalidTable
from batchline.pictures.strips import strips_of
from batchline.pictures.windows import DOTS_PER_BAR, Hidden, picture_of
from tests.pictures import tables
from tests.pictures.tables import BASE_US, KEY, MS, SECOND, USE_CASES, batch, rejected, steady, table_of, use_case


@pytest.mark.parametrize("name", USE_CASES)
def test_a_use_case_has_the_windows_of_the_spec(name: str) -> None:
    batches, others = USE_CASES[name]
    picture = picture_of(use_case(name), KEY)
    windows = [(bar.start_us - BASE_US, bar.end_us - BASE_US, bar.closed_at_us - BASE_US) for bar in picture.bars]
    assert windows == [(start * MS, end * MS, timeout * MS) for start, end, timeout, _ in batches]
    assert [bar.members for bar in picture.bars] == [len(members.split()) for *_, members in batches]
    assert sorted(message.reason for message in picture.rejected) == sorted(reason for _, reason in others)
    assert picture.hidden == Hidden(0, 0, 0)


@given(tables.batches, tables.rejections)
def test_every_message_is_shown_or_counted(batched: list[tables.Row], others: list[tables.Row]) -> None:
    table = table_of([*others, *batched], chunks=3)
    for limit in (1, 3, 100):
        picture = picture_of(table, KEY, limit=limit)
        assert len(picture.bars) + picture.hidden.batches == picture.counts.batches
        assert sum(len(bar.dots) for bar in picture.bars) + picture.hidden.batched == picture.counts.batched
        assert picture.counts.batched == len(batched)
        assert len(picture.rejected) + picture.hidden.rejected == len(others)
        assert dict(picture.counts.rejected) == Counter(row["verdict"] for row in others)
        assert [bar.start_us for bar in picture.bars] == sorted(bar.start_us for bar in picture.bars)
        assert picture.first_us < picture.last_us or not table.num_rows


@given(tables.some_batches, tables.rejections)
def test_rejected_messages_do_not_change_the_axis(batched: list[tables.Row], others: list[tables.Row]) -> None:
    alone, together = (picture_of(table_of(rows), KEY) for rows in (batched, [*batched, *others]))
    assert (together.first_us, together.last_us, together.bars) == (alone.first_us, alone.last_us, alone.bars)
    cuts = [[(strip.first_us, strip.last_us) for strip in strips_of(picture, 4)] for picture in (alone, together)]
    assert cuts[0] == cuts[1]


def test_the_first_batches_are_shown_with_what_was_rejected_meanwhile() -> None:
    meanwhile = rejected(("old", BASE_US - 3_600 * SECOND, BASE_US + 2_400 * MS), "late")
    # Received after the stretch: hidden, though its event time lies on it.
    later = rejected(("slow", BASE_US + SECOND, BASE_US + 9 * SECOND), "late")
    picture = picture_of(table_of([later, *steady(10), meanwhile]), KEY, limit=4)
    assert len(picture.bars) == 4
    assert [message.type for message in picture.rejected] == ["old"]
    assert picture.hidden == Hidden(batches=6, batched=18, rejected=1)
    assert (picture.first_us, picture.last_us) == (BASE_US, BASE_US + 2_400 * MS)


def test_batches_of_one_start_are_in_the_order_of_their_numbers() -> None:
    message = ("a", BASE_US, BASE_US)
    rows = [row for number in (10, 2, 0) for row in batch(BASE_US, BASE_US + 9, BASE_US, [message], ordinal=number)]
    assert [bar.id.partition(".")[2] for bar in picture_of(table_of(rows), KEY).bars] == ["", "2", "10"]


def test_a_batch_of_thousands_shows_some_and_counts_all() -> None:
    rows = batch(BASE_US, BASE_US + SECOND, BASE_US + SECOND, [(f"t{n}", BASE_US + n, BASE_US) for n in range(3_000)])
    (bar,) = picture_of(table_of(rows), KEY).bars
    assert (bar.members, len(bar.dots)) == (3_000, DOTS_PER_BAR)


def test_a_long_wait_does_not_squash_the_windows() -> None:
    picture = picture_of(table_of(steady(3, delay_ms=400_000)), KEY)
    assert picture.last_us < BASE_US + 2 * SECOND


def test_without_batches_the_axis_is_where_most_event_times_are() -> None:
    usual = [rejected(("a", n * SECOND, BASE_US + n * SECOND), "late") for n in range(9)]
    far = [rejected(("b", BASE_US * 5, BASE_US), "future"), rejected(("b", -BASE_US, BASE_US), "late")]
    picture = picture_of(table_of([*far, *usual]), KEY)
    assert len(picture.rejected) == 11
    assert (picture.first_us, picture.last_us) == (-400 * MS, 8_400 * MS)


def test_a_broken_clock_shows_some_of_its_messages_and_counts_all() -> None:
    rows = [rejected(("a", n * SECOND, BASE_US + n), "late") for n in range(1_000)]
    picture = picture_of(table_of(rows), KEY, limit=5)
    assert (len(picture.rejected), picture.hidden.rejected) == (50, 950)


def test_other_keys_are_not_shown() -> None:
    other = batch(BASE_US, BASE_US + 9, BASE_US, [("a", BASE_US, BASE_US)], key="other")
    picture = picture_of(table_of([*other, *steady(2)], chunks=2), KEY)
    assert picture.counts.batches == 2
    assert picture_of(table_of(other), "nobody").bars == ()


def test_columns_may_be_dictionaries() -> None:
    table = use_case("UC4")
    for place, name in enumerate(table.column_names):
        if table.schema.field(name).type == pa.string():
            table = table.set_column(place, name, table[name].combine_chunks().dictionary_encode())
    assert picture_of(table, KEY) == picture_of(use_case("UC4"), KEY)


def test_a_table_that_was_not_assigned_is_refused() -> None:
    with pytest.raises(InvalidTable, match="batch_id, batch_start"):
        picture_of(use_case("UC1").drop_columns(["batch_id", "batch_start"]), KEY)


@pytest.mark.parametrize("verdict", ["early", None])
def test_an_unknown_verdict_is_refused(verdict: str | None) -> None:
    row = {**rejected(("a", BASE_US, BASE_US), "late"), "verdict": verdict}
    with pytest.raises(InvalidTable, match=f"late, future, duplicate, oversize, got {verdict}"):
        picture_of(table_of([row]), KEY)


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at least 1 batch, got 0"):
        picture_of(use_case("UC1"), KEY, limit=0)
