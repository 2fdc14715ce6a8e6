"""What goes wrong in a run, and when: decided by a seed alone."""

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["KILLS", "KINDS", "SINK", "WORKERS", "Fault", "Kind", "kind_of", "plan_of"]

WORKERS: Final = ("worker-1", "worker-2", "worker-3")
#: Faults that end a process with SIGKILL.
KILLS: Final = ("kill", "skew")
#: What a stranger locks before it is frozen; "gone" is one that is lost with its machine, so that no FIN comes.
LOCKS: Final = ("lanes", "spots", "fanouts", "gone")
#: How a cut ends: the connections of before go on, or are dead for ever and only new ones work.
CUTS: Final = ("resume", "forget")
#: What the receiver is told to do wrong.
SINK: Final = ("429", "500", "hang", "cut", "cut after", "half", "207", "refuse")


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong, and is mended after a while."""

    at_s: float
    do: str
    target: str
    for_s: float
    #: How: which processes of the driver are killed, how far a clock is off, in seconds, what the sink does, what a
    #: stranger locks, how a cut ends, what a stray claims to be.
    how: str = ""

    @property
    def name(self) -> str:
        """As a table has it."""
        target = "worker" if self.target in WORKERS else self.target
        is_told = self.how and (self.target in ("sink", "driver") or self.do in ("freeze", "cut", "stray"))
        return f"{self.do} {target}" + (f" {self.how}" if is_told else "")

    def __str__(self) -> str:
        return f"{self.at_s:6.2f} s  {self.do} {self.target} {self.how}".rstrip() + f", for {self.for_s:.2f} s"


@dataclass(frozen=True, slots=True)
class Kind:
    """A way to go wrong: for how long, and how long its target then needs until it may be hit again."""

    do: str
    targets: tuple[str, ...]
    shortest_s: float
    longest_s: float
    rest_s: float
    how: tuple[str, ...] = ("",)
    weight: int = 2
    #: How long a lane may stand for it, and since when that counts.
    limit_s: float = 10
    since: Literal["injury", "mend"] = "mend"
    #: What comes on top, and is longer on a busy machine: measurements come in micro-batches; Spark needs its time.
    work_s: float = 5


KINDS: Final = (
    # Spark is started again: twenty seconds on two cores, and it repeats the micro-batch that was under way.
    Kind("kill", ("driver",), 0.0, 2.0, 25, ("all", "python", "java"), weight=6, work_s=30),
    Kind("kill", WORKERS, 0.0, 3.0, 3, weight=6),
    Kind("kill", ("ingest",), 0.0, 2.0, 3, weight=3),
    Kind("kill", ("mosquitto",), 0.0, 1.5, 4),
    Kind("kill", ("postgresql",), 0.0, 2.0, 6, weight=3),
    Kind("kill", ("redis",), 0.0, 2.0, 3),
    Kind("kill", ("receiver",), 0.0, 2.0, 2),
    Kind("restart", ("driver",), 0.0, 0.5, 25, weight=1, work_s=30),
    Kind("restart", WORKERS, 0.0, 1.0, 4, weight=1),
    Kind("restart", ("ingest",), 0.0, 1.0, 3, weight=1),
    Kind("restart", ("postgresql",), 0.0, 1.5, 6),
    Kind("restart", ("mosquitto",), 0.0, 1.5, 4),
    Kind("restart", ("redis",), 0.0, 1.5, 3),
    Kind("pause", WORKERS, 3.5, 6.0, 2, weight=3),
    Kind("pause", ("driver", "ingest"), 1.0, 4.0, 3, weight=1),
    # Within a transaction that others wait for: it is the server that has to end it.
    Kind("freeze", ("stranger",), 25.0, 35.0, 2, LOCKS, weight=4, limit_s=15, since="injury"),
    Kind("freeze", WORKERS, 25.0, 35.0, 3, ("settling",), weight=2, limit_s=15, since="injury"),
    Kind("cut", (*WORKERS, "driver", "service"), 2.0, 8.0, 6, CUTS, weight=3),
    Kind("cut", ("postgresql",), 2.0, 8.0, 6, CUTS, weight=3),
    Kind("cut", ("redis", "mosquitto", "receiver"), 2.0, 8.0, 6, CUTS, weight=2),
    # The driver may end for want of room, of its checkpoint or of the store, and is started again.
    Kind("fill", ("results",), 1.0, 4.0, 25, work_s=30),
    Kind("fill", ("landing",), 1.0, 4.0, 3),
    Kind("fill", ("postgresql",), 1.0, 4.0, 25, weight=3, work_s=30),
    Kind("skew", WORKERS, 4.0, 8.0, 3, ("-3600", "-30", "-2", "2", "30", "3600"), weight=3),
    Kind("skew", ("service",), 8.0, 12.0, 3, ("-3600", "3600"), weight=3),
    # A copy of a parcel, what the next may look like, and one under the id of a parcel to come.
    Kind("stray", ("parcels",), 0.0, 0.0, 2, ("copy", "next", "taken"), weight=5),
    Kind("sink", ("sink",), 1.0, 4.0, 1, SINK, weight=6),
)


def kind_of(fault: Fault) -> Kind:
    """What kind of fault it is."""
    return next(kind for kind in KINDS if kind.do == fault.do and fault.target in kind.targets)


def plan_of(seed: int, seconds: float, count: int, only: Collection[str] = ()) -> list[Fault]:
    """Plan `count` faults within `seconds`, in their order; nothing is hit before it is up again.

    `only` names what may be done, such as "freeze" and "cut"; without it, everything.
    """
    kinds = [kind for kind in KINDS if not only or kind.do in only]
    return list(_faults(random.Random(seed), seconds, count, kinds))


def _faults(chance: random.Random, seconds: float, count: int, kinds: Sequence[Kind]) -> Iterator[Fault]:
    free_at: dict[str, float] = {}
    for at_s in sorted(round(chance.uniform(0, seconds), 2) for _ in range(count)):
        kind, target = _choose(chance, kinds, [target for target, until in free_at.items() if until > at_s])
        for_s = round(chance.uniform(kind.shortest_s, kind.longest_s), 2)
        free_at[target] = at_s + for_s + kind.rest_s
        yield Fault(at_s, kind.do, target, for_s, chance.choice(kind.how))


def _choose(chance: random.Random, kinds: Sequence[Kind], busy: Sequence[str]) -> tuple[Kind, str]:
    free = [(kind, [target for target in kind.targets if target not in busy]) for kind in kinds]
    able = [(kind, targets) for kind, targets in free if targets] or [(kind, list(kind.targets)) for kind in kinds]
    kind, targets = chance.choices(able, [kind.weight for kind, _ in able])[0]
    return kind, chance.choice(targets)
