"""A backfill: many measurements through Spark into parcels on a store, and four workers that share a capacity.

    python -m examples.backfill --measurements 100000000 --store postgresql://user@host/name
    python -m examples.backfill --measurements 200000          # on SQLite, in a minute

It makes the measurements (the same for the same number), starts the workers, runs the pipeline, and tells how long each
part took and what each worker has delivered. Killed, and started again with the same arguments, it goes on.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchline.core.consignment import Consignment
from batchline.core.pipeline_tables import pipeline_of
from batchline.flow import run_once
from batchline.runtime.clock import elapsed_seconds
from batchline.sinks.files import write_text
from batchline.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS, TYPES = 10_000, 10
ROWS_A_FILE = 1_000_000
PIPELINE = """
name = "backfill"
out = "{out}/out"

[source]
address = "{out}/in"
order = ["sequence"]

[pack]
max_items = 500

[publish]
store = "{store}"

[capacity]
per_second = {capacity}
cost = "measurement"
shared = "{store}"
resource = "backfill"

[sink]
address = "python:examples.backfill:Discard"
"""


class Discard:
    """A receiver that takes everything at once: what is measured is the way there."""

    most = 16

    def send(self, parcels: Sequence[Consignment]) -> None:
        """Take parcels."""


def main() -> None:
    """Run it."""
    asked = arguments()
    out, times = asked.out.absolute(), dict[str, float]()
    store = asked.store or f"sqlite:///{out}/backfill.db"
    text = PIPELINE.format(out=out, store=store, capacity=asked.capacity)
    path = write_text(text, out / "pipeline.toml")
    pipeline = pipeline_of({**_tables(text)})
    spark = session("backfill", master=asked.master)
    with timed(times, "making the measurements"):
        make(spark, asked.measurements, out / "in")
    with ExitStack() as stack:
        workers = [stack.enter_context(worker(path, number)) for number in range(1, asked.workers + 1)]
        steps: dict[str, float] = {}
        began = elapsed_seconds()
        summary = run_once(
            pipeline, spark, work=False, watch=lambda step, *_: steps.__setitem__(step, elapsed_seconds() - began)
        )
        times["from files to all arrived"] = elapsed_seconds() - began
    told = [json.loads(one.stdout.read()) for one in workers if one.stdout is not None]
    spark.stop()
    report(asked, summary.as_data(), times, steps, told)
    if not summary.complete or sum(one["measurements"].get("delivered", 0) for one in told) < summary.published:
        sys.exit("not everything has arrived by these workers")


def arguments() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measurements", type=int, default=1_000_000)
    parser.add_argument("--store", help="the address of the store; SQLite in --out without it")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument(
        "--capacity", type=int, default=1_000_000, help="measurements a second, of all workers together"
    )
    parser.add_argument("--master", default="local[*]")
    parser.add_argument("--out", type=Path, default=Path("build/backfill"))
    return parser.parse_args()


def _tables(text: str) -> dict[str, Any]:
    import tomllib

    return tomllib.loads(text)


@contextmanager
def timed(times: dict[str, float], step: str) -> Iterator[None]:
    """Note how long something takes."""
    began = elapsed_seconds()
    yield
    times[step] = elapsed_seconds() - began


def make(spark: "SparkSession", count: int, directory: Path) -> None:
    """Make measurements, unless they are there: a second apart for each key and type, received a moment later."""
    from pyspark.sql import functions as sf

    if (directory / "_SUCCESS").exists():
        return
    number = sf.col("id")
    second = sf.lit(1_790_000_000_000_000) + (number / (KEYS * TYPES)).cast("long") * 1_000_000
    moment = second + sf.pmod(sf.hash("id"), sf.lit(400_000))
    delay = sf.pmod(sf.hash(number + 1), sf.lit(100_000))
    rows = spark.range(0, count, 1, max(1, count // ROWS_A_FILE)).select(
        sf.concat(sf.lit("device-"), sf.format_string("%05d", (number / TYPES).cast("long") % KEYS)).alias("key"),
        sf.concat(sf.lit("type-"), (number % TYPES).cast("string")).alias("type"),
        sf.timestamp_micros(moment).alias("event_time"),
        sf.timestamp_micros(moment + delay).alias("receive_time"),
        (sf.pmod(sf.hash(number + 2), sf.lit(10_000)) / 100).alias("value"),
        number.alias("sequence"),
    )
    rows.write.mode("overwrite").parquet(str(directory))


@contextmanager
def worker(path: Path, number: int) -> Iterator[subprocess.Popen[str]]:
    """A worker in a process of its own, told to end when all has arrived."""
    command = [sys.executable, "-m", "batchline", "work", str(path), "--name", f"worker-{number}", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def report(
    asked: argparse.Namespace,
    summary: dict[str, Any],
    times: dict[str, float],
    steps: dict[str, float],
    told: list[dict[str, Any]],
) -> None:
    """What became of it, and how long it took."""
    lines = [f"{summary['read']:,} read, {summary['batched']:,} batched in {summary['batches']:,} batches"]
    lines.append(f"{summary['published']:,} in {summary['parcels']:,} parcels, {summary['acked']:,} acked")
    lines += [f"{step}: {seconds:.1f} s" for step, seconds in times.items()]
    before = 0.0
    for step, until in sorted(steps.items(), key=lambda pair: pair[1]):
        lines.append(f"  {step} until {until:.1f} s ({until - before:.1f} s)")
        before = until
    whole = times["from files to all arrived"]
    lines.append(f"{summary['published'] / whole:,.0f} measurements a second from files to arrival")
    lines += [
        f"worker-{number}: {one['measurements'].get('delivered', 0):,} measurements in "
        f"{one['parcels'].get('delivered', 0):,} parcels"
        for number, one in enumerate(told, 1)
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    write_text(
        json.dumps({"summary": summary, "times": times, "steps": steps, "workers": told}, indent=2),
        asked.out / "report.json",
    )


if __name__ == "__main__":
    main()
