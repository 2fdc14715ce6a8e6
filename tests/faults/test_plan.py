from hypothesis import given
from hypothesis import strategies as st

from tests.faults.plan import KINDS, Fault, kind_of, plan_of

SEEDS = st.integers(0, 2**32)


@given(SEEDS)
def test_a_seed_says_all(seed: int) -> None:
    assert plan_of(seed, 45, 16) == plan_of(seed, 45, 16)


@given(SEEDS, st.integers(1, 40))
def test_faults_come_in_order_within_their_time_and_last_as_long_as_their_kind_says(seed: int, count: int) -> None:
    plan = plan_of(seed, 45, count)
    assert len(plan) == count
    assert [fault.at_s for fault in plan] == sorted(fault.at_s for fault in plan)
    for fault in plan:
        assert kind_of(fault) in KINDS
        (kind,) = (one for one in KINDS if one.do == fault.do and fault.target in one.targets)
        assert 0 <= fault.at_s <= 45
        assert kind.shortest_s <= fault.for_s <= kind.longest_s
        assert fault.how in kind.how


@given(SEEDS)
def test_nothing_is_hit_again_before_it_is_mended(seed: int) -> None:
    mended: dict[str, float] = {}
    for fault in plan_of(seed, 45, 16):
        assert mended.get(fault.target, 0) <= fault.at_s
        mended[fault.target] = fault.at_s + fault.for_s


@given(SEEDS)
def test_a_plan_has_only_the_kinds_that_are_asked_for(seed: int) -> None:
    assert {fault.do for fault in plan_of(seed, 45, 4, ["freeze", "cut"])} <= {"freeze", "cut"}


def test_every_kind_comes_up_in_some_run() -> None:
    names = {(fault.do, fault.target, fault.how) for seed in range(200) for fault in plan_of(seed, 45, 16)}
    assert names >= {(kind.do, target, how) for kind in KINDS for target in kind.targets for how in kind.how}


def test_a_fault_is_told_with_its_moment() -> None:
    assert str(Fault(3.5, "kill", "driver", 1.25, "all")) == "  3.50 s  kill driver all, for 1.25 s"
