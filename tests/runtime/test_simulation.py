"""Scenarios, played: what the real dispatcher and the real leases make of them."""

from dataclasses import asdict
from functools import cache
from typing import Any

import pytest

from batchline.core.scenario_tables import scenario_of
from batchline.runtime.simulation import simulate
from batchline.runtime.simulation_record import Simulation

LIMIT = 20_000


def played(**changes: Any) -> Simulation:
    """The seed's example, with changes to whole tables."""
    whole: dict[str, Any] = {
        "receiver": {"limit": LIMIT},
        "capacity": {"shared": LIMIT, "factor": 1_000},
        "instances": {"count": 4},
        "jobs": [{"name": "import", "on": [1, 2], "records": 100_000, "cost": 10}],
    }
    return simulate(scenario_of(whole | changes))


@cache
def seeds_example() -> Simulation:
    return played()


@cache
def four_busy() -> Simulation:
    return played(jobs=[{"on": "all", "records": 20_000, "cost": 10}])


def totals(simulation: Simulation, measure: str, name: str = "cost") -> list[float]:
    return [sum(values) for values in zip(*(getattr(one, measure)[name] for one in simulation.instances), strict=True)]


def test_the_seeds_example_takes_about_100_seconds_and_never_exceeds_the_limit() -> None:
    summary = seeds_example().summary
    assert summary.done
    assert 100 <= summary.seconds <= 101.5
    assert not summary.exceeded
    assert summary.largest_second["cost"] <= LIMIT
    assert (summary.refusals, summary.pauses) == (0, 0)
    assert max(totals(seeds_example(), "capacity")) <= LIMIT


def test_its_two_jobs_are_served_alike_while_the_others_hold_nothing() -> None:
    simulation = seeds_example()
    first, second = simulation.jobs
    assert first.ended_s is not None
    assert second.ended_s is not None
    assert abs(first.ended_s - second.ended_s) < 1
    assert simulation.summary.fairness is not None
    assert simulation.summary.fairness > 0.99
    for idle in simulation.instances[2:]:
        assert not any(idle.capacity["cost"])
        assert not any(idle.partitions)


def test_what_came_was_taken_once() -> None:
    simulation = seeds_example()
    assert [sum(one.rate["cost"]) for one in simulation.instances] == [1_000_000, 1_000_000, 0, 0]
    assert [job.done for job in simulation.jobs] == [100_000, 100_000]
    assert totals(simulation, "backlog")[-1] == 0
    assert sum(simulation.lease_calls) == sum(simulation.summary.lease_calls.values())


def test_who_has_its_fair_share_leaves_the_lease_manager_alone() -> None:
    assert seeds_example().summary.lease_calls_a_second < 10


def test_four_busy_instances_have_equal_shares() -> None:
    simulation = four_busy()
    middle = len(simulation.at_s) // 2
    assert [one.capacity["cost"][middle] for one in simulation.instances] == [LIMIT / 4] * 4
    assert [one.partitions[middle] for one in simulation.instances] == [5] * 4
    assert simulation.summary.used is not None
    assert simulation.summary.used > 0.98
    assert simulation.summary.seconds < 42


def test_the_same_seed_gives_the_same_and_another_gives_another() -> None:
    jobs = [{"on": "all", "records": 2_000, "cost": 10}]
    once, again, other = (asdict(played(jobs=jobs, seed=seed)) for seed in (1, 1, 2))
    assert once == again
    assert once["summary"] != other["summary"]


def test_records_wait_from_when_they_came() -> None:
    summary = seeds_example().summary
    assert 45 < summary.waited_p50_s < 55
    assert 98 < summary.waited_p99_s <= summary.waited_longest_s < 101.5


# --- receivers that refuse ---

TOO_MUCH = {"provisioned": 10_000}
ON_ALL = [{"on": "all", "records": 15_000, "cost": 10}]
#: Pauses that do not grow, so that what is compared is the capacity.
PATIENT = {"backoff": {"first": "500ms", "factor": 1.0}}


def test_too_much_is_throttled_and_pauses() -> None:
    simulation = played(capacity=TOO_MUCH, jobs=ON_ALL)
    summary = simulation.summary
    assert summary.done
    assert summary.exceeded
    assert summary.refusals > 0
    assert summary.pauses > 0
    assert sum(totals(simulation, "rate")) == 600_000
    assert sum(totals(simulation, "throttled")) == summary.throttled["cost"] > 0
    # By the second of the clock, two of the receiver's may meet in one.
    assert max(totals(simulation, "rate")) <= LIMIT * 1.2


def test_adaptive_is_throttled_less() -> None:
    plain = played(capacity=TOO_MUCH, jobs=ON_ALL, dispatcher=PATIENT).summary
    adaptive = played(capacity=TOO_MUCH | {"adaptive": {}}, jobs=ON_ALL, dispatcher=PATIENT).summary
    assert plain.done
    assert adaptive.done
    assert adaptive.refusals < plain.refusals * 0.8


