"""How a benchmark measures, shows and keeps its figures: always beside a baseline of the same run."""

import gc
import json
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.table import Table

__all__ = ["Figures", "Sheet", "console", "once", "seconds", "within"]

KEPT_IN = Path("build/bench")
console = Console(width=118)
Call = TypeVar("Call")


def seconds(work: Callable[[], Any], repeats: int = 5) -> float:
    """The median time of the work, after one call that warms it up."""
    work()
    times = []
    for _ in range(repeats):
        gc.collect()
        begin = time.perf_counter()  # noqa: TID251 - a benchmark is what reads the clock
        work()
        times.append(time.perf_counter() - begin)  # noqa: TID251 - as above
    return median(times)


def once(work: Callable[[], Any]) -> float:
    """The time of work that can be done only once."""
    gc.collect()
    begin = time.perf_counter()  # noqa: TID251 - a benchmark is what reads the clock
    work()
    return time.perf_counter() - begin  # noqa: TID251 - as above


def within(limit_s: float, act: Callable[[Call], int], *shares: Iterable[Call]) -> tuple[int, float]:
    """Make each share's calls in a thread of its own, until all are made or the time is up.

    Returns the sum of what the calls returned, and the seconds from the first call's begin to the last one's end.
    """
    gc.collect()
    begin = time.perf_counter()  # noqa: TID251 - a benchmark is what reads the clock

    def work(share: Iterable[Call]) -> int:
        done = 0
        for call in share:
            done += act(call)
            if time.perf_counter() - begin > limit_s:  # noqa: TID251 - as above
                break
        return done

    with ThreadPoolExecutor(len(shares)) as threads:
        done = sum(threads.map(work, shares))
    return done, time.perf_counter() - begin  # noqa: TID251 - as above


@dataclass
class Figures:
    """A table of figures, by default rates, each with its ratio to the first of its group."""

    title: str
    unit: str = "messages/s"
    decimals: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, group: str, name: str, count: int, took_seconds: float) -> None:
        """Note a rate; the first of a group is what the others are compared with."""
        self.add_value(group, name, count / took_seconds)

    def add_value(self, group: str, name: str, value: float) -> None:
        """Note a figure in the table's unit; ratios are as for rates."""
        first = next((row["value"] for row in self.rows if row["group"] == group and "value" in row), value)
        self.rows.append({"group": group, "name": name, "value": value, "ratio": value / first})
        console.print(f"  [dim]{group} · {escape(name)}: {value:,.{self.decimals}f} {self.unit}[/]")

    def value(self, group: str, name: str) -> float:
        """A figure noted before."""
        return next(float(row["value"]) for row in self.rows if (row["group"], row["name"]) == (group, name))

    def leave_out(self, group: str, name: str, why: str) -> None:
        """Note that there is no figure, and why."""
        self.rows.append({"group": group, "name": name, "left_out": why})

    def show(self) -> None:
        """Print the table, and keep it as JSON."""
        groups = list(dict.fromkeys(row["group"] for row in self.rows))
        table = Table(title=self.title, title_justify="left")
        table.add_column("workload")
        table.add_column("what")
        table.add_column(self.unit, justify="right")
        table.add_column("ratio", justify="right")
        before = None
        for row in sorted(self.rows, key=lambda row: groups.index(row["group"])):
            if before not in (None, row["group"]):
                table.add_section()
            shown = row["group"] if row["group"] != before else ""
            table.add_row(shown, row["name"], *self._shown(row))
            before = row["group"]
        console.print(table)
        keep(self.title, {"unit": self.unit, "rows": self.rows})

    def _shown(self, row: Mapping[str, Any]) -> tuple[str, str]:
        if "left_out" in row:
            return row["left_out"], "–"
        return f"{row['value']:,.{self.decimals}f}", f"{row['ratio']:.2f}×"


@dataclass
class Sheet:
    """A table of several figures a row, as they are shown."""

    title: str
    columns: Sequence[str]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        """Note a row, which has a cell for each column."""
        self.rows.append(cells)

    def show(self) -> None:
        """Print the table, and keep it as JSON."""
        table = Table(title=self.title, title_justify="left")
        for place, column in enumerate(self.columns):
            table.add_column(column, justify="right" if place else "left")
        for cells in self.rows:
            table.add_row(*map(escape, cells))
        console.print(table)
        keep(self.title, {"columns": list(self.columns), "rows": self.rows})


def keep(title: str, what: Mapping[str, Any]) -> None:
    """Keep a table as JSON, by what its title begins with."""
    KEPT_IN.mkdir(parents=True, exist_ok=True)
    name = title.split(":")[0].lower().replace(" ", "-")
    about = {"title": title, "machine": platform.machine(), "python": platform.python_version()}
    (KEPT_IN / f"{name}.json").write_text(json.dumps(about | dict(what), indent=2))
