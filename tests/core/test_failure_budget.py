"""Failures of an address: a burst at once, then by the rate, and a bounded number of addresses."""

from batchline.core.failure_budget import FailureBudget


def test_an_address_fails_a_burst_at_once_and_then_by_the_rate() -> None:
    budget = FailureBudget(burst=3, per_second=0.5)
    for _ in range(3):
        assert budget.wait_s("a", 100.0) == 0
        budget.spend("a", 100.0)
    assert budget.wait_s("a", 100.0) == 2.0
    assert budget.wait_s("a", 101.5) == 0.5
    assert budget.wait_s("b", 100.0) == 0
    assert budget.wait_s("a", 102.0) == 0
    budget.spend("a", 102.0)
    assert budget.wait_s("a", 102.0) == 2.0


def test_a_budget_is_whole_again_after_a_rest_and_never_more() -> None:
    budget = FailureBudget(burst=2, per_second=1.0)
    budget.spend("a", 0.0)
    for _ in range(2):
        assert budget.wait_s("a", 1_000.0) == 0
        budget.spend("a", 1_000.0)
    assert budget.wait_s("a", 1_000.0) == 1.0


def test_addresses_beyond_the_limit_are_forgotten_the_oldest_first() -> None:
    budget = FailureBudget(burst=1, most_addresses=100)
    for number in range(1_000):
        budget.spend(str(number), 0.0)
        budget.is_news(str(number), 0.0)
    assert len(budget) == len(budget._logged_s) == 100
    assert budget.wait_s("0", 0.0) == 0
    assert budget.wait_s("999", 0.0) == 1.0


def test_a_refusal_is_news_once_in_a_minute_for_each_address() -> None:
    budget = FailureBudget()
    assert [budget.is_news(one, 5.0) for one in "aab"] == [True, False, True]
    assert [budget.is_news("a", at_s) for at_s in (64.9, 65.0, 65.1)] == [False, True, False]
