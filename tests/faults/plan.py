"""What goes wrong in a run, and when: decided by a seed alone."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["KILLS", "SINK", "WORKERS", "Fault", "plan_of"]

WORKERS: Final = ("worker-1", "worker-2", "worker-3")
#: Faults that end a process with SIGKILL.
KILLS: Final = ("kill", "skew")
#: What the receiver is told to do wrong.
SINK: Final = ("429", "500", "hang", "cut", "cut after", "half", "207", "refuse")


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong, and is mended after a while."""

    at_s: float
    do: str
    target: str
    for_s: float
    #: How: which processes of the driver are killed, how far a clock is off, in seconds, what the sink does.
    how: str = ""

    @property
    def name(self) -> str:
        """As a table has it."""
        target = "worker" if self.target in WORKERS else self.target
        return f"{self.do} {target}" + (f" {self.how}" if self.target in ("sink", "driver") and self.how else "")

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


KINDS: Final = (
    Kind("kill", ("driver",), 0.0, 2.0, 25, ("all", "python", "java"), weight=6),
    Kind("kill", WORKERS, 0.0, 3.0, 3, weight=6),
    Kind("kill", ("ingest",), 0.0, 2.0, 3, weight=3),
    Kind("kill", ("mosquitto",), 0.0, 1.5, 4),
    Kind("kill", ("postgresql",), 0.0, 2.0, 6, weight=3),
    Kind("kill", ("redis",), 0.0, 2.0, 3),
    Kind("kill", ("receiver",), 0.0, 2.0, 2),
    Kind("restart", ("driver",), 0.0, 0.5, 25, weight=1),
    Kind("restart", WORKERS, 0.0, 1.0, 4, weight=1),
    Kind("restart", ("ingest",), 0.0, 1.0, 3, weight=1),
    Kind("restart", ("postgresql",), 0.0, 1.5, 6),
    Kind("restart", ("mosquitto",), 0.0, 1.5, 4),
    Kind("restart", ("redis",), 0.0, 1.5, 3),
    Kind("pause", WORKERS, 3.5, 6.0, 2, weight=3),
    Kind("pause", ("driver", "ingest"), 1.0, 4.0, 3, weight=1),
    Kind("fill", ("landing",), 1.0, 4.0, 3),
    Kind("skew", WORKERS, 4.0, 8.0, 3, ("-3600", "-30", "-2", "2", "30", "3600"), weight=3),
    Kind("sink", ("sink",), 1.0, 4.0, 1, SINK, weight=6),
)


def plan_of(seed: int, seconds: float, count: int) -> list[Fault]:
    """So many faults within so many seconds, in their order; nothing is hit before it is up again."""
    return list(_faults(random.Random(seed), seconds, count))


def _faults(chance: random.Random, seconds: float, count: int) -> Iterator[Fault]:
    free_at: dict[str, float] = {}
    for at_s in sorted(round(chance.uniform(0, seconds), 2) for _ in range(count)):
        kind, target = _choose(chance, [target for target, until in free_at.items() if until > at_s])
        for_s = round(chance.uniform(kind.shortest_s, kind.longest_s), 2)
        free_at[target] = at_s + for_s + kind.rest_s
        yield Fault(at_s, kind.do, target, for_s, chance.choice(kind.how))


def _choose(chance: random.Random, busy: Sequence[str]) -> tuple[Kind, str]:
    free = [(kind, [target for target in kind.targets if target not in busy]) for kind in KINDS]
    able = [(kind, targets) for kind, targets in free if targets] or [(kind, list(kind.targets)) for kind in KINDS]
    kind, targets = chance.choices(able, [kind.weight for kind, _ in able])[0]
    return kind, chance.choice(targets)
