"""Rates of counters that processes report."""

from batchline.core.counter import Count, even_edges, growth, rates

EDGES = [0, 1_000, 2_000, 4_000]


def test_a_rate_is_what_a_counter_grew_in_a_stretch_over_its_length() -> None:
    counts = [Count("a", 0, at, value) for at, value in ((0, 5), (1_000, 15), (2_000, 15), (4_000, 45))]
    assert rates(counts, EDGES) == [10, 0, 15]


def test_processes_are_added_up_and_what_the_first_count_of_each_was_is_not_known() -> None:
    counts = [Count("a", 0, 500, 100), Count("b", 0, 600, 7), Count("a", 0, 900, 101), Count("b", 0, 1_000, 9)]
    assert rates(counts, EDGES) == [3, 0, 0]


def test_what_grew_over_an_edge_is_shared_out_by_time() -> None:
    assert rates([Count("a", 0, 500, 0), Count("a", 0, 2_500, 20)], EDGES) == [5, 10, 2.5]


def test_a_process_that_began_again_has_counted_all_that_it_says() -> None:
    assert list(growth([Count("a", 0, 1, 50), Count("a", 9, 10, 60)])) == [(1, 10, 60)]
    assert list(growth([Count("a", 0, 1, 50), Count("a", 0, 10, 4)])) == [(1, 10, 4)]


def test_order_does_not_matter_and_what_is_outside_is_left_out() -> None:
    counts = [Count("a", 0, 9_000, 30), Count("a", 0, 8_000, 10), Count("a", 0, 1_000, 10), Count("a", 0, -1_000, 0)]
    assert rates(counts, EDGES) == [5, 0, 0]
    assert rates([], EDGES) == [0, 0, 0]


def test_even_edges_end_now() -> None:
    assert even_edges(10_000, 2_000, 3) == [4_000, 6_000, 8_000, 10_000]
