"""Whose clock is wrong."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.core.drift import Reading, Vote, ahead_ms, reference_ms, stepped_us, votes_by_host

MAX = 1_000
AHEAD = st.integers(-3_600_000, 3_600_000)
#: Clocks that agree with each other, or with the database's, more often than at random.
GROUPED = st.builds(int.__add__, st.sampled_from([0, 0, 5_000, -7_200_000]), st.integers(-600, 600))
VOTES = st.lists(st.builds(Vote, st.sampled_from("abcdef"), st.integers(0, 30_000), GROUPED), max_size=12)
HOUR = 3_600_000


def degraded(hosts: dict[str, int]) -> set[str]:
    reference = reference_ms(hosts.values(), MAX)
    return {host for host, ahead in hosts.items() if abs(ahead - reference) > MAX}


@pytest.mark.parametrize(
    ("hosts", "reference"),
    [
        ([], 0),
        ([0, 0, 0], 0),
        ([HOUR], 0),
        ([HOUR, HOUR], 0),
        ([0, HOUR, HOUR], 0),
        ([HOUR, HOUR, HOUR], HOUR),
        ([0, HOUR, HOUR, HOUR], HOUR),
        ([0, 0, HOUR, HOUR, HOUR], 0),
        ([0, 0, HOUR, HOUR, HOUR, HOUR], HOUR),
        ([HOUR, 2 * HOUR, -900_000], 0),
        ([900, 900, 900], 0),
        ([HOUR - 900, HOUR, HOUR + 900], HOUR),
    ],
)
def test_a_majority_of_all_clocks_outvotes_the_databases(hosts: list[int], reference: int) -> None:
    assert reference_ms(hosts, MAX) == reference


@given(hosts=st.dictionaries(st.sampled_from("abcdefgh"), GROUPED))
def test_hosts_that_are_not_degraded_agree_with_each_other(hosts: dict[str, int]) -> None:
    healthy = [ahead for host, ahead in hosts.items() if host not in degraded(hosts)]
    assert all(abs(one - other) <= 2 * MAX for one, other in combinations(healthy, 2))


@given(hosts=st.lists(GROUPED, max_size=9))
def test_the_database_is_outvoted_only_by_three_hosts_and_more_than_agree_with_it(hosts: list[int]) -> None:
    reference = reference_ms(hosts, MAX)
    if reference:
        agreeing = sum(abs(one - reference) <= MAX for one in hosts)
        assert agreeing >= 3
        assert agreeing > len(hosts) - agreeing + 1


@given(right=st.lists(st.integers(-400, 400), max_size=6), wrong=AHEAD)
def test_one_wrong_host_degrades_no_other(right: list[int], wrong: int) -> None:
    hosts = {str(number): ahead for number, ahead in enumerate(right)} | {"wrong": wrong}
    assert degraded(hosts) <= {"wrong"}
    assert ("wrong" in degraded(hosts)) == (abs(wrong) > MAX)


@given(votes=VOTES, host=st.sampled_from("abcdef"), ahead=AHEAD, restarts=st.integers(1, 20))
def test_restarts_of_a_host_change_no_verdict(votes: list[Vote], host: str, ahead: int, restarts: int) -> None:
    once = votes_by_host([*votes, Vote(host, 40_000, ahead)])
    often = votes_by_host([*votes, *[Vote(host, 40_000 + number, ahead) for number in range(restarts)]])
    assert degraded(often) == degraded(once)


@given(votes=VOTES, before=AHEAD, after=AHEAD)
def test_a_restarted_process_replaces_its_predecessor(votes: list[Vote], before: int, after: int) -> None:
    hosts = votes_by_host([*votes, Vote("a", 50_000, before), Vote("a", 50_001, after)])
    assert hosts == votes_by_host([one for one in votes if one.host != "a"]) | {"a": after}


def test_a_vote_without_a_host_does_not_count() -> None:
    assert votes_by_host([Vote("", 1, HOUR), Vote("a", 1, 5)]) == {"a": 5}


@pytest.mark.parametrize(
    ("before", "shown", "after", "ahead"),
    [(100, 100, 100, 0), (100, 105, 110, 0), (100, 90, 110, 10), (100, 130, 110, -20), (0, 5_000, 9_000, 0)],
)
def test_a_slow_answer_makes_no_clock_wrong(before: int, shown: int, after: int, ahead: int) -> None:
    assert ahead_ms(before, shown, after) == ahead


@given(ahead=AHEAD, sent=st.integers(0, 5_000), took=st.integers(0, 5_000), at=st.integers(0, 10**12))
def test_a_clock_is_found_off_by_at_most_what_it_is_off(ahead: int, sent: int, took: int, at: int) -> None:
    found = ahead_ms(at + ahead, at + sent, at + sent + took + ahead)
    assert min(ahead, 0) <= found <= max(ahead, 0)
    assert abs(found) >= abs(ahead) - sent - took


@given(
    moved=st.integers(0, 10**12),
    stepped=AHEAD,
    pauses=st.tuples(st.integers(0, 10**7), st.integers(0, 10**7)),
)
def test_a_step_is_seen_between_readings_and_a_stopped_process_is_none(
    moved: int, stepped: int, pauses: tuple[int, int]
) -> None:
    then = Reading(10**15, 10**9, pauses[0])
    now = Reading(10**15 + moved + stepped, 10**9 + moved, pauses[1])
    found = stepped_us(then, now)
    assert abs(found) <= abs(stepped)
    assert abs(found) >= abs(stepped) - sum(pauses)
