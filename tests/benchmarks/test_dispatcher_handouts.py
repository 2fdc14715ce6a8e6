"""What the benchmark says of hand-outs is what they were."""

import pytest

from tests.benchmarks.dispatcher_handouts import by_span, largest_second, longest_gap, mean_rate

#: 10 every 100 ms, for two seconds: 100 a second.
STEADY = [(tenth / 10, 10.0) for tenth in range(21)]


def test_a_steady_rate_is_its_mean_however_many_hand_outs_there_were() -> None:
    assert mean_rate(STEADY) == pytest.approx(100)
    assert mean_rate(STEADY[:2]) == pytest.approx(100)
    assert mean_rate(STEADY[3:9]) == pytest.approx(100)


def test_the_mean_does_not_count_the_time_before_the_first_hand_out() -> None:
    assert mean_rate([(moment_s + 1_000, cost) for moment_s, cost in STEADY]) == pytest.approx(100)


def test_one_hand_out_has_no_rate() -> None:
    assert mean_rate(STEADY[:1]) == mean_rate([]) == 0


def test_what_is_left_of_edges_is_at_most_one_operation() -> None:
    # Operations of 1,500 at 20,000 a second, flushed every 100 ms: two of them, or one, and never more than was paid.
    level, handouts = 0.0, []
    for tick in range(1, 201):
        level += 2_000
        sent = 0
        while level > 0:
            level -= 1_500
            sent += 1_500
        if sent:
            handouts.append((tick / 10, float(sent)))
    assert mean_rate(handouts) == pytest.approx(20_000, abs=1_500 / 20)


def test_the_largest_second_is_found_wherever_it_begins() -> None:
    handouts = [(0.0, 1.0), (0.9, 5.0), (1.2, 6.0), (1.8, 7.0), (1.95, 1.0), (3.0, 9.0)]
    assert largest_second(handouts) == 5 + 6 + 7
    assert largest_second(handouts[:1]) == 1
    assert largest_second([]) == 0


def test_of_two_hand_outs_a_second_apart_only_one_is_in_a_second() -> None:
    assert largest_second([(0.0, 4.0), (1.0, 4.0)]) == 4
    assert largest_second([(0.0, 4.0), (0.999, 4.0)]) == 8


def test_a_steady_rate_has_as_much_in_its_largest_second() -> None:
    # A hair less apart than 100 ms, eleven of them are within a second.
    assert largest_second([(tick * 0.125, 1.0) for tick in range(100)]) == 8
    assert largest_second([(tick * 0.0999, 10.0) for tick in range(100)]) == 110


def test_spans_have_what_was_handed_out_in_them() -> None:
    handouts = [(-0.1, 100.0), (0.0, 1.0), (4.9, 2.0), (5.0, 4.0), (10.0, 8.0), (15.0, 100.0)]
    assert by_span(handouts, 5, 3) == [3 / 5, 4 / 5, 8 / 5]


def test_the_longest_gap_is_between_two_hand_outs() -> None:
    assert longest_gap([(0.0, 1.0), (0.5, 1.0), (2.5, 1.0)]) == 2
    assert longest_gap([(0.0, 1.0)]) == 0
