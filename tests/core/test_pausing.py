"""Pauses: as asked for, or ever longer while the receiver throttles."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.core.dispatch_rules import DispatchRules
from batchline.core.pausing import Pausing
from batchline.core.retry import RetryRules

SECOND = timedelta(seconds=1)
CALM_S = 30.0
chances = st.floats(0, 1)


def pausing(jitter: float = 0.0) -> Pausing:
    backoff = RetryRules(first=SECOND, longest=10 * SECOND, jitter=jitter)
    return Pausing(DispatchRules(backoff=backoff, calm=timedelta(seconds=CALM_S), pause_time=SECOND / 2))


def test_a_pause_lasts_as_long_as_the_rules_say_and_another_meanwhile_is_ignored() -> None:
    pauses = pausing()
    assert not pauses.paused(0.0)
    assert pauses.pause(10.0) == 0.5
    assert pauses.pause(10.4) is None
    assert pauses.paused(10.49)
    assert not pauses.paused(10.5)
    assert pauses.pause(10.5) == 0.5


def test_throttling_pauses_twice_as_long_each_time_up_to_the_longest() -> None:
    pauses, now_s, told = pausing(), 0.0, []
    for _ in range(6):
        told.append(pauses.throttle(now_s, now_s, None, 0.0))
        now_s = pauses.until_s
    assert told == [1, 2, 4, 8, 10, 10]


@given(st.lists(chances, min_size=1, max_size=12), st.floats(0, 1))
def test_chance_shortens_a_pause_by_no_more_than_the_jitter(chances: list[float], jitter: float) -> None:
    pauses, now_s = pausing(jitter), 0.0
    for times, chance in enumerate(chances):
        whole = min(2.0**times, 10.0)
        seconds = pauses.throttle(now_s, now_s, None, chance)
        assert seconds is not None
        assert whole * (1 - jitter) - 0.001 <= seconds <= whole
        assert pauses.until_s == now_s + seconds
        now_s = pauses.until_s


def test_by_itself_a_pause_is_at_least_half_of_what_it_could_be() -> None:
    for chance in (0.0, 0.5, 1.0):
        pauses = Pausing(DispatchRules())
        assert pauses.throttle(0.0, 0.0, None, chance) == 0.5 * (1 - chance / 2)


@pytest.mark.parametrize(("calm_s", "seconds"), [(CALM_S, 4), (CALM_S + 0.001, 1)])
def test_after_a_calm_time_pauses_begin_from_the_first_again(calm_s: float, seconds: float) -> None:
    pauses = pausing()
    pauses.throttle(0.0, 0.0, None, 0.0)
    pauses.throttle(1.0, 1.0, None, 0.0)
    now_s = pauses.until_s + calm_s
    assert pauses.throttle(now_s, now_s - 1, None, 0.0) == seconds


@given(st.lists(st.tuples(st.floats(0, 20), st.floats(-5, 5)), max_size=10))
def test_an_episode_counts_once_however_many_batches_are_throttled(late: list[tuple[float, float]]) -> None:
    pauses = pausing()
    pauses.throttle(10.0, 9.0, None, 0.0)
    for after_s, handed_out_s in late:
        assert pauses.throttle(10.0 + after_s, min(10.0 + handed_out_s, 10.0), None, 0.0) is None
    assert pauses.until_s == 11.0
    assert pauses.throttle(12.0, 11.0, None, 0.0) == 2


@pytest.mark.parametrize(
    ("now_s", "asked_s", "told", "until_s"),
    [
        (10.5, 0.2, None, 11.0),  # it ends before this pause does
        (10.5, 5.0, 5.0, 15.5),
        (10.5, -1.0, None, 11.0),
        (12.0, 3.0, 3.0, 15.0),  # old news, but the receiver wants to be left alone
        (12.0, 0.0, None, 11.0),
    ],
)
def test_what_the_receiver_asks_for_extends_a_pause(
    now_s: float, asked_s: float, told: float | None, until_s: float
) -> None:
    pauses = pausing()
    pauses.throttle(10.0, 9.0, None, 0.0)
    assert pauses.throttle(now_s, 9.5, asked_s, 0.0) == told
    assert pauses.until_s == until_s


@pytest.mark.parametrize(("asked_s", "seconds"), [(None, 1), (0.0, 1), (0.3, 1), (60.0, 60)])
def test_a_pause_is_never_shorter_than_the_receiver_asks_for(asked_s: float | None, seconds: float) -> None:
    assert pausing().throttle(10.0, 9.0, asked_s, 0.0) == seconds


@given(st.lists(st.tuples(st.sampled_from(["pause", "throttle"]), st.floats(0, 5), st.floats(0, 20)), max_size=20))
def test_the_end_of_a_pause_never_comes_nearer(story: list[tuple[str, float, float]]) -> None:
    pauses, now_s = pausing(0.5), 0.0
    for verb, after_s, asked_s in story:
        now_s, before_s, paused = now_s + after_s, pauses.until_s, pauses.paused(now_s + after_s)
        told = pauses.pause(now_s) if verb == "pause" else pauses.throttle(now_s, now_s - 0.5, asked_s, 0.5)
        assert pauses.until_s >= before_s
        assert told is None or pauses.until_s == now_s + told
        assert not (verb == "pause" and paused) or told is None
