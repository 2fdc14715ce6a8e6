"""How long things waited, to a hundredth."""

from hypothesis import given
from hypothesis import strategies as st

from batchline.core.waits import Waits


@given(st.lists(st.floats(0.001, 10_000), min_size=1), st.sampled_from([0.01, 0.5, 0.99, 1.0]))
def test_a_share_waited_so_long_within_a_hundredth(waited: list[float], share: float) -> None:
    waits = Waits()
    for seconds in waited:
        waits.note(seconds)
    exact = sorted(waited)[max(0, -(-int(share * 100) * len(waited) // 100) - 1)]
    assert exact * 0.999 <= waits.within_s(share) <= exact * 1.011
    assert waits.longest_s == max(waited)


def test_many_are_noted_and_added_at_once() -> None:
    one, other = Waits(), Waits()
    one.note(1.0, 99)
    other.note(50.0)
    one.add(other)
    assert (one.within_s(0.5) < 1.02, one.within_s(1.0), one.longest_s) == (True, 50.0, 50.0)


def test_nothing_waited_no_time() -> None:
    waits = Waits()
    assert waits.within_s(0.5) == 0
    waits.note(0.0)
    assert waits.within_s(0.99) == 0
