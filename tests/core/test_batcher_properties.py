"""The promises of stage 1, on generated streams."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from batchline import Batch, BatchRules, CloseReason, EventTimeBatcher, Measurement, Verdict
from batchline.core.moment import moment_of
from tests.core.model import ModelBatch, run_model
from tests.core.streams import batch_rules, shown, streams


def run(rules: BatchRules, messages: list[Measurement]) -> tuple[list[Verdict], list[Batch]]:
    batcher = EventTimeBatcher(rules)
    verdicts = [batcher.add(m) for m in messages]
    batcher.flush()
    return verdicts, batcher.closed()


def by_key(batches: Iterable[Any], show: Callable[[Any], tuple[Any, ...]]) -> dict[str, list[tuple[Any, ...]]]:
    grouped = defaultdict(list)
    for batch in batches:
        grouped[batch.key].append(show(batch))
    return grouped


def model_shown(batch: ModelBatch) -> tuple[Any, ...]:
    return batch.id, batch.start, batch.end, batch.closed_at, batch.reason, sorted(m.payload for m in batch.members)


@given(batch_rules(), streams())
def test_it_does_what_the_spec_says_word_for_word(rules: BatchRules, messages: list[Measurement]) -> None:
    expected_verdicts, expected = run_model(rules, messages)
    verdicts, batches = run(rules, messages)
    assert [v.value for v in verdicts] == expected_verdicts
    assert by_key(batches, shown) == by_key(expected, model_shown)


@given(batch_rules(), streams())
def test_each_accepted_message_is_in_exactly_one_batch(rules: BatchRules, messages: list[Measurement]) -> None:
    verdicts, batches = run(rules, messages)
    accepted = [m.payload for m, v in zip(messages, verdicts, strict=True) if v.accepted]
    assert sorted(m.payload for b in batches for m in b.messages) == accepted


@given(batch_rules(), streams())
def test_a_batch_keeps_its_limits(rules: BatchRules, messages: list[Measurement]) -> None:
    for batch in run(rules, messages)[1]:
        assert 0 < batch.end_us - batch.start_us <= rules.window_us
        assert batch.timeout_us == batch.end_us + rules.max_delay_us
        assert all(batch.start_us <= m.event_us < batch.end_us for m in batch.messages)
        assert len({m.type for m in batch.messages}) == len(batch.messages) > 0
        assert rules.max_bytes is None or sum(m.size or 0 for m in batch.messages) <= rules.max_bytes
        assert list(batch.messages) == sorted(batch.messages, key=lambda m: (m.event_us, m.type))


@given(batch_rules(), streams(in_order=True))
def test_no_id_repeats_when_messages_come_in_receive_order(rules: BatchRules, messages: list[Measurement]) -> None:
    ids = [b.id for b in run(rules, messages)[1]]
    assert len(set(ids)) == len(ids)


@given(batch_rules(), streams())
def test_open_windows_never_overlap(rules: BatchRules, messages: list[Measurement]) -> None:
    batcher = EventTimeBatcher(rules)
    for message in messages:
        batcher.add(message)
        for key in batcher.snapshot()["keys"]:
            assert all(a["end_us"] <= b["start_us"] for a, b in pairwise(key["batches"]))


@given(batch_rules(), streams(), st.data())
def test_a_cut_with_snapshot_and_restore_changes_nothing(
    rules: BatchRules, messages: list[Measurement], data: st.DataObject
) -> None:
    cuts = data.draw(st.sets(st.integers(0, len(messages))))
    expected = run(rules, messages)
    batcher, verdicts, batches = EventTimeBatcher(rules), [], []
    for number, message in enumerate(messages):
        if number in cuts:
            if data.draw(st.booleans()):
                batches += batcher.closed()
            snapshot = batcher.snapshot()
            batcher = EventTimeBatcher.restore(rules, snapshot)
            assert batcher.snapshot() == snapshot
        verdicts.append(batcher.add(message))
    batcher.flush()
    assert (verdicts, batches + batcher.closed()) == expected


# One key: with several, an advance may close by timeout what would otherwise have waited for the flush.
@given(batch_rules(), streams(keys="A"), st.data())
def test_extra_advances_change_only_when_a_batch_is_handed_out(
    rules: BatchRules, messages: list[Measurement], data: st.DataObject
) -> None:
    # The promise of advance holds for all that follows, not for the next message alone.
    floor, floors = messages[-1].receive_us if messages else 0, []
    for message in reversed(messages):
        floor = min(floor, message.receive_us)
        floors.append(floor)
    batcher, verdicts = EventTimeBatcher(rules), []
    for message, floor in zip(messages, reversed(floors), strict=True):
        if data.draw(st.booleans()):
            batcher.advance(moment_of(floor - data.draw(st.integers(0, 20))))
        verdicts.append(batcher.add(message))
    batcher.flush()
    expected_verdicts, expected = run(rules, messages)
    assert verdicts == expected_verdicts
    assert batcher.closed() == expected


@given(batch_rules(), streams(keys="ABC"))
def test_keys_never_influence_each_other(rules: BatchRules, messages: list[Measurement]) -> None:
    together = by_key(run(rules, messages)[1], shown)
    for key in "ABC":
        alone = run(rules, [m for m in messages if m.key == key])[1]
        assert [shown(b) for b in alone] == together.get(key, [])


@given(batch_rules(), streams())
def test_wake_at_is_the_next_timeout_and_nothing_closes_before_it(
    rules: BatchRules, messages: list[Measurement]
) -> None:
    batcher = EventTimeBatcher(rules)
    for message in messages:
        batcher.add(message)
        keys = batcher.snapshot()["keys"]
        timeouts = [b["end_us"] + rules.max_delay_us for key in keys for b in key["batches"]]
        assert batcher.wake_at() == (moment_of(min(timeouts)) if timeouts else None)


@given(batch_rules(), streams())
def test_following_wake_at_closes_every_batch_at_its_timeout(rules: BatchRules, messages: list[Measurement]) -> None:
    batcher = EventTimeBatcher(rules)
    for message in messages:
        batcher.add(message)
    batcher.closed()
    while (when := batcher.wake_at()) is not None:
        batcher.advance(when)
        closed = batcher.closed()
        assert closed
        assert all(b.timeout == when == b.closed_at and b.close_reason is CloseReason.TIMEOUT for b in closed)
    assert batcher.snapshot()["keys"] == []
