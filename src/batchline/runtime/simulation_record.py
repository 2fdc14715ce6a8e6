"""What a simulation was like: series a second, what became of each job, and a summary."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from batchline.core.cost import names_of, part_of
from batchline.core.scenario import Scenario
from batchline.core.waits import Waits
from batchline.runtime.simulated_instance import Run, SimulatedInstance, sleep_until
from batchline.runtime.simulated_receiver import SimulatedReceiver

__all__ = ["InstanceSeries", "JobOutcome", "Recorder", "Simulation", "Summary", "dimensions", "recorded"]

#: What a single capacity is called.
COST = "cost"
Series = dict[str, list[float]]


def dimensions(scenario: Scenario) -> tuple[str, ...]:
    """The names of the capacities; a single one is `cost`."""
    return names_of(scenario.receiver.limit) or (COST,)


def _parts(amount: Any, names: Iterable[str]) -> dict[str, float]:
    return {name: float(part_of(amount, name)) for name in names}


@dataclass(frozen=True, slots=True)
class InstanceSeries:
    """An instance, second by second; amounts by the name of their capacity."""

    number: int
    #: What the receiver took, and what it refused, within each second.
    rate: Series
    throttled: Series
    #: What has come and is not done, at the end of each second: its cost, and how many records.
    backlog: Series
    records: list[float]
    #: What it may send a second, at the end of each, and how many partitions that takes.
    capacity: Series
    partitions: list[float]


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """What became of a job on an instance."""

    name: str
    instance: int
    records: int
    done: int
    #: Not done, since its instance was stopped or killed.
    lost: int
    at_s: float
    began_s: float | None
    #: When all of it was done; None if it was not.
    ended_s: float | None
    waited_p50_s: float
    waited_p99_s: float


@dataclass(frozen=True, slots=True)
class Summary:
    """A simulation in figures."""

    #: Whether all was done that its instances lived to do.
    done: bool
    seconds: float
    records: int
    left: int
    lost: int
    #: What came within any second, at most, and whether that was too much for the receiver; by capacity.
    limit: dict[str, float]
    largest_second: dict[str, float]
    exceeded: bool
    #: The part of the limit that was used while a second's work or more waited; None if it never did.
    used: float | None
    #: How equally instances were served that had work at the same time: 1 is equally; None if no two had.
    fairness: float | None
    refusals: int
    throttled: dict[str, float]
    pauses: int
    paused_s: float
    lease_calls: dict[str, int]
    lease_calls_a_second: float
    waited_p50_s: float
    waited_p99_s: float
    waited_longest_s: float


@dataclass(frozen=True, slots=True)
class Simulation:
    """A scenario that was played."""

    scenario: Scenario
    #: When each sample was taken: at the end of every second, and at the end.
    at_s: list[float]
    instances: tuple[InstanceSeries, ...]
    #: Calls of the lease manager within each second.
    lease_calls: list[float]
    jobs: tuple[JobOutcome, ...]
    summary: Summary


@dataclass
class Recorder:
    """Notes every second what is to be seen."""

    scenario: Scenario
    instances: Sequence[SimulatedInstance]
    receiver: SimulatedReceiver
    calls: Counter[str]
    at_s: list[float] = field(default_factory=list)
    lease_calls: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.names = dimensions(self.scenario)
        self.series = [
            InstanceSeries(instance.number, *(self._none(), self._none(), self._none(), [], self._none(), []))
            for instance in self.instances
        ]

    def _none(self) -> Series:
        return {name: [] for name in self.names}

    async def record(self, tell: Callable[[], None]) -> None:
        """Every second, for as long as it goes on."""
        second = 1
        while True:
            await sleep_until(second)
            self.note(second)
            tell()
            second += 1

    def note(self, now_s: float) -> None:
        """What it is like now."""
        if self.at_s and now_s - self.at_s[-1] < 1e-6:
            return
        self.at_s.append(now_s)
        self.lease_calls.append(self.calls.total() - sum(self.lease_calls))
        for instance, series in zip(self.instances, self.series, strict=True):
            self._note_instance(instance, series)

    def _note_instance(self, instance: SimulatedInstance, series: InstanceSeries) -> None:
        backlog = sum((run.job.cost * run.backlog for run in instance.runs), self.scenario.receiver.limit * 0)
        for name in self.names:
            for totals, total in ((series.rate, instance.accepted), (series.throttled, instance.throttled)):
                totals[name].append(part_of(total, name))
            series.backlog[name].append(part_of(backlog, name))
            series.capacity[name].append(part_of(instance.capacity, name))
        series.records.append(sum(run.backlog for run in instance.runs))
        series.partitions.append(instance.partitions)


def recorded(recorder: Recorder, runs: Sequence[Run], seconds: float) -> Simulation:
    """The simulation that was recorded, which took so long."""
    # Totals were noted: within a second is what came since the one before.
    for series in recorder.series:
        for totals in (*series.rate.values(), *series.throttled.values()):
            totals[:] = [now - before for before, now in pairwise([0.0, *totals])]
    return Simulation(
        recorder.scenario,
        recorder.at_s,
        tuple(recorder.series),
        recorder.lease_calls,
        tuple(map(_outcome, runs)),
        _summary(recorder, runs, seconds),
    )


def _outcome(run: Run) -> JobOutcome:
    return JobOutcome(
        name=run.job.name,
        instance=run.instance.number,
        records=run.job.total,
        done=run.done,
        lost=run.lost,
        at_s=run.job.at.total_seconds(),
        began_s=run.began_s,
        ended_s=run.ended_s if run.over and not run.lost else None,
        waited_p50_s=run.waits.within_s(0.5),
        waited_p99_s=run.waits.within_s(0.99),
    )


def _summary(recorder: Recorder, runs: Sequence[Run], seconds: float) -> Summary:
    receiver, names = recorder.receiver, recorder.names
    paused_ms = [pause for instance in recorder.instances for pause in instance.paused_ms]
    waits = Waits()
    for run in runs:
        waits.add(run.waits)
    records, done, lost = (
        sum(each) for each in zip(*((run.job.total, run.done, run.lost) for run in runs), strict=True)
    )
    return Summary(
        done=all(run.over for run in runs),
        seconds=seconds,
        records=records,
        left=records - done - lost,
        lost=lost,
        limit=_parts(receiver.rules.limit, names),
        largest_second=_parts(receiver.largest_second, names),
        exceeded=receiver.exceeded,
        used=_used(recorder),
        fairness=_fairness(recorder),
        refusals=receiver.refusals,
        throttled=_parts(receiver.throttled, names),
        pauses=len(paused_ms),
        paused_s=sum(paused_ms) / 1_000,
        lease_calls=dict(recorder.calls),
        lease_calls_a_second=recorder.calls.total() / seconds,
        waited_p50_s=waits.within_s(0.5),
        waited_p99_s=waits.within_s(0.99),
        waited_longest_s=waits.longest_s,
    )


def _use(recorder: Recorder, measure: str, place: int, second: int) -> float:
    """A measure of an instance in parts of the receiver's limit: of that capacity of which it is most."""
    limit = recorder.receiver.rules.limit
    series: Series = getattr(recorder.series[place], measure)
    return max(values[second] / part_of(limit, name) for name, values in series.items())


def _used(recorder: Recorder) -> float | None:
    """Of the seconds before and after which there was a second's work or more."""
    everybody = range(len(recorder.series))
    waiting, rate = (
        [sum(_use(recorder, measure, place, second) for place in everybody) for second in range(len(recorder.at_s))]
        for measure in ("backlog", "rate")
    )
    used = [rate[second] for second in range(1, len(rate)) if min(waiting[second - 1 : second + 1]) >= 1]
    return sum(used) / len(used) if used else None


def _fairness(recorder: Recorder) -> float | None:
    """Jain's index, the mean of all seconds in which several had more to do than an equal share of them."""
    everybody = range(len(recorder.series))
    found = []
    for second in range(1, len(recorder.at_s)):
        waiting = (min(_use(recorder, "backlog", place, at) for at in (second - 1, second)) for place in everybody)
        busy = [place for place, work in enumerate(waiting) if work >= 1 / len(everybody)]
        uses = [_use(recorder, "rate", place, second) for place in busy]
        if len(uses) > 1 and any(uses):
            found.append(sum(uses) ** 2 / (len(uses) * sum(use * use for use in uses)))
    return sum(found) / len(found) if found else None
