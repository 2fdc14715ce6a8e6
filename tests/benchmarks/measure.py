"""How a benchmark measures, shows and keeps its figures: always beside a baseline of the same run."""

import gc
import json
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["Figures", "seconds"]

KEPT_IN = Path("build/bench")
console = Console(width=118)


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


@dataclass
class Figures:
    """A table of rates, each with its ratio to the first of its group."""

    title: str
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, group: str, name: str, count: int, took_seconds: float) -> None:
        """Note a rate; the first of a group is what the others are compared with."""
        rate = count / took_seconds
        first = next((row["per_second"] for row in self.rows if row["group"] == group), rate)
        self.rows.append({"group": group, "name": name, "per_second": rate, "ratio": rate / first})
        console.print(f"  [dim]{group} · {name}: {rate:,.0f} a second[/]")

    def show(self) -> None:
        """Print the table, and keep it as JSON."""
        groups = list(dict.fromkeys(row["group"] for row in self.rows))
        table = Table(title=self.title, title_justify="left")
        table.add_column("workload")
        table.add_column("what")
        table.add_column("messages/s", justify="right")
        table.add_column("ratio", justify="right")
        before = None
        for row in sorted(self.rows, key=lambda row: groups.index(row["group"])):
            if before not in (None, row["group"]):
                table.add_section()
            shown = row["group"] if row["group"] != before else ""
            table.add_row(shown, row["name"], f"{row['per_second']:,.0f}", f"{row['ratio']:.2f}×")
            before = row["group"]
        console.print(table)
        self._keep()

    def _keep(self) -> None:
        KEPT_IN.mkdir(parents=True, exist_ok=True)
        name = self.title.split(":")[0].lower().replace(" ", "-")
        about = {"title": self.title, "machine": platform.machine(), "python": platform.python_version()}
        (KEPT_IN / f"{name}.json").write_text(json.dumps(about | {"rows": self.rows}, indent=2))
