"""What a pipeline follows: files that come into a directory, or records of a Kafka topic, as rows of one form."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from batchline.columnar.columns import MOMENT
from batchline.columnar.names import Names
from batchline.core.pipeline import LANDING, Pipeline
from batchline.errors import InvalidInput
from batchline.spark.following import Pace
from batchline.spark.kafka import KafkaFields, kafka_frames
from batchline.spark.landing import FILE, ROW, new_files, spark_name
from batchline.spark.running import checked_columns, names_for
from batchline.spark.stream_columns import columns_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["PipelineSource", "pipeline_source"]

#: What lands has these columns, whatever comes.
LANDED: Final = pa.schema(
    [
        ("key", pa.string()),
        ("type", pa.string()),
        ("event_time", MOMENT),
        ("receive_time", MOMENT),
        ("series", pa.string()),
        ("sequence", pa.int64()),
        ("value", pa.float64()),
        ("more", pa.string()),
    ]
)


class PipelineSource(NamedTuple):
    """Rows of a stream, and what must be known of them."""

    rows: "DataFrame"
    #: Their columns as they stand in files.
    columns: pa.Schema
    names: Names
    pace: Pace
    #: What is no measurement, where that is not kept while reading.
    malformed: "DataFrame | None" = None


def pipeline_source(spark: "SparkSession", pipeline: Pipeline, checkpoint: str) -> PipelineSource:
    """The stream of a pipeline's source."""
    if pipeline.source.kind == "kafka":
        return _records(spark, pipeline)
    return _files(spark, pipeline, checkpoint)


def _files(spark: "SparkSession", pipeline: Pipeline, checkpoint: str) -> PipelineSource:
    source, path = pipeline.source, Path(pipeline.source.directory)
    lands = source.kind in LANDING
    if lands:
        path.mkdir(parents=True, exist_ok=True)
    if not path.is_dir():
        raise InvalidInput(f"a stream of files needs a directory to follow, got {path}")
    columns = LANDED if lands else columns_of(spark, path, source.columns, checkpoint)
    checked_columns(columns, pipeline.batch, source.order_by)
    rows = new_files(spark, path, source.columns, columns, Path(pipeline.out) / "malformed")
    return PipelineSource(
        rows, columns, names_for(columns, source.order_by, (FILE, ROW)), Pace(source.skew, clock=source.clock)
    )


def _records(spark: "SparkSession", pipeline: Pipeline) -> PipelineSource:
    from pyspark.sql import functions as sf
    from pyspark.sql.pandas.types import to_arrow_schema

    source = pipeline.source
    names = {name: source.columns[name] for name in ("key", "type", "event_time") if name in source.columns}
    fields = KafkaFields(**names, others=source.others)
    reading = kafka_frames(spark, source.address, fields, source.options, stream=True, times=source.times)
    found: Any = to_arrow_schema(reading.measurements.schema, timezone="UTC")
    columns = pa.schema([pa.field(one.name, MOMENT if pa.types.is_timestamp(one.type) else one.type) for one in found])
    checked_columns(columns, pipeline.batch, ("offset",))
    own = [sf.col(name).alias(spark_name(columns, name)) for name in columns.names]
    pace = Pace(source.skew, clock=source.clock, partition=spark_name(columns, "partition"))
    rows = reading.measurements.select(*own)
    return PipelineSource(rows, columns, names_for(columns, ("offset",), ()), pace, reading.malformed)
