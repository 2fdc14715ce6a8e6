"""One case of a Spark benchmark, in a process and a JVM of its own, so that all its CPU time is known to be its own.

table of cases ──starts──▶ python -m tests.benchmarks.spark_case MODULE CASE DIRECTORY ──prints──▶ Cost as JSON
"""

import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from rich.markup import escape
from rich.table import Table

from tests.benchmarks.measure import KEPT_IN, console
from tests.benchmarks.process_tree import cpu_seconds
from tests.benchmarks.spark_data import keys_for, write_messages
from tests.servers.server import REPOSITORY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ANY", "ROUNDS", "Case", "Cost", "Costs", "best_of", "run_all", "run_case"]

ROUNDS = 2
#: As many keys as there are.
ANY = sys.maxsize


@dataclass(frozen=True)
class Cost:
    """What some rows cost: CPU seconds of the driver, its JVM and all Python workers, and seconds on the wall."""

    rows: int
    cpu_s: float
    wall_s: float

    @property
    def cpu_us_a_row(self) -> float:
        """Microseconds of CPU for each row."""
        return self.cpu_s / self.rows * 1e6

    @property
    def rows_a_second(self) -> float:
        """Rows for each second on the wall."""
        return self.rows / self.wall_s


class Case(Protocol):
    """One way to do the work."""

    @property
    def most_keys(self) -> int:
        """How many keys it is given at most, where all would take minutes; with as many rows each as in other cases."""

    def cost(self, spark: "SparkSession", files: Sequence[Path]) -> Cost:
        """Do the work on these files, and measure it."""


def best_of(work: Callable[[], int], rounds: int = ROUNDS) -> Cost:
    """The round with the least CPU time; the work returns its rows."""
    return min((_one(work) for _ in range(rounds)), key=lambda cost: cost.cpu_s)


def _one(work: Callable[[], int]) -> Cost:
    cpu, wall = cpu_seconds(os.getpid()), time.perf_counter()  # noqa: TID251 - a benchmark is what reads the clock
    rows = work()
    took = time.perf_counter() - wall  # noqa: TID251 - as above
    return Cost(rows, cpu_seconds(os.getpid()) - cpu, took)


def run_case(module: str, name: str, directory: Path) -> Cost | str:
    """Measure a case in a process of its own; what went wrong, if something did."""
    command = [sys.executable, "-m", "tests.benchmarks.spark_case", module, name, str(directory)]
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    if ended.returncode:
        return (ended.stderr.strip().splitlines() or ["no word of why"])[-1]
    return Cost(**json.loads(ended.stdout.splitlines()[-1]))


def main(module: str, name: str, directory: Path) -> Cost:
    """Measure a case in this process."""
    from batchline.spark.session import session

    case: Case = importlib.import_module(module).CASES[name]
    # Python workers find the functions of this package.
    spark = session("benchmark", "local[*]", {"spark.executorEnv.PYTHONPATH": str(REPOSITORY)})
    return case.cost(spark, sorted(directory.glob("*.parquet")))


def run_all(module: str, rows: int, keys: Sequence[int], payload_bytes: int, costs: "Costs") -> None:
    """Measure all cases of a module, for each number of keys."""
    cases: Mapping[str, Case] = importlib.import_module(module).CASES
    carried = f", {payload_bytes} bytes" if payload_bytes else ""
    for count in dict.fromkeys(keys_for(rows, wanted) for wanted in keys):
        with tempfile.TemporaryDirectory(prefix="batchline-bench-") as home:
            for name, case in cases.items():
                given = min(count, case.most_keys)
                data = Path(home) / f"{given}"
                write_messages(data, rows * given // count, given, payload_bytes)
                costs.add(f"{count:,} keys{carried}", name, run_case(module, name, data))


@dataclass
class Costs:
    """A table of costs; each ratio is to the baseline of the same workload, in CPU or in time on the wall."""

    title: str
    baseline: str
    by: Literal["cpu", "wall"]
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, workload: str, name: str, cost: Cost | str) -> None:
        """Note a cost, or what went wrong instead."""
        said: Mapping[str, Any] = {"failed": cost} if isinstance(cost, str) else self._figures(cost)
        self.rows.append({"workload": workload, "name": name, **said})
        words = cost if isinstance(cost, str) else f"{cost.cpu_us_a_row:.2f} µs a row, {cost.wall_s:.1f} s"
        console.print(f"  [dim]{workload} · {escape(name)}: {escape(words)}[/]")

    def _figures(self, cost: Cost) -> dict[str, Any]:
        return asdict(cost) | {"cpu_us_a_row": cost.cpu_us_a_row, "rows_a_second": cost.rows_a_second}

    def show(self) -> None:
        """Print the table, and keep it as JSON."""
        table = Table(title=f"{self.title}; ratio in {self.by} time a row", title_justify="left")
        for name, side in {"workload": "left", "what": "left"}.items():
            table.add_column(name, justify=side)  # type: ignore[arg-type] # one of rich's words
        for name in ("M rows", "CPU µs/row", "M rows/s", "ratio"):
            table.add_column(name, justify="right")
        before = None
        for row in self.rows:
            if before not in (None, row["workload"]):
                table.add_section()
            table.add_row(row["workload"] if row["workload"] != before else "", row["name"], *self._shown(row))
            before = row["workload"]
        console.print(table)
        self._keep()

    def _shown(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        if "failed" in row:
            return ("", "", "", "failed")
        ratio = self._ratio(row)
        figures = (f"{row['rows'] / 1e6:.1f}", f"{row['cpu_us_a_row']:.2f}", f"{row['rows_a_second'] / 1e6:.3f}")
        return (*figures, f"{ratio:.2f}×" if ratio else "–")

    def _ratio(self, row: Mapping[str, Any]) -> float | None:
        """How many times the baseline's cost for a row this is; None where the baseline failed."""
        same = (other for other in self.rows if other["workload"] == row["workload"] and "failed" not in other)
        base = next((other for other in same if other["name"] == self.baseline), None)
        if base is None:
            return None
        by_cpu = row["cpu_us_a_row"] / base["cpu_us_a_row"]
        return float(by_cpu if self.by == "cpu" else base["rows_a_second"] / row["rows_a_second"])

    def _keep(self) -> None:
        KEPT_IN.mkdir(parents=True, exist_ok=True)
        about = {"title": self.title, "machine": platform.machine(), "python": platform.python_version()}
        rows = [row | {"ratio": None if "failed" in row else self._ratio(row)} for row in self.rows]
        name = self.title.split(":")[0].lower().replace(" ", "-")
        (KEPT_IN / f"{name}.json").write_text(json.dumps(about | {"ratio_by": self.by, "rows": rows}, indent=2))


if __name__ == "__main__":
    measured = main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
    print(json.dumps(asdict(measured)))
