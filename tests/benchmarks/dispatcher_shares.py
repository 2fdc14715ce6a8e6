"""The shares of four processes in one capacity, over a minute: one comes later, one is killed.

All of them always have something to do. Their leases are in PostgreSQL. Beside each share is what is fair: an equal
part of the capacity for each that is there.
"""

import math
import multiprocessing
import os
import signal
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import Any

from batchline.pictures.series import Chart, Curve
from batchline.pictures.series_svg import chart_svg
from batchline.runtime.clock import elapsed_seconds
from tests.benchmarks.dispatcher_handouts import Handouts, by_span, largest_second
from tests.benchmarks.dispatcher_instance import Shared, take_part
from tests.benchmarks.measure import KEPT_IN, Sheet, console
from tests.benchmarks.tracker_disk import fresh

__all__ = ["Instance", "measure_shares"]

CAPACITY, FACTOR, COST = 20_000, 500, 10
SECONDS = 60.0
INSTANCES = 4
#: When the last one comes, and when the first one is killed, as parts of the time.
COMES, KILLED = 10 / 60, 40 / 60
SPANS = 12
#: Long enough for processes to start, short enough for one that did not.
PATIENCE_S = 60.0


@dataclass
class Instance:
    """What is known of a process: when it was there, and what it told."""

    name: str
    begin_s: float
    end_s: float
    handouts: list[tuple[float, float]] = field(default_factory=list)
    calls: int = 0
    process: Any = None
    told: Any = None

    def listen(self, zero_s: float) -> None:
        """Note all that it has told so far; moments count from zero."""
        # One that was killed is heard until its line is broken.
        with suppress(EOFError, ConnectionResetError):
            while self.told.poll():
                moment_s, cost, self.calls = self.told.recv()
                self.handouts.append((moment_s - zero_s, cost))


def measure_shares(scale: float = 1.0) -> tuple[Sheet, Sheet]:
    """The tables; the plot is kept beside them."""
    seconds = SECONDS * scale
    instances = _instances(seconds)
    with fresh("PostgreSQL") as url:
        _run(instances, Shared(url, f"bench-{uuid.uuid4()}", CAPACITY, FACTOR, COST), seconds)
    _plot(instances, seconds)
    return _shares(instances, seconds), _totals(instances)


def _instances(seconds: float) -> list[Instance]:
    instances = [Instance(f"instance {number + 1}", 0.0, seconds) for number in range(INSTANCES)]
    instances[-1].begin_s = seconds * COMES
    instances[0].end_s = seconds * KILLED
    return instances


# --- the run ---


def _run(instances: Sequence[Instance], shared: Shared, seconds: float) -> None:
    context = multiprocessing.get_context("spawn")
    try:
        for instance in instances:
            instance.told, theirs = context.Pipe()
            instance.process = context.Process(target=take_part, args=(shared, theirs), daemon=True)
            instance.process.start()
            theirs.close()
        _follow(instances, _begin(instances, seconds), seconds)
        for instance in instances:
            instance.process.join(PATIENCE_S)
    finally:
        for instance in instances:
            if instance.process is not None:
                instance.process.kill()


def _begin(instances: Sequence[Instance], seconds: float) -> float:
    """Wait until all are ready, and tell them when to begin; returns that moment."""
    for instance in instances:
        assert instance.told.poll(PATIENCE_S), f"{instance.name} did not start"
        instance.told.recv()
    zero_s = elapsed_seconds() + 0.5
    for instance in instances:
        # The one that is killed does not know of it.
        instance.told.send((zero_s + instance.begin_s, zero_s + seconds))
    return zero_s


def _follow(instances: Sequence[Instance], zero_s: float, seconds: float) -> None:
    """Listen until the time is up, and kill the one that is to be killed."""
    pipes = [instance.told for instance in instances]
    victim = min(instances, key=lambda instance: instance.end_s)
    alive = True
    while (passed_s := elapsed_seconds() - zero_s) < seconds:
        if alive and passed_s >= victim.end_s:
            os.kill(victim.process.pid, signal.SIGKILL)
            victim.process.join()
            victim.listen(zero_s)
            pipes.remove(victim.told)
            alive = False
        wait(pipes, timeout=0.05)
        for instance in instances:
            if instance.told in pipes:
                instance.listen(zero_s)


# --- what came of it ---


def _shares(instances: Sequence[Instance], seconds: float) -> Sheet:
    span_s = seconds / SPANS
    sheet = Sheet(
        f"Stage 5 shares: of {CAPACITY:,}/s, by {span_s:g} s, and of what is fair",
        ("from", *(instance.name for instance in instances), "together", "of shared"),
    )
    rates = [by_span(instance.handouts, span_s, SPANS) for instance in instances]
    for place in range(SPANS):
        begin_s = place * span_s
        here = [instance.begin_s <= begin_s < instance.end_s for instance in instances]
        fair = CAPACITY / sum(here)
        cells = [_cell(rate[place], fair, there) for rate, there in zip(rates, here, strict=True)]
        total = sum(rate[place] for rate in rates)
        sheet.add(f"{begin_s:g} s", *cells, f"{total:,.0f}", f"{total / CAPACITY:.1%}")
    return sheet


def _cell(rate: float, fair: float, here: bool) -> str:
    return f"{rate:,.0f} ({rate / fair:.2f}×)" if here or rate else "–"


def _plot(instances: Sequence[Instance], seconds: float) -> None:
    curves = [
        Curve(instance.name, by_span(instance.handouts, 1.0, math.ceil(seconds)), place)
        for place, instance in enumerate(instances)
    ]
    chart = Chart("Shares", "cost a second", curves, limit=CAPACITY, limit_name="shared")
    KEPT_IN.mkdir(parents=True, exist_ok=True)
    file = KEPT_IN / "shares.svg"
    file.write_text(chart_svg(chart))
    console.print(f"  the plot: {file}", highlight=False)


def _totals(instances: Sequence[Instance]) -> Sheet:
    columns = ("who", "lease calls/s", "largest second", "of shared")
    sheet = Sheet("Stage 5 instances: calls while each was there, and the most that was handed out", columns)
    for one in instances:
        sheet.add(one.name, f"{one.calls / (one.end_s - one.begin_s):.1f}", *_largest(one.handouts))
    together = sorted(handout for instance in instances for handout in instance.handouts)
    sheet.add("together", "", *_largest(together))
    return sheet


def _largest(handouts: Handouts) -> tuple[str, str]:
    largest = largest_second(handouts)
    return f"{largest:,.0f}", f"{largest / CAPACITY:.1%}"
