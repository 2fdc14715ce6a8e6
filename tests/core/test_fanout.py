"""A fanout's life, as a rule: it ends once, and whoever ends it is told."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.core.fanout import STATES, Ending, Fanout, status_of
from batchline.core.moment import moment_of
from batchline.errors import FanoutExpired, FanoutSealed

UNSEALED_US, SEALED_US = 100, 1000
VERBS = st.sampled_from(["add", "empty", "fail", "seal", "expire"])


def fanout(**how: Any) -> Fanout:
    spans: dict[str, Any] = {"unsealed_for_us": UNSEALED_US, "sealed_for_us": SEALED_US, "tombstone_for_us": 10_000}
    times: dict[str, Any] = {"opened_us": 0, "active_us": 0, "due_us": UNSEALED_US}
    rest: dict[str, Any] = {"number": 1, "id": "f", "salt": 5, "parent": None, "parent_slot": None, "tolerate": 0}
    return Fanout(**(spans | times | rest | how))


def test_the_last_counter_that_empties_after_the_seal_completes_it() -> None:
    one = fanout()
    one.add(10, 3, 1)
    assert one.seal(2, "s") is None
    assert one.settle(2, 0, 3, "x") is None
    assert one.settle(1, 0, 4, "y") == Ending("f", "complete")
    assert (one.state, one.completed_us, one.told_to) == ("complete", 4, "y")


def test_the_seal_completes_it_when_no_counter_has_anything_left() -> None:
    one = fanout()
    one.add(10, 3, 1)
    assert one.settle(3, 0, 2, "x") is None
    assert one.seal(3, "s") == Ending("f", "complete")
    assert one.told_to == "s"
    assert one.seal(4, "t") is None
    assert (one.sealed_us, one.completed_us, one.told_to) == (3, 3, "s")


def test_more_failures_than_are_tolerated_fail_it_sealed_or_not() -> None:
    one = fanout(tolerate=2)
    one.add(10, 1, 1)
    assert one.settle(0, 2, 2, "x") is None
    assert one.settle(0, 1, 3, "y") == Ending("f", "failed")
    assert (one.state, one.failed_us, one.told_to) == ("failed", 3, "y")
    assert one.seal(4, "s") is None
    assert one.settle(1, 0, 5, "z") is None
    assert (one.state, one.completed_us) == ("failed", None)


def test_failure_comes_before_completion() -> None:
    one = fanout()
    one.add(1, 1, 1)
    one.seal(2, "s")
    assert one.settle(1, 1, 3, "x") == Ending("f", "failed")
    assert one.completed_us is None


def test_any_number_of_failures_may_be_tolerated() -> None:
    one = fanout(tolerate=None)
    one.add(1, 1, 1)
    assert one.settle(1, 10**9, 2, "x") is None
    assert one.seal(3, "s") == Ending("f", "complete")


def test_nothing_is_added_after_the_seal_or_the_end_of_its_life() -> None:
    one = fanout()
    one.seal(1, "s")
    with pytest.raises(FanoutSealed, match=r"fanout 'f' was sealed at 1970-01-01T00:00:00.000001\+00:00: no item can"):
        one.add(1, 1, 2)
    assert (one.total, one.open_shards) == (0, 0)
    other = fanout()
    other.expire(5, "e")
    verbs: list[Any] = [lambda: other.add(1, 1, 6), lambda: other.seal(6, "s"), other.check_alive]
    for verb in verbs:
        with pytest.raises(FanoutExpired, match=r"fanout 'f' expired at 1970-01-01T00:00:00.000005\+00:00"):
            verb()


def test_an_expired_one_ends_no_more() -> None:
    one = fanout()
    one.add(1, 1, 1)
    one.expire(5, "e")
    assert one.settle(1, 1, 6, "x") is None
    assert (one.state, one.failed_us, one.due_us) == ("expired", None, 5)


def test_a_parent_is_told_of_an_expiry_only_if_the_child_had_not_ended() -> None:
    done, broken, living = fanout(), fanout(), fanout()
    done.seal(1, "s")
    broken.settle(0, 1, 1, "x")
    assert living.ended_as is None
    for one in (done, broken, living):
        one.expire(5, "e")
    assert [one.state for one in (done, broken, living)] == ["expired"] * 3
    assert [one.ended_as for one in (done, broken, living)] == ["complete", "failed", "expired"]


def test_activity_after_the_end_never_moves_the_due_time_on() -> None:
    one = fanout(due_us=UNSEALED_US)
    one.add(1, 1, 1)
    one.settle(0, 1, 2, "x")
    one.due_us = 10  # its parent has yet to be told
    one.touch(50)
    assert (one.active_us, one.due_us) == (50, 10)
    one.due_us = 50 + 2 * SEALED_US
    one.seal(60, "s")
    assert one.due_us == 60 + SEALED_US


def test_it_is_quiet_until_its_span_after_the_last_activity() -> None:
    one = fanout()
    assert one.quiet_until_us(None) == UNSEALED_US
    one.add(1, 1, 7)
    assert one.due_us == one.quiet_until_us(None) == one.quiet_until_us(3) == 7 + UNSEALED_US
    assert one.quiet_until_us(50) == 50 + UNSEALED_US
    one.seal(9, "s")
    assert one.due_us == one.quiet_until_us(None) == 9 + SEALED_US


def test_a_clock_that_runs_back_takes_no_activity_away() -> None:
    one = fanout()
    one.add(1, 1, 50)
    one.add(1, 0, 20)
    assert (one.active_us, one.due_us) == (50, 50 + UNSEALED_US)


@given(st.lists(VERBS, max_size=20), st.none() | st.integers(0, 3))
def test_it_ends_at_most_once_and_its_state_is_always_one(verbs: list[str], tolerate: int | None) -> None:
    one, endings = fanout(tolerate=tolerate), []
    for now, verb in enumerate(verbs, 1):
        match verb:
            case "add" if one.sealed_us is None and one.expired_us is None:
                one.add(1, 1, now)
            case "empty" if one.open_shards:
                endings.append(one.settle(1, 0, now, str(now)))
            case "fail" if one.open_shards:
                endings.append(one.settle(1, 1, now, str(now)))
            case "seal" if one.expired_us is None:
                endings.append(one.seal(now, str(now)))
            case "expire" if one.expired_us is None:
                one.expire(now, str(now))
        assert one.state in STATES
    told = [ending for ending in endings if ending is not None]
    assert len(told) == int(one.completed_us is not None or one.failed_us is not None)
    assert one.completed_us is None or one.failed_us is None
    if one.expired_us is None:
        too_many = tolerate is not None and one.failed > tolerate
        assert (one.failed_us is not None) == too_many
        assert (one.completed_us is not None) == (one.sealed_us is not None and not one.open_shards and not too_many)


def test_a_status_adds_up() -> None:
    one = fanout(total=10, failed=2, sealed_us=3, active_us=4)
    status = status_of(one, "p", 5, 9, {"a": "b"})
    assert (status.total, status.pending, status.acked, status.failed) == (10, 5, 3, 2)
    assert (status.parent, status.labels, status.state) == ("p", {"a": "b"}, "sealed")
    assert (status.last_activity_at, status.sealed_at) == (moment_of(9), moment_of(3))
    assert status_of(one, None, 0, None, {}).last_activity_at == moment_of(4)
