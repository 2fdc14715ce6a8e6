"""What is simulated: a receiver, the capacity of its senders, how they dispatch, and the work that comes. Checked."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Literal, get_args

from batchline.core.adaptive import Adaptive
from batchline.core.cost import Amount, amount_of, exceeds, names_of, part_of, same_names
from batchline.core.dispatch_rules import DispatchRules
from batchline.core.moment import check_span
from batchline.core.operation import check_count
from batchline.core.ramp import Ramp
from batchline.core.share import ShareRules
from batchline.errors import InvalidRules, check_choice, shown

__all__ = ["CapacityPlan", "Job", "Life", "Pattern", "Receiver", "Scenario", "arrivals"]

Pattern = Literal["steady", "bursts", "wave"]
MOST_INSTANCES: Final = 200
#: How finely what comes at a rate is divided: what comes within it comes together.
TICK_S: Final = 0.1
BURST: Final = timedelta(seconds=10)
NONE: Final = timedelta(0)


@dataclass(frozen=True, slots=True)
class Receiver:
    """What takes the operations: how much a second, how fast it answers, and whether it throttles."""

    #: A number, or one for each of several capacities by its name.
    limit: Any
    #: How long an answer takes.
    latency: timedelta = timedelta(milliseconds=20)
    #: Whether it refuses what is too much within a second, or only suffers.
    throttles: bool = True
    #: How long it asks to be left alone when it refuses; None for saying nothing.
    retry_after: timedelta | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", amount_of("limit", self.limit, InvalidRules))
        if not all(part_of(self.limit, name) > 0 for name in names_of(self.limit) or (None,)):
            raise InvalidRules(f"limit must be above 0, got {self.limit!r}")
        check_span("latency", self.latency, 0)
        _check_bool("throttles", self.throttles)
        if self.retry_after is not None:
            check_span("retry_after", self.retry_after, 1)


@dataclass(frozen=True, slots=True)
class CapacityPlan:
    """What each instance may send a second: a share of what all have, so much of its own, or, without either, all."""

    shared: ShareRules | None = None
    provisioned: Any = None
    ramp: Ramp | None = None
    adaptive: Adaptive | None = None

    def __post_init__(self) -> None:
        if self.shared is not None and self.provisioned is not None:
            raise InvalidRules("capacity is either shared or provisioned for each instance, got both")
        if self.provisioned is not None:
            object.__setattr__(self, "provisioned", amount_of("provisioned", self.provisioned, InvalidRules))
        if self.limit is None and (self.ramp or self.adaptive):
            raise InvalidRules("ramp and adaptive change a capacity: give shared or provisioned, too")

    @property
    def limit(self) -> Any:
        """The most that one instance can have; None for anything."""
        if self.shared is None:
            return self.provisioned
        return self.shared.shared + self.shared.reserved


@dataclass(frozen=True, slots=True)
class Life:
    """When an instance starts, and when it is stopped or killed, if it is."""

    start: timedelta = NONE
    stop: timedelta | None = None
    kill: timedelta | None = None

    def __post_init__(self) -> None:
        check_span("start", self.start, 0)
        if self.stop is not None and self.kill is not None:
            raise InvalidRules("an instance is either stopped or killed, got both")
        for name, end in (("stop", self.stop), ("kill", self.kill)):
            if end is not None:
                check_span(name, end, 0)
                if end <= self.start:
                    raise InvalidRules(f"{name} must be after start, got {end} and {self.start}")


@dataclass(frozen=True, slots=True)
class Job:
    """Work that comes to some instances, to each of them as much: records at once, or so many a second for a while."""

    name: str
    #: The numbers of the instances, from 1; None for all.
    on: tuple[int, ...] | None = None
    at: timedelta = NONE
    #: What a record costs.
    cost: Any = 1
    records: int | None = None
    per_second: float | None = None
    lasts: timedelta | None = None
    #: Evenly, all of a period at its beginning, or rising from nothing to twice the rate and falling again.
    pattern: Pattern = "steady"
    #: The period of bursts and waves; by itself 10 seconds, and the whole time.
    every: timedelta | None = None
    batchable: bool = True
    priority: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "cost", amount_of("cost", self.cost, InvalidRules))
        check_span("at", self.at, 0)
        _check_bool("batchable", self.batchable)
        if isinstance(self.priority, bool) or not isinstance(self.priority, int):
            raise InvalidRules(f"priority must be a whole number, got {shown(self.priority)}")
        if (self.records is None) == (self.per_second is None):
            raise InvalidRules("a job has either records, or per_second and for")
        if self.records is None:
            self._check_rate()
        else:
            check_count("records", self.records)
            if self.lasts is not None or self.every is not None or self.pattern != "steady":
                raise InvalidRules("for, pattern and every belong to per_second: records come all at once")

    def _check_rate(self) -> None:
        rate: object = self.per_second
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate <= 1e9:
            raise InvalidRules(f"per_second must be a number above 0, got {shown(rate)}")
        if self.lasts is None:
            raise InvalidRules("per_second needs for, such as for = '5m'")
        check_span("for", self.lasts, 1_000)
        check_choice("pattern", self.pattern, get_args(Pattern), InvalidRules)
        if self.every is not None:
            check_span("every", self.every, 1_000)

    @property
    def total(self) -> int:
        """How many records come to each instance."""
        if self.records is not None:
            return self.records
        return math.floor(_come_by(self, _seconds(self.lasts)) + 1e-6)


@dataclass(frozen=True)
class Scenario:
    """Everything that is simulated."""

    receiver: Receiver
    capacity: CapacityPlan
    jobs: tuple[Job, ...]
    instances: int = 1
    #: Of those instances that do not live from the beginning to the end.
    lives: Mapping[int, Life] = field(default_factory=dict)
    dispatcher: DispatchRules = field(default_factory=DispatchRules)
    #: How many operations a batch has at most; None for any number.
    max_batch_size: int | None = None
    #: When it ends, done or not.
    longest: timedelta = timedelta(minutes=10)
    #: The same seed gives the same simulation.
    seed: int = 1

    def __post_init__(self) -> None:
        check_span("longest", self.longest, 1_000_000)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise InvalidRules(f"seed must be a whole number, got {shown(self.seed)}")
        check_count("max_batch_size", self.max_batch_size)
        _check_instances(self.instances)
        for number in self.lives:
            self._check_instance("instances", number)
        self._check_names("capacity", self.capacity.limit)
        if not self.jobs:
            raise InvalidRules("there is no job: nothing would happen")
        for job in self.jobs:
            self._check_job(job)

    def _check_instance(self, where: str, number: object) -> None:
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= self.instances:
            raise InvalidRules(f"{where} must be numbers from 1 to {self.instances}, got {shown(number)}")

    def _check_job(self, job: Job) -> None:
        for number in job.on or ():
            self._check_instance(f"job {job.name!r}: on", number)
        self._check_names(f"job {job.name!r}: cost", job.cost or None)
        limit: Amount | None = self.capacity.limit
        if limit is not None and exceeds(job.cost, limit):
            raise InvalidRules(f"job {job.name!r}: cost {job.cost!r} is more than an instance can ever have, {limit!r}")

    def _check_names(self, what: str, amount: Amount | None) -> None:
        if amount is not None and not set(_names(amount)) <= set(_names(self.receiver.limit)):
            raise InvalidRules(f"{what} must name the capacities of the receiver's limit, got {amount!r}")
        if what == "capacity" and amount is not None and not same_names(amount, self.receiver.limit):
            raise InvalidRules(f"capacity must name all that the receiver's limit does, got {amount!r}")

    def life(self, number: int) -> Life:
        """When an instance lives."""
        return self.lives.get(number, Life())


def arrivals(job: Job) -> Iterator[tuple[float, int]]:
    """When how many records of a job come, in seconds from the beginning."""
    at_s = job.at.total_seconds()
    if job.records is not None:
        yield at_s, job.records
        return
    lasts_s, come, tick = _seconds(job.lasts), 0, 0
    while tick * TICK_S < lasts_s:
        end_s = min((tick + 1) * TICK_S, lasts_s)
        by_then = math.floor(_come_by(job, end_s) + 1e-6)
        if by_then > come:
            yield at_s + tick * TICK_S, by_then - come
        come, tick = by_then, tick + 1


def _come_by(job: Job, passed_s: float) -> float:
    """How many records have come after so long."""
    rate = job.per_second or 0
    if job.pattern == "steady":
        return rate * passed_s
    if job.pattern == "wave":
        every_s = _seconds(job.every or job.lasts)
        return rate * (passed_s - math.sin(math.tau * passed_s / every_s) * every_s / math.tau)
    every_s = _seconds(job.every or BURST)
    bursts = math.ceil(passed_s / every_s - 1e-9)
    return rate * min(bursts * every_s, _seconds(job.lasts))


def _seconds(span: timedelta | None) -> float:
    return 0.0 if span is None else span.total_seconds()


def _names(amount: Amount) -> tuple[str | None, ...]:
    return names_of(amount) or (None,)


def _check_instances(count: object) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_INSTANCES:
        raise InvalidRules(f"count must be a whole number from 1 to {MOST_INSTANCES}, got {shown(count)}")


def _check_bool(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise InvalidRules(f"{name} must be true or false, got {shown(value)}")
