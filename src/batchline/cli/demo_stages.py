"""The path while it runs, a line for each stage: on a terminal they fill, elsewhere each is said when it has ended."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from batchline.cli import screen
from batchline.cli.demo_landing import Landed
from batchline.cli.demo_receiver import Arrival, Receiver
from batchline.runtime.clock import elapsed_seconds

__all__ = ["Stage", "Stages", "recent_rates", "stage_line"]

#: The steps that a run tells of, in order, and how many stages have ended when each begins.
STEPS: Final = {"reading": 0, "batching": 1, "writing": 1, "packing": 2, "publishing": 2, "delivering": 4}
WIDE: Final = 20
EIGHTHS: Final = " ▁▂▃▄▅▆▇█"
FULL, EMPTY = "█", "░"
A_SECOND: Final = 8


@dataclass(frozen=True, slots=True)
class Stage:
    """How a stage stands."""

    name: str
    count: int
    #: How full it is, from 0 to 1; or how it went lately, second by second.
    done: float | Sequence[float]
    #: How many a second.
    rate: float
    note: str

    def bar(self) -> str:
        """As a bar, or as a line that goes up and down."""
        if isinstance(self.done, Sequence):
            top = max([*self.done, 1.0])
            return "".join(EIGHTHS[max(round(value / top * 8), value > 0)] for value in self.done)
        full = int(min(max(self.done, 0.0), 1.0) * WIDE)
        return FULL * full + EMPTY * (WIDE - full)


class Stages:
    """What is known of all of them, from the watch of the run, its results so far, and the receiver."""

    def __init__(self, landed: Landed, receiver: Receiver, results: Path, capacity: float, lanes: int):
        self._landed, self._receiver, self._results = landed, receiver, results
        self._capacity, self._lanes = capacity, lanes
        self._began_s = elapsed_seconds()
        #: When each step began.
        self._begun_s: dict[str, float] = {}
        self._steps: dict[str, tuple[int, int]] = {}
        self._figures: dict[str, Any] = {}
        self._said = 0
        self._live = screen.out.is_terminal

    def watch(self, step: str, done: int, total: int) -> None:
        """Told by the run how far a step has come."""
        self._begun_s.setdefault(step, elapsed_seconds())
        self._steps[step] = done, total
        if not self._live:
            self._say(STEPS.get(step, 0))

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show them while something runs; what is seen last stays."""
        if not self._live:
            yield
            self._say(len(STEPS) + 1)
            return
        with Live(get_renderable=self._table, console=screen.out, refresh_per_second=A_SECOND):
            yield

    def all(self) -> list[Stage]:
        """Every stage, as it stands."""
        arrived, parcels = self._steps.get("delivering", (0, 0))
        lines, batches, receiver = self._landed.lines, self.figures.get("batches", 0), self._receiver
        taken = receiver.answers["taken"] + receiver.answers["cut"]
        read, written = self._share("reading"), (self._share("batching") + self._share("writing")) / 2
        delivering_s = self._since_first_arrival()
        rates = recent_rates(receiver.arrivals, elapsed_seconds(), WIDE)
        waiting = "parcels wait, in SQLite" if parcels else "is filled by Spark" if "publishing" in self._steps else ""
        return [
            Stage("source", lines, read, read * lines / self._took("reading"), self._files()),
            Stage("batches", batches, written, batches / self._took("batching"), self._rejections()),
            Stage("parcels", parcels, self._share("packing"), parcels / self._took("packing"), f"{self._lanes} lanes"),
            Stage("timeline", max(parcels - arrived, 0), self._share("publishing"), 0, waiting),
            Stage("dispatcher", receiver.answers.total(), rates, rates[-1], f"capacity {self._capacity:,.0f}/s"),
            Stage(
                "sink", receiver.measurements, self._arrived(), receiver.measurements / delivering_s, self._troubles()
            ),
            Stage("ack", arrived, arrived / (parcels or 1), taken / delivering_s, f"of {parcels:,}" if parcels else ""),
        ]

    @property
    def figures(self) -> dict[str, Any]:
        """The figures of the batches, once they are written."""
        if not self._figures:
            for path in self._results.glob("*/summary.json"):
                self._figures = json.loads(path.read_text())
        return self._figures

    def _share(self, step: str) -> float:
        done, total = self._steps.get(step, (0, 1))
        # A step is done when a later one has begun: its own total may still grow.
        over = any(list(STEPS).index(other) > list(STEPS).index(step) for other in self._steps)
        return 1.0 if over else min(done / max(total, 1), 0.99)

    def _took(self, step: str) -> float:
        """How long a step, and those of the same stage, have taken so far; above 0."""
        begun_s = self._begun_s.get(step)
        after = [at_s for other, at_s in self._begun_s.items() if STEPS[other] > STEPS[step]]
        return max(min(after, default=elapsed_seconds()) - begun_s, 0.1) if begun_s is not None else 1.0

    def _since_first_arrival(self) -> float:
        arrivals = self._receiver.arrivals
        return max(arrivals[-1].at_s - arrivals[0].at_s, 1.0) if arrivals else 1.0

    def _arrived(self) -> float:
        return self._receiver.measurements / (self.figures.get("batched") or 1)

    def _files(self) -> str:
        return f"lines in {len(self._landed.at_s)} files"

    def _rejections(self) -> str:
        if not self.figures:
            return ""
        return f"{self.figures['batched']:,} measurements, {sum(self.figures['rejected'].values()):,} rejected"

    def _troubles(self) -> str:
        answers = self._receiver.answers
        said = {"throttled": "× 429", "failed": "× 500", "cut": "cut", "repeated": "again"}
        return " · ".join(f"{answers[answer]:,} {text}" for answer, text in said.items() if answers[answer])

    def _table(self) -> RenderableType:
        table = Table.grid(padding=(0, 2, 0, 0))
        for _ in range(5):
            table.add_column(no_wrap=True, overflow="ellipsis")
        for stage in self.all():
            style = "cyan" if isinstance(stage.done, Sequence) else "green"
            bar, rate = Text(stage.bar(), style), Text(_rate(stage), "dim")
            table.add_row(Text(stage.name, "bold"), Text(f"{stage.count:>9,}"), bar, rate, Text(stage.note, "dim"))
        table.add_row("", Text(f"{elapsed_seconds() - self._began_s:>7.0f} s", "dim"))
        return table

    def _say(self, ended: int) -> None:
        for stage in self.all()[self._said : ended]:
            screen.say(stage_line(stage))
        self._said = max(self._said, ended)


def stage_line(stage: Stage) -> str:
    """A stage that has ended, in a plain line."""
    return f"{stage.name:<10} {stage.count:>9,}  {_rate(stage)}  {stage.note}"


def _rate(stage: Stage) -> str:
    return f"{stage.rate:>7,.0f}/s" if stage.rate else " " * 9


def recent_rates(arrivals: Sequence[Arrival], now_s: float, seconds: int) -> list[float]:
    """How many measurements came within each of the last seconds, the present one last."""
    rates = [0.0] * seconds
    for one in reversed(arrivals):
        place = int(now_s - one.at_s)
        if place >= seconds:
            break
        rates[seconds - 1 - place] += one.count
    return rates
