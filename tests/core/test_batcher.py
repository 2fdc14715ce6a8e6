"""The batcher's interface, its edges, and what it refuses."""

import copy
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from batchline import BatchRules, CloseReason, EventTimeBatcher, Measurement, Verdict
from batchline.errors import InvalidInput, InvalidMeasurement, InvalidRules, InvalidSnapshot
from tests.core.streams import us

RULES = BatchRules(window=us(50), max_delay=us(20), leap_limit=us(20))


def at(moment_us: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment_us)


def message(text: str, key: str = "k", size: int | None = None) -> Measurement:
    """`a:120@125` in the seed's notation."""
    kind, times = text.split(":")
    event, receive = times.split("@")
    return Measurement.from_us(key, kind, int(event), int(receive), text, size)


def batcher_of(*texts: str, rules: BatchRules = RULES) -> EventTimeBatcher:
    batcher = EventTimeBatcher(rules)
    for text in texts:
        assert batcher.add(message(text)).accepted, text
    return batcher


def test_a_verdict_says_whether_and_why() -> None:
    batcher = EventTimeBatcher(RULES)
    accepted, late = batcher.add(message("a:120@125")), batcher.add(message("b:100@125"))
    assert (accepted.accepted, accepted.reason) == (True, None)
    assert (late.accepted, late.reason) == (False, "late")


def test_a_batch_shows_its_window_as_datetimes() -> None:
    batcher = batcher_of("a:120@125")
    batcher.advance(at(175))
    (batch,) = batcher.closed()
    assert (batch.id, batch.key) == ("k@105", "k")
    assert (batch.start, batch.end, batch.timeout, batch.closed_at) == (at(105), at(155), at(175), at(175))
    assert batch.close_reason == "timeout"
    assert [m.payload for m in batch.messages] == ["a:120@125"]


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("b:105@125", Verdict.BATCHED),
        ("b:104@125", Verdict.LATE),
        ("b:145@125", Verdict.BATCHED),
        ("b:146@125", Verdict.FUTURE),
    ],
)
def test_the_limits_themselves_are_accepted(text: str, verdict: Verdict) -> None:
    assert EventTimeBatcher(RULES).add(message(text)) is verdict


def test_a_batch_closes_when_the_clock_reaches_its_timeout_and_not_before() -> None:
    batcher = batcher_of("a:120@125")
    batcher.advance(at(174))
    assert batcher.closed() == []
    batcher.advance(at(175))
    assert len(batcher.closed()) == 1


def test_closed_hands_each_batch_out_once() -> None:
    batcher = batcher_of("a:120@125")
    batcher.flush()
    assert len(batcher.closed()) == 1
    assert batcher.closed() == []


@pytest.mark.parametrize("reason", [CloseReason.FLUSH, CloseReason.TIMEOUT])
def test_batches_that_close_together_come_in_order_of_start_over_all_keys(reason: CloseReason) -> None:
    batcher = EventTimeBatcher(RULES)
    for key, text in (("z", "a:110@125"), ("b", "a:120@125"), ("z", "a:160@165"), ("a", "a:130@140")):
        batcher.add(message(text, key))
    if reason is CloseReason.FLUSH:
        batcher.flush()
    else:
        batcher.advance(at(1_000))
    batches = batcher.closed()
    assert [(b.start_us, b.key) for b in batches] == [(105, "b"), (105, "z"), (120, "a"), (155, "z")]
    assert {b.close_reason for b in batches} == {reason}


def test_an_older_receive_time_is_taken_at_the_clock() -> None:
    batcher = batcher_of("a:140@150")
    assert batcher.add(message("b:115@116")).reason == "late"


def test_a_quiet_key_keeps_no_clock() -> None:
    batcher = batcher_of("a:120@125")
    assert batcher.add(message("b:100@500")).reason == "late"
    assert batcher.snapshot()["keys"] == []
    assert batcher.add(message("b:120@130")).accepted


