"""A program that follows a stream, to be killed: `python -m tests.spark.stream_program DIRECTORY FORM RULES`.

What it hands out is in DIRECTORY/out; it tells of itself by files in DIRECTORY/signs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from batchline.spark import assign_batches, follow, session
from tests.core.streams import us
from tests.spark.streams import RULES, landing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from batchline import BatchRules

SKEW_US = 150
LANES = 2


def by_follow(spark: SparkSession, directory: Path, rules: BatchRules) -> None:
    """To the end, with what is open handed out last."""

    def each(rows: DataFrame, epoch: int) -> None:
        (directory / "signs" / f"inside-{epoch}").touch()
        # The same epoch again replaces what it wrote before.
        rows.write.mode("overwrite").parquet(str(directory / "out" / f"{epoch}"))
        (directory / "signs" / f"after-{epoch}").touch()

    following = follow(
        landing(spark, directory / "in"),
        rules,
        each,
        checkpoint=str(directory / "checkpoint"),
        size="size",
        order=["number"],
        lanes=LANES,
        skew=us(SKEW_US),
        trigger={"availableNow": True},
    )
    following.finish()


def by_frame(spark: SparkSession, directory: Path, rules: BatchRules) -> None:
    """As far as the rows close, by Spark's own file sink."""
    batched = assign_batches(
        landing(spark, directory / "in"),
        rules,
        size="size",
        order=["number"],
        skew=us(SKEW_US),
        lanes=LANES,
        state=str(directory / "state"),
    )
    query = batched.writeStream.format("parquet").trigger(availableNow=True)
    query = query.option("checkpointLocation", str(directory / "checkpoint"))
    query.option("path", str(directory / "out")).start().awaitTermination()


def main() -> None:
    """Run to the end, if nobody kills us."""
    directory, form, rules = Path(sys.argv[1]), sys.argv[2], RULES[int(sys.argv[3])]
    conf: dict[str, str | int] = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": 2}
    spark = session("killed", master=sys.argv[4] if len(sys.argv) > 4 else "local[2]", conf=conf)
    {"follow": by_follow, "frame": by_frame}[form](spark, directory, rules)
    (directory / "signs" / "ended").touch()
    spark.stop()


if __name__ == "__main__":
    main()
