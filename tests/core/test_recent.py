"""How much there was within a second."""

from hypothesis import given
from hypothesis import strategies as st

from batchline.core.cost import Amounts
from batchline.core.recent import Recent

notes = st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0]), st.integers(0, 5)), max_size=20)


@given(notes, st.sampled_from([0.0, 0.25, 0.75, 1.0, 2.0]))
def test_the_total_is_that_of_the_last_second(noted: list[tuple[float, int]], after_s: float) -> None:
    recent, now_s, all_of_it = Recent(), 0.0, []
    for gap_s, amount in noted:
        now_s += gap_s
        recent.note(amount, now_s)
        all_of_it.append((now_s, amount))
    now_s += after_s
    assert recent.total(now_s) == sum(amount for at_s, amount in all_of_it if at_s > now_s - 1)


def test_amounts_of_several_capacities_add_up_by_name() -> None:
    recent = Recent()
    recent.note(Amounts(ru=1), 0.0)
    recent.note(Amounts(ru=2, net=3), 0.5)
    assert recent.total(0.5) == {"ru": 3, "net": 3}
    assert recent.total(5.0) == 0


def test_what_nobody_asks_for_is_not_kept_for_ever() -> None:
    recent = Recent()
    for tick in range(10_000):
        recent.note(1, tick / 10)
    assert len(recent._noted) <= 20