def test_what_advance_promised_holds_for_keys_it_has_never_seen() -> None:
    batcher = EventTimeBatcher(RULES)
    batcher.advance(at(200))
    assert batcher.add(message("a:120@125")).reason == "late"


def test_the_lower_half_of_a_split_that_has_timed_out_closes_at_once() -> None:
    batcher = batcher_of("a:120@125", "a:130@150")
    (lower,) = batcher.closed()
    assert (lower.id, lower.end_us, lower.closed_at_us) == ("k@105", 130, 150)


def test_midpoint_parts_as_thin_edge_does() -> None:
    rules = BatchRules(window=us(50), max_delay=us(100), leap_limit=us(20), anchor="event", split="midpoint")
    batcher = batcher_of("a:100@125", "a:111@126", rules=rules)
    batcher.flush()
    assert [(b.start_us, b.end_us) for b in batcher.closed()] == [(100, 106), (106, 150)]


def sized(rules: BatchRules, *rows: tuple[str, int]) -> list[tuple[str, str, str, list[str]]]:
    batcher = EventTimeBatcher(rules)
    for text, size in rows:
        assert batcher.add(message(text, size=size)).accepted, text
    batcher.flush()
    return [
        (b.id, f"[{b.start_us},{b.end_us})", b.close_reason.value, [m.type for m in b.messages])
        for b in batcher.closed()
    ]


FULL = BatchRules(window=us(50), max_delay=us(20), leap_limit=us(20), max_bytes=10)


def test_make_room_first_leaves_the_older_ones() -> None:
    assert sized(FULL, ("a:110@125", 6), ("b:130@126", 3), ("c:120@127", 4)) == [
        ("k@105", "[105,120)", "flush", ["a"]),
        ("k@120", "[120,170)", "flush", ["c", "b"]),
    ]


def test_make_room_then_leaves_the_newer_ones() -> None:
    assert sized(FULL, ("a:110@125", 2), ("b:130@126", 8), ("c:120@127", 4)) == [
        ("k@105", "[105,130)", "flush", ["a", "c"]),
        ("k@130", "[130,180)", "flush", ["b"]),
    ]


def test_make_room_last_leaves_the_message_alone() -> None:
    assert sized(FULL, ("a:110@125", 5), ("b:130@126", 5), ("c:120@127", 9)) == [
        ("k@105", "[105,120)", "flush", ["a"]),
        ("k@120", "[120,130)", "flush", ["c"]),
        ("k@130", "[130,180)", "flush", ["b"]),
    ]


def test_a_batch_full_at_one_moment_closes_and_its_successors_are_numbered() -> None:
    rows = [("a:120@125", 9), ("b:120@126", 9), ("c:120@127", 9), ("d:120@128", 9)]
    assert sized(FULL, *rows) == [
        ("k@105", "[105,155)", "full", ["a"]),
        ("k@120", "[120,155)", "full", ["b"]),
        ("k@120.1", "[120,155)", "full", ["c"]),
        ("k@120.2", "[120,155)", "flush", ["d"]),
    ]


def test_a_start_that_comes_again_after_a_full_batch_gets_a_number_too() -> None:
    rules = BatchRules(window=us(50), max_delay=us(20), leap_limit=us(20), max_bytes=10)
    # The full batch [105,155) leaves [105,120) uncovered; at the same clock a new window starts at 105 again.
    assert [row[0] for row in sized(rules, ("a:120@125", 9), ("b:120@125", 9), ("c:110@125", 9))] == [
        "k@105",
        "k@105.1",
        "k@120",
    ]


def test_equal_to_max_bytes_is_within() -> None:
    assert sized(FULL, ("a:120@125", 4), ("b:121@126", 6)) == [("k@105", "[105,155)", "flush", ["a", "b"])]


def test_a_message_larger_than_max_bytes_is_oversize() -> None:
    assert EventTimeBatcher(FULL).add(message("a:120@125", size=11)) is Verdict.OVERSIZE


