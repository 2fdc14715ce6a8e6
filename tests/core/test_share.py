"""Shares of a capacity: never more together than there is, equal when all are busy, given back when not needed."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.core.cost import Amounts
from batchline.core.partitions import Asking
from batchline.core.share import Share, ShareRules
from batchline.errors import InvalidRules
from tests.core.sharing import LEASE_S, World

RULES = ShareRules(1_000, factor=50)
BUSY = 1e6
seeds = st.integers(0, 2**32)


# --- many instances ---


@given(
    st.sampled_from([2, 2, 2, 2, 4, 4, 4, 4, 4, 16]),
    seeds,
    st.lists(st.tuples(st.floats(0, 10), st.integers(0, 16), st.sampled_from("wxcdrs")), max_size=10),
)
def test_together_they_never_hold_more_than_is_shared(
    instances: int, seed: int, story: list[tuple[float, int, str]]
) -> None:
    world = World(ShareRules(190, factor=20), instances, seed, lost=0.1, slow_s=0.2)
    world.want(BUSY)
    for after_s, number, verb in story:
        world.until(world.now_s + after_s)
        happen(world, number % instances, verb)
    world.until(world.now_s + 20)


def happen(world: World, number: int, verb: str) -> None:
    instance = world.instances[number]
    if verb in "wx":
        instance.share.want(BUSY if verb == "w" else 0)
    elif verb == "c":
        instance.cut_off = not instance.cut_off
    elif verb == "d":
        instance.dead = number > 0
    elif verb == "r":
        world.change(shared=110 if number % 2 else 250)
    else:
        instance.share.change(shared=150)


@pytest.mark.parametrize("instances", [2, 4, 16])
@pytest.mark.parametrize("seed", range(2))
def test_busy_instances_move_to_equal_shares(instances: int, seed: int) -> None:
    world = World(ShareRules(1_600, factor=1_600 / 48), instances, seed)
    # The first takes everything before the others come.
    world.instances[0].share.want(BUSY)
    world.until(10)
    assert world.capacities[0] == pytest.approx(1_600)
    world.want(BUSY)
    world.until(40)
    for _ in range(5):
        world.until(world.now_s + 2)
        assert world.capacities == pytest.approx([1_600 / instances] * instances, rel=0.15)


@pytest.mark.parametrize("seed", range(5))
def test_who_needs_less_has_what_it_needs_and_the_others_the_rest(seed: int) -> None:
    world = World(RULES, 4, seed)
    world.want(BUSY)
    world.until(20)
    world.instances[0].share.want(95)
    world.instances[1].share.want(0)
    world.until(50)
    assert world.capacities == [100, 0, 450, 450]


@pytest.mark.parametrize("seed", range(5))
def test_what_cannot_be_divided_goes_round_so_that_in_the_long_run_all_have_the_same(seed: int) -> None:
    world = World(ShareRules(30, factor=10), 2, seed)
    world.want(BUSY)
    seen = [0.0, 0.0]
    for _ in range(40):
        world.until(world.now_s + 3)
        seen = [total + capacity for total, capacity in zip(seen, world.capacities, strict=True)]
    assert max(seen) < 1.4 * min(seen)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_not_needed_is_released_in_a_few_seconds(seed: int) -> None:
    world = World(RULES, 3, seed)
    world.want(200)
    world.until(10)
    assert world.capacities == [200, 200, 200]
    world.want(50)
    world.until(13)
    assert world.capacities == [50, 50, 50]
    world.want(0)
    world.until(16)
    assert world.capacities == [0, 0, 0]
    assert not world.keeper.held
    assert not world.keeper.said


@pytest.mark.parametrize("seed", range(5))
def test_an_instance_that_dies_frees_its_share_within_a_lease(seed: int) -> None:
    world = World(RULES, 3, seed)
    world.want(BUSY)
    world.until(30)
    world.instances[0].dead = True
    world.until(30 + LEASE_S + 3)
    assert world.capacities == pytest.approx([0, 500, 500], rel=0.03)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("at_s", [0.3, 5.0, 17.3])
def test_who_cannot_reach_the_keeper_has_what_is_reserved_before_its_leases_end_there(seed: int, at_s: float) -> None:
    world = World(ShareRules(1_000, factor=50, reserved=7), 2, seed)
    world.want(BUSY)
    world.until(at_s, most=1_014)
    lonely = world.instances[0]
    lonely.cut_off = True
    ends = [until_s for until_s, name in world.keeper.held.values() if name == lonely.share.instance]
    last_s = max(ends, default=world.now_s)
    assert last_s <= world.now_s + LEASE_S
    world.until(last_s - 0.5, most=1_014)
    assert lonely.capacity == 7
    lonely.cut_off = False
    world.until(last_s + 30, most=1_014)
    assert world.capacities == [507, 507]


@pytest.mark.parametrize("seed", range(5))
def test_leases_are_renewed_while_they_are_needed(seed: int) -> None:
    world = World(ShareRules(100, factor=10), 1, seed)
    world.want(BUSY)
    world.until(5)
    for _ in range(60):
        world.until(world.now_s + 1)
        assert world.capacities == [100]


@pytest.mark.parametrize("seed", range(20))
def test_a_slow_clock_of_one_that_is_cut_off_is_no_danger(seed: int) -> None:
    world = World(ShareRules(100, factor=10), 3, seed)
    world.instances[0].speed = 0.94
    world.want(BUSY)
    world.until(10)
    held = dict(world.instances[0].share.held)
    while world.instances[0].share.held == held:
        world.until(world.now_s + 0.02)
    # It has just renewed.
    world.instances[0].cut_off = True
    world.until(world.now_s + 20)
    assert world.capacities == [0, 50, 50]


# --- one of them ---


def share(**rules: Any) -> Share:
    return Share(ShareRules(**{"shared": 100, "factor": 10} | rules), "me")


def asked(*others: Asking) -> list[Asking]:
    return list(others)


def test_all_that_is_missing_is_acquired_in_one_turn_from_a_random_one_on() -> None:
    mine = share()
    mine.want(45)
    steps = mine.steps([], 0.0, 0, 0.75)
    assert (steps.release, steps.renew, steps.most) == ([], [], 5)
    assert steps.acquire == [7, 8, 9, 0, 1, 2, 3, 4, 5, 6]
    assert mine.steps([], 0.0, 0, 1.0).acquire[0] == 9


def test_those_that_others_hold_are_tried_last() -> None:
    mine = share()
    mine.want(30)
    steps = mine.steps([Asking("you", 3, (0, 1, 8))], 0.0, 0, 0.0)
    assert steps.acquire == [2, 3, 4, 5, 6, 7, 9, 0, 1, 8]


def test_what_is_too_much_is_given_back_at_once_if_another_needs_it() -> None:
    mine = share()
    mine.want(BUSY)
    mine.granted(range(8), 0.0)
    steps = mine.steps([Asking("you", 10, (8, 9))], 1.0, 0, 0.0)
    assert (steps.release, steps.most) == ([5, 6, 7], 0)


def test_what_is_not_needed_is_kept_for_a_second_unless_it_is_needed_again() -> None:
    mine = share()
    mine.granted(range(5), 0.0)
    mine.want(30)
    assert [mine.steps([], now_s, 0, 0.0).release for now_s in (0.0, 0.9)] == [[], []]
    mine.want(50)
    assert mine.steps([], 0.95, 0, 0.0).release == []
    mine.want(30)
    assert [mine.steps([], now_s, 0, 0.0).release for now_s in (1.0, 1.9, 2.0)] == [[], [], [3, 4]]


def test_a_lease_counts_from_before_it_was_asked_for_and_ends_before_it_does_at_the_keeper() -> None:
    mine = share(reserved=5)
    mine.granted([0, 9], 100.0)
    assert mine.capacity(113.999) == 25
    assert mine.capacity(114.0) == 5
    assert mine.asking(113.0) == Asking("me", 0, (0, 9))
    mine.want(20)
    assert mine.asking(114.0) == Asking("me", 2, ())


def test_a_lease_is_renewed_when_a_third_of_it_is_over() -> None:
    mine = share()
    mine.want(20)
    mine.granted([0, 1], 0.0)
    assert mine.steps([], 4.0, 0, 0.0).renew == []
    assert mine.steps([], 4.001, 0, 0.0).renew == [0, 1]
    mine.granted([1], 4.0)
    mine.lost([0])
    assert list(mine.held) == [1]


def test_who_wants_and_holds_nothing_says_so_once() -> None:
    mine = share()
    assert mine.asking(0.0) is None
    mine.want(10)
    assert mine.asking(0.0) == Asking("me", 1, ())
    mine.want(0)
    assert mine.asking(1.0) == Asking("me", 0, ())
    assert mine.asking(2.0) is None


def test_another_capacity_to_share_counts_at_once_and_what_is_no_more_is_given_back() -> None:
    mine = share(shared=95, reserved=1)
    mine.want(BUSY)
    mine.granted(range(10), 0.0)
    assert (mine.capacity(1.0), mine.max_capacity) == (96, 96)
    mine.change(shared=45)
    assert (mine.capacity(1.0), mine.max_capacity, mine.wanted) == (46, 46, 5)
    assert mine.steps([], 1.0, 0, 0.0).release == [5, 6, 7, 8, 9]
    mine.change(reserved=20)
    assert mine.capacity(1.0) == 65
    with pytest.raises(InvalidRules):
        mine.change(shared=10_000)
    assert mine.capacity(1.0) == 65


def test_several_capacities_are_shared_by_name() -> None:
    mine = share(shared={"ru": 95, "net": 19}, factor={"ru": 10, "net": 2}, reserved={"ru": 1, "net": 0})
    mine.want(Amounts(ru=25, net=1))
    assert mine.wanted == 3
    assert mine.capacity(0.0) == {"ru": 1, "net": 0}
    mine.granted([0, 9], 0.0)
    assert mine.capacity(0.0) == {"ru": 16, "net": 3}
    assert mine.max_capacity == {"ru": 96, "net": 19}


def test_nothing_to_share_is_nothing_to_do() -> None:
    mine = share(shared=0, reserved=5)
    mine.want(BUSY)
    steps = mine.steps([], 0.0, 0, 0.5)
    assert (steps.release, steps.renew, steps.acquire, steps.most) == ([], [], [], 0)
    assert mine.capacity(0.0) == 5


def test_who_has_its_fair_share_does_not_ask_more_often_than_who_needs_nothing() -> None:
    mine = share()
    mine.want(BUSY)
    mine.granted(range(5), 0.0)
    mine.steps([Asking("you", 10, (5, 6, 7, 8, 9))], 1.0, 0, 0.0)
    assert mine.rest_s(0.0) == 0.25
    mine.steps([Asking("you", 4, (5, 6, 7, 8))], 1.0, 0, 0.0)
    assert mine.rest_s(0.0) == 0.001


@pytest.mark.parametrize("instances", [1, 4])
def test_busy_instances_ask_no_more_than_a_few_times_a_second(instances: int) -> None:
    world = World(RULES, instances, 0)
    world.want(BUSY)
    world.until(20)
    before = world.keeper.asked
    world.until(50)
    assert world.keeper.asked - before <= 30 * instances * 4


@given(st.integers(0, 2_000), st.floats(0, 1), st.booleans())
def test_a_turn_comes_within_the_longest_interval_and_later_the_more_is_refused(
    refused: int, chance: float, needy: bool
) -> None:
    mine = share()
    mine.want(BUSY if needy else 0)
    for _ in range(refused):
        mine.refused(1)
    rest_s = mine.rest_s(chance)
    assert 0.001 <= rest_s <= 0.5
    if needy:
        assert rest_s == pytest.approx(max(min(0.5, 0.125 * 2.0 ** min(refused, 9)) * chance, 0.001))
        mine.refused(0)
        assert mine.rest_s(chance) <= 0.125
    else:
        assert rest_s >= 0.25


def test_what_all_must_agree_on_is_the_same_text_for_all_who_mean_the_same() -> None:
    assert ShareRules(100, factor=10).size == ShareRules(100.0, factor=10.0, reserved=7).size
    one = ShareRules({"ru": 10, "net": 5}, factor={"ru": 2, "net": 1})
    assert one.size == ShareRules({"net": 5.0, "ru": 10}, factor={"net": 1, "ru": 2}).size
    assert one.size != ShareRules({"ru": 10, "net": 5}, factor={"ru": 10, "net": 5}).size


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shared": -1}, "shared must be a number from 0 to .*, got -1"),
        ({"shared": "100"}, "shared must be a number from 0 to .*, got '100'"),
        ({"factor": 0}, "factor must be above 0, got 0"),
        ({"factor": True}, "factor must be a number from 0 to .*, got True"),
        ({"shared": {"ru": 5}, "factor": {"ru": 0}}, "factor must be above 0, got {'ru': 0}"),
        ({"shared": {"ru": 5}}, "factor must name the same capacities as shared, got 10 for {'ru': 5}"),
        ({"reserved": {"ru": 5}}, "reserved must name the capacities of shared, got {'ru': 5}, 100"),
        ({"reserved": -5}, "reserved must be a number from 0 to .*, got -5"),
        ({"shared": 5_001}, r"shared / factor must be at most 500 partitions, got 5001 / 10 = 501"),
        ({"max_interval": timedelta(0)}, "max_interval must be 1ms or longer"),
        ({"max_interval": 500}, "max_interval must be a timedelta, got 500"),
        ({"lease": timedelta(-1)}, "lease must be 1ms or longer"),
        ({"lease": 15}, "lease must be a timedelta, got 15"),
    ],
    ids=str,
)
def test_rules_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRules, match=f"^{message}"):
        share(**options)
