"""What can be simulated, and what is refused."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.core.scenario import CapacityPlan, Job, Life, Pattern, Receiver, Scenario, arrivals
from batchline.core.scenario_tables import scenario_of
from batchline.core.share import ShareRules
from batchline.errors import InvalidRules

JOB = {"on": [1, 2], "records": 100_000, "cost": 10}


def tables(**changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "receiver": {"limit": 20_000},
        "capacity": {"shared": 20_000, "factor": 1_000},
        "instances": {"count": 4},
        "jobs": [JOB],
    }
    return whole | changes


def test_tables_are_a_scenario() -> None:
    scenario = scenario_of(
        tables(
            longest="2m",
            seed=7,
            receiver={"limit": 20_000, "latency": "5ms", "throttles": False, "retry_after": "1s"},
            dispatcher={"flush_interval": "50ms", "max_batch_size": 500, "backoff": {"first": "1s", "longest": "4s"}},
            instances={"count": 4, "3": {"start": "10s", "kill": "1m"}},
        )
    )
    assert scenario.receiver == Receiver(20_000, timedelta(milliseconds=5), False, timedelta(seconds=1))
    assert scenario.capacity == CapacityPlan(ShareRules(20_000, 1_000))
    assert scenario.jobs == (Job("job 1", (1, 2), cost=10, records=100_000),)
    assert (scenario.longest, scenario.seed, scenario.max_batch_size) == (timedelta(minutes=2), 7, 500)
    assert scenario.dispatcher.flush_interval == timedelta(milliseconds=50)
    assert scenario.dispatcher.pauses.longest == timedelta(seconds=4)
    assert scenario.life(3) == Life(timedelta(seconds=10), kill=timedelta(minutes=1))
    assert scenario.life(1) == Life()


def test_a_capacity_may_be_provisioned_ramped_and_adaptive() -> None:
    capacity = {"provisioned": 500, "ramp": {"start": 50, "factor": 1.5, "every": "5m"}, "adaptive": {"fall": 0.5}}
    plan = scenario_of(tables(capacity=capacity)).capacity
    assert (plan.provisioned, plan.shared) == (500, None)
    assert plan.ramp is not None
    assert plan.adaptive is not None
    assert (plan.ramp.every, plan.adaptive.fall) == (timedelta(minutes=5), 0.5)


def test_several_capacities_are_named() -> None:
    both = {"ru": 100, "network": 10}
    job = {"records": 1, "cost": {"ru": 5}}
    scenario = scenario_of(tables(receiver={"limit": both}, capacity={"provisioned": both}, jobs=[job]))
    assert scenario.receiver.limit == both


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"receivr": {}}, r"the file has no key 'receivr'; did you mean 'receiver'\?"),
        ({"receiver": {"limt": 5}}, r"\[receiver\] has no key 'limt'; did you mean 'limit'\?"),
        ({"receiver": {}}, r"\[receiver\] needs limit"),
        ({"receiver": {"limit": 0}}, r"\[receiver\] limit must be above 0, got 0"),
        ({"receiver": {"limit": 5, "latency": 3}}, r"latency must be a span such as '500ms' or '2m', got 3"),
        ({"receiver": {"limit": 5, "latency": "soon"}}, r"latency: expected a span .* got 'soon'"),
        ({"receiver": {"limit": 5, "throttles": "yes"}}, r"throttles must be true or false, got 'yes'"),
        ({"receiver": 5}, r"\[receiver\] must be a table, got 5"),
        ({"capacity": {"shared": 20_000}}, r"\[capacity\] shared / factor must be at most 500 partitions"),
        ({"capacity": {"factor": 100}}, r"\[capacity\] factor belong to shared, which is missing"),
        ({"capacity": {"shared": 1, "provisioned": 1}}, r"either shared or provisioned for each instance, got both"),
        ({"capacity": {"adaptive": {}}}, r"give shared or provisioned, too"),
        ({"capacity": {"provisioned": 9}}, r"job 'job 1': cost 10 is more than an instance can ever have, 9"),
        ({"capacity": {"provisioned": {"ru": 50}}}, r"capacity must name the capacities of the receiver's limit"),
        ({"dispatcher": {"flush_intervall": "1s"}}, r"\[dispatcher\] has no key .* did you mean 'flush_interval'"),
        ({"dispatcher": {"buffer": 0}}, r"\[dispatcher\] buffer must be a whole number from 1 on"),
        ({"dispatcher": {"max_batch_size": 0}}, r"max_batch_size must be a whole number from 1 on"),
        ({"instances": {"count": 0}}, r"count must be a whole number from 1 to 200, got 0"),
        ({"instances": {"cuont": 1}}, r"\[instances\] has a count, and tables by number such as \[instances.1\]"),
        ({"instances": {"count": 2, "3": {}}}, r"instances must be numbers from 1 to 2, got 3"),
        ({"instances": {"count": 4, "3": {"stop": "0s"}}}, r"\[instances.3\] stop must be after start"),
        ({"instances": {"count": 4, "3": {"stop": "1s", "kill": "1s"}}}, r"either stopped or killed, got both"),
        ({"jobs": []}, r"there is no job"),
        ({"jobs": JOB}, r"jobs are written as \[\[jobs\]\]"),
        ({"jobs": [{"on": [5], "records": 1}]}, r"job 'job 1': on must be numbers from 1 to 4, got 5"),
        ({"jobs": [{"on": "some", "records": 1}]}, r"on must be numbers of instances such as \[1, 2\], or 'all'"),
        ({"jobs": [{"cost": 1}]}, r"\[jobs 'job 1'\] a job has either records, or per_second and for"),
        ({"jobs": [{"records": 1, "for": "1s"}]}, r"for, pattern and every belong to per_second"),
        ({"jobs": [{"name": "live", "per_second": 5}]}, r"\[jobs 'live'\] per_second needs for"),
        ({"jobs": [{"per_second": 5, "for": "1m", "pattern": "wafe"}]}, r"did you mean 'wave'\?"),
        ({"jobs": [{"per_second": 0, "for": "1m"}]}, r"per_second must be a number above 0, got 0"),
        ({"jobs": [{"records": 1, "cost": {"ru": 1}}]}, r"must name the capacities of the receiver's limit"),
        ({"longest": "0s"}, r"longest must be 1s or longer"),
        ({"seed": 1.5}, r"seed must be a whole number, got 1.5"),
    ],
)
def test_what_is_wrong_is_named_with_its_table(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRules, match=said):
        scenario_of(tables(**changes))


@pytest.mark.parametrize("name", ["receiver", "capacity", "jobs"])
def test_what_is_missing_is_named(name: str) -> None:
    whole = tables()
    del whole[name]
    with pytest.raises(InvalidRules, match=rf"\[{name}\] is missing"):
        scenario_of(whole)


def test_records_come_all_at_once() -> None:
    assert list(arrivals(Job("a", at=timedelta(seconds=3), records=50))) == [(3.0, 50)]


def test_a_steady_rate_comes_evenly() -> None:
    come = list(arrivals(Job("a", per_second=25, lasts=timedelta(seconds=2))))
    assert sum(count for _, count in come) == 50
    assert {count for _, count in come} == {2, 3}


def test_bursts_come_at_the_beginning_of_each_period() -> None:
    job = Job("a", per_second=10, lasts=timedelta(seconds=25), pattern="bursts")
    assert [(round(at_s, 6), count) for at_s, count in arrivals(job)] == [(0, 100), (10, 100), (20, 50)]


def test_a_wave_rises_from_nothing_to_twice_the_rate() -> None:
    come = list(arrivals(Job("a", per_second=100, lasts=timedelta(seconds=60), pattern="wave")))
    seconds = [sum(count for at_s, count in come if second <= at_s < second + 1) for second in range(60)]
    assert (seconds[0] <= 1, abs(seconds[29] - 200) <= 2, seconds[59] <= 1, sum(seconds)) == (True, True, True, 6_000)


@given(
    st.floats(0.1, 1_000),
    st.floats(0.1, 100),
    st.sampled_from(["steady", "bursts", "wave"]),
    st.floats(0.1, 100),
)
def test_as_many_come_as_a_job_has_in_order(rate: float, seconds: float, pattern: Pattern, every: float) -> None:
    job = Job("a", per_second=rate, lasts=timedelta(seconds=seconds), pattern=pattern, every=timedelta(seconds=every))
    come = list(arrivals(job))
    moments = [at_s for at_s, _ in come]
    assert sum(count for _, count in come) == job.total
    assert all(count > 0 for _, count in come)
    assert moments == sorted(moments)
    assert all(at_s <= seconds for at_s in moments)


def test_a_scenario_is_checked_however_it_is_built() -> None:
    with pytest.raises(InvalidRules, match="there is no job"):
        Scenario(Receiver(1), CapacityPlan(), ())
