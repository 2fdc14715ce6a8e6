"""Rows with their lanes, and marks among them: that a lane is there, and what time it is."""

from typing import TYPE_CHECKING

from batchline.spark.frames import lane_of, quoted
from batchline.spark.lanes import LANE, MARKED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["by_lane", "every_lane", "marked"]


def marked(df: "DataFrame", key: str, time: str, lanes: int, clock: str) -> "DataFrame":
    """The rows with their lanes; with the clock on the wall also a tick for each lane every second.

    A tick has the wall's time in the column `time`. Its source is Spark's own, so a replayed epoch has the same ticks.
    """
    from pyspark.sql import functions as sf

    rows = df.withColumn(LANE, lane_of(df[quoted(key)], lanes))
    if clock == "data":
        return rows
    ticks = df.sparkSession.readStream.format("rate").option("rowsPerSecond", 1).load()
    lane = sf.explode(sf.sequence(sf.lit(0), sf.lit(lanes - 1)))
    return rows.unionByName(_marks(ticks.select(sf.col("timestamp").alias("tick"), lane.alias("lane")), df, time))


def every_lane(df: "DataFrame", lanes: int, time: str | None = None, tick_us: int | None = None) -> "DataFrame":
    """A mark for each lane, with the columns of `marked`; one with a time is a tick."""
    from pyspark.sql import functions as sf

    frame = df.sparkSession.range(0, lanes, 1, 1).withColumnRenamed("id", "lane")
    if tick_us is None:
        return _marks(frame, df, None)
    return _marks(frame.withColumn("tick", sf.timestamp_micros(sf.lit(tick_us))), df, time)


def _marks(frame: "DataFrame", df: "DataFrame", time: str | None) -> "DataFrame":
    """A mark for each row of a frame of lanes: all columns null, but for the time of a tick."""
    from pyspark.sql import functions as sf

    nulls = {field.name: sf.lit(None).cast(field.dataType) for field in df.schema}
    if time is not None:
        nulls[time] = sf.col("tick")
    columns = [column.alias(name) for name, column in nulls.items()]
    return frame.select(*columns, (sf.col("lane").cast("int") + sf.lit(MARKED)).alias(LANE))


def by_lane(df: "DataFrame", lanes: int) -> "DataFrame":
    """The rows and marks of each lane in a partition of their own."""
    from pyspark.sql import functions as sf

    return df.repartitionById(lanes, sf.col(LANE) % sf.lit(MARKED))
