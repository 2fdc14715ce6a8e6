"""The options of a dispatcher: the seed's defaults, and what is refused."""

from datetime import timedelta
from typing import Any

import pytest

from batchline.core.dispatch_rules import DispatchRules
from batchline.core.retry import RetryRules
from batchline.errors import InvalidRules


def test_the_defaults_are_those_of_the_page() -> None:
    rules = DispatchRules()
    assert rules.buffer == 10_000
    assert rules.flush_interval == rules.capacity_interval == timedelta(milliseconds=100)
    assert rules.audit_interval == timedelta(seconds=10)
    assert rules.max_operation_time == timedelta(minutes=1)
    assert rules.pause_time == timedelta(milliseconds=500)
    assert not rules.error_on_full_buffer
    assert not rules.emit_batch
    assert rules.max_concurrent_batches is None


LONG = ["flush_interval", "capacity_interval", "audit_interval", "max_operation_time"]
SPANS = [*LONG, "pause_time"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({name: timedelta(0)}, f"{name} must be longer than 0 and at most 36,500 days, got ") for name in LONG),
        *(({name: timedelta(-1)}, f"{name} must be longer than 0 and at most 36,500 days, got ") for name in LONG),
        *(({name: 0.1}, f"{name} must be a timedelta, got 0.1") for name in [*SPANS, "calm"]),
        ({"pause_time": timedelta(microseconds=999)}, "pause_time must be 1ms or longer"),
        ({"calm": timedelta(-1)}, "calm must be 0 or longer and at most 36,500 days, got "),
        ({"flush_interval": timedelta(days=40_000)}, "flush_interval must be longer than 0 and at most 36,500 days"),
        ({"buffer": 0}, "buffer must be a whole number from 1 on, .*got 0"),
        ({"buffer": None}, "buffer must be a whole number from 1 on, got None"),
        ({"buffer": 10.0}, "buffer must be a whole number from 1 on, .*got 10.0"),
        ({"max_concurrent_batches": 0}, "max_concurrent_batches must be a whole number from 1 on, or None .*got 0"),
        ({"max_concurrent_batches": True}, "max_concurrent_batches must be a whole number .*got True"),
        ({"error_on_full_buffer": 1}, "error_on_full_buffer must be true or false, got 1"),
        ({"emit_batch": "no"}, "emit_batch must be true or false, got 'no'"),
        ({"backoff": 2}, "backoff must be RetryRules, got 2"),
    ],
    ids=str,
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRules, match=f"^{message}"):
        DispatchRules(**options)


@pytest.mark.parametrize("seconds", [0.001, 0.5, 30, 100])
def test_pauses_begin_with_the_pause_time_and_double_up_to_half_a_minute(seconds: float) -> None:
    pauses = DispatchRules(pause_time=timedelta(seconds=seconds)).pauses
    longest = max(30, seconds)
    assert [pauses.pause_ms(times, 0.0) for times in (1, 2, 3)] == [
        min(seconds * factor, longest) * 1_000 for factor in (1, 2, 4)
    ]
    assert pauses.pause_ms(100, 0.0) == longest * 1_000


def test_pauses_can_be_chosen() -> None:
    chosen = RetryRules(jitter=0)
    assert DispatchRules(backoff=chosen).pauses is chosen