def test_wake_at_follows_the_first_timeout_down_when_a_split_shortens_it() -> None:
    batcher = batcher_of("a:120@121", "b:125@122")
    assert batcher.wake_at() == at(171)
    batcher.add(message("a:130@123"))
    assert batcher.wake_at() == at(150)


def test_keys_gone_quiet_leave_nothing_behind_where_nobody_advances() -> None:
    batcher = EventTimeBatcher(RULES)
    for number in range(2_000):
        moment = 1_000 * number
        batcher.add(message(f"a:{moment}@{moment}", key=f"k{number % 7}"))
        batcher.add(message(f"a:{moment - 900}@{moment + 500}", key=f"k{number % 7}"))
    assert batcher.snapshot()["keys"] == []
    assert len(batcher._wakes) < 100


def test_a_snapshot_is_plain_data() -> None:
    batcher = batcher_of("a:120@125", "a:130@150", "b:140@151")
    data = json.loads(json.dumps(batcher.snapshot()))
    assert EventTimeBatcher.restore(RULES, data).snapshot() == batcher.snapshot()


def test_closed_batches_nobody_took_survive_a_restore() -> None:
    batcher = batcher_of("a:120@125")
    batcher.flush()
    assert [b.id for b in EventTimeBatcher.restore(RULES, batcher.snapshot()).closed()] == ["k@105"]


def test_a_snapshot_of_other_rules_is_refused_and_says_which() -> None:
    with pytest.raises(InvalidSnapshot, match=r"other rules: window_us 50, now 60; anchor 'arrival', now 'event'"):
        EventTimeBatcher.restore(
            BatchRules(window=us(60), max_delay=us(20), leap_limit=us(20), anchor="event"),
            EventTimeBatcher(RULES).snapshot(),
        )


def damaged(**changes: Any) -> dict[str, Any]:
    return batcher_of("a:120@125", "b:160@161").snapshot() | changes


def with_batch(**changes: Any) -> dict[str, Any]:
    data = copy.deepcopy(damaged())
    data["keys"][0]["batches"][0].update(changes)
    return data


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        damaged(version=2),
        damaged(keys=[{}]),
        damaged(keys=[1]),
        damaged(clock_us="x"),
        with_batch(end_us=104),
        with_batch(end_us=10_000),
        with_batch(start_us=130),
        with_batch(start_us=140, end_us=156, messages=[]),
        with_batch(messages=[["a", 120]]),
        with_batch(messages=[["a", 120, 125, None, None], ["a", 121, 125, None, None]]),
    ],
)
def test_a_damaged_snapshot_is_refused(data: Any) -> None:
    with pytest.raises(InvalidSnapshot):
        EventTimeBatcher.restore(RULES, data)


@pytest.mark.parametrize("wrong", [None, "a:120@125", {"key": "k"}])
def test_something_else_than_a_measurement_is_refused_and_changes_nothing(wrong: Any) -> None:
    batcher = batcher_of("a:120@125")
    before = batcher.snapshot()
    with pytest.raises(InvalidMeasurement, match="expected a Measurement, got"):
        batcher.add(wrong)
    assert batcher.snapshot() == before


def test_a_measurement_without_size_is_refused_where_max_bytes_is_set() -> None:
    batcher = EventTimeBatcher(FULL)
    with pytest.raises(InvalidMeasurement, match="every measurement needs a size"):
        batcher.add(message("a:120@125"))
    assert batcher.snapshot()["keys"] == []


@pytest.mark.parametrize("wrong", [None, 175, "now", datetime(2026, 1, 1)])  # noqa: DTZ001 - the naive time is the point
def test_advance_refuses_what_is_no_moment(wrong: Any) -> None:
    batcher = batcher_of("a:120@125")
    with pytest.raises(InvalidInput, match="advance expects a datetime with a time zone"):
        batcher.advance(wrong)
    assert batcher.wake_at() == at(175)


def test_a_batcher_refuses_rules_that_are_none() -> None:
    with pytest.raises(InvalidRules, match="expected BatchRules, got 500"):
        EventTimeBatcher(500)  # type: ignore[arg-type]
