"""Trouble of a background loop: what is known of it, and when it is logged."""

from batchline.core.trouble import BACK_OFF, LOOPS, SERVING, Logged, Trouble, is_news, trouble_after


def test_trouble_keeps_its_beginning_counts_failures_and_has_the_last_error() -> None:
    first = trouble_after(None, "prune", ZeroDivisionError(), 1_000)
    assert first == Trouble("prune", 1_000, 1, "ZeroDivisionError")
    assert trouble_after(first, "prune", KeyError("secret"), 5_000) == Trouble("prune", 1_000, 2, "KeyError")


def test_the_same_error_is_logged_once_a_minute_and_another_at_once() -> None:
    last = Logged("KeyError", 1_000)
    assert is_news(None, KeyError(), 1_000)
    assert not is_news(last, KeyError(), 60_999)
    assert is_news(last, KeyError(), 61_000)
    assert is_news(last, ZeroDivisionError(), 1_001)


def test_a_clock_that_was_set_back_does_not_silence_the_log() -> None:
    assert is_news(Logged("KeyError", 1_000_000), KeyError(), 500)


def test_pauses_double_from_a_second_to_a_minute_or_five_seconds() -> None:
    for rules, longest_ms in ((BACK_OFF, 60_000), (SERVING, 5_000)):
        pauses = [rules.pause_ms(failures, 0.0) for failures in range(1, 9)]
        assert pauses == [min(1_000 * 2**number, longest_ms) for number in range(8)]


def test_names_are_words_that_metrics_take_as_labels() -> None:
    assert all(name.replace("_", "").isalpha() and name.islower() for name in LOOPS)