def test_a_receiver_that_asks_to_be_left_alone_is() -> None:
    summary = played(
        receiver={"limit": LIMIT, "retry_after": "3s"}, capacity=TOO_MUCH, jobs=ON_ALL, dispatcher=PATIENT
    ).summary
    assert summary.paused_s >= 3 * summary.pauses > 0


def test_one_that_only_suffers_takes_everything() -> None:
    simulation = played(receiver={"limit": LIMIT, "throttles": False}, capacity=TOO_MUCH, jobs=ON_ALL)
    assert (simulation.summary.refusals, simulation.summary.exceeded) == (0, True)
    assert simulation.summary.largest_second["cost"] >= 40_000
    assert simulation.summary.seconds < 16


def test_without_any_limit_all_of_it_comes_at_once() -> None:
    simulation = played(receiver={"limit": LIMIT, "throttles": False}, capacity={}, jobs=ON_ALL)
    assert simulation.summary.largest_second["cost"] > 10 * LIMIT
    assert not any(totals(simulation, "capacity"))


# --- instances that come and go ---


def test_a_killed_instance_takes_its_work_along_and_its_share_is_free_after_a_lease() -> None:
    simulation = played(instances={"count": 2, "1": {"kill": "10s"}})
    killed, other = simulation.jobs
    assert killed.ended_s is None
    assert killed.lost == 100_000 - killed.done > 80_000
    assert other.done == 100_000
    assert simulation.summary.lost == killed.lost
    assert simulation.summary.done
    shares = simulation.instances[1].capacity["cost"]
    assert shares[15] == LIMIT / 2
    assert shares[27] == LIMIT
    assert simulation.instances[0].capacity["cost"][12] == 0


def test_a_stopped_instance_drains_and_gives_back_at_once() -> None:
    jobs = [{"on": [1], "records": 1_000, "cost": 10}, {"on": [2], "records": 40_000, "cost": 10}]
    simulation = played(instances={"count": 2, "1": {"stop": "5s"}}, jobs=jobs)
    assert [job.lost for job in simulation.jobs] == [0, 0]
    assert simulation.instances[1].capacity["cost"][7] == LIMIT


def test_work_for_an_instance_that_was_stopped_is_lost_and_for_one_to_come_waits() -> None:
    jobs = [{"on": [1, 2], "at": "6s", "records": 100, "cost": 10}]
    simulation = played(instances={"count": 2, "1": {"stop": "5s"}, "2": {"start": "9s"}}, jobs=jobs)
    gone, late = simulation.jobs
    assert (gone.done, gone.lost, late.done) == (0, 100, 100)
    assert late.began_s is not None
    assert late.began_s >= 9


def test_what_is_not_done_in_time_is_left() -> None:
    simulation = played(longest="10s")
    summary = simulation.summary
    assert not summary.done
    assert summary.seconds == pytest.approx(10)
    assert summary.left == 200_000 - sum(job.done for job in simulation.jobs) > 0
    assert simulation.at_s[-1] == pytest.approx(10)


# --- other work ---


def test_a_small_job_beside_a_large_one_does_not_wait_for_it() -> None:
    jobs = [
        {"name": "large", "on": [1], "records": 100_000, "cost": 10},
        {"name": "live", "on": [1], "at": "5s", "per_second": 100, "for": "10s", "cost": 10},
    ]
    large, live = played(jobs=jobs).jobs
    assert live.ended_s is not None
    assert large.ended_s is not None
    assert live.waited_p99_s < 1.5
    assert live.ended_s < 17 < large.ended_s


def test_several_capacities_are_kept_each() -> None:
    both = {"ru": 1_000, "network": 300}
    simulation = played(
        receiver={"limit": both},
        capacity={"shared": both, "factor": {"ru": 100, "network": 30}},
        jobs=[{"on": "all", "records": 300, "cost": {"ru": 5, "network": 3}}],
    )
    summary = simulation.summary
    assert (summary.done, summary.exceeded) == (True, False)
    assert summary.largest_second["network"] <= 303 + 3
    assert summary.seconds == pytest.approx(12, abs=1.5)
    assert sum(totals(simulation, "rate", "ru")) == 6_000


def test_reserved_capacity_sends_before_anything_is_leased() -> None:
    simulation = played(capacity={"shared": 16_000, "factor": 1_000, "reserved": 1_000})
    assert all(job.began_s is not None and job.began_s < 0.25 for job in simulation.jobs)


def test_progress_is_told() -> None:
    told: list[tuple[str, int, int]] = []
    scenario = seeds_example().scenario
    simulate(scenario, lambda *step: told.append(step))
    assert (told[-1][0], told[-1][2]) == ("simulating", 200_000)
    assert 195_000 < told[-1][1] <= 200_000
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
