"""A Kafka topic as measurements, in batches and in streams: Spark's own source, and its JSON read in Java.

records ──► parsed ──┬──► measurements: key, type, event_time, receive_time, …, size, partition, offset
                     └──► malformed: those that are none, each with its reason
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from batchline.core.kafka_address import KafkaAddress, kafka_address
from batchline.core.moment import EARLIEST_US, LATEST_US
from batchline.errors import InvalidInput, MissingExtra, check_choice, shown
from batchline.spark.frames import fields_of, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["KafkaFields", "KafkaReading", "kafka_frames", "kafka_packages"]

TIMES: Final = ("append", "any")
#: What the address says; to set it otherwise would read something else.
OF_THE_ADDRESS: Final = ("kafka.bootstrap.servers", "subscribe", "subscribepattern", "assign")
#: What the columns of measurements are called besides the fields that are taken along.
OURS: Final = ("key", "type", "event_time", "receive_time", "size", "partition", "offset")
LOG_APPEND_TIME: Final = 1
#: As files are read: a date, a time and a zone.
TIME: Final = r"^\d{4}-\d\d-\d\d[T ]([01]\d|2[0-3])(:\d\d(:\d\d([.]\d{1,9})?)?)?(Z|[+-]([01]\d|2[0-3])(:?[0-5]\d)?)$"
EXPECTED: Final = "a time with a zone such as 2026-11-15T12:00:00.000Z"
JSON, BROKEN, REASON = "batchline_json", "batchline_broken", "batchline_reason"
TEXT, VALUE, OBJECTS = "batchline_text", "batchline_value", "batchline_objects"
PRODUCERS_TIME: Final = (
    "topic {topic} has records whose time is their producer's and not the broker's: set its message.timestamp.type to "
    "LogAppendTime; or read it with times='any', and take that time for the receive time"
)


class KafkaReading(NamedTuple):
    """Every record of a topic is a row of one of the two; what is not asked for is not read."""

    #: key, type, event_time, receive_time, the fields taken along, size, partition, offset.
    measurements: "DataFrame"
    #: partition, offset, receive_time, key, reason, text, value: what is no measurement, and why.
    malformed: "DataFrame"


class KafkaFields(NamedTuple):
    """What the fields of a record's JSON are called; `others` is written as in SQL."""

    #: The field that is the key; None for the key of the record.
    key: str | None = None
    type: str = "type"
    event_time: str = "event_time"
    others: str = "value double"


def kafka_packages(version: str | None = None) -> str:
    """What `spark.jars.packages` must name for Spark to read from Kafka: its connector, of Spark's own version."""
    if version is None:
        import pyspark

        version = pyspark.__version__
    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}"


def kafka_frames(
    spark: "SparkSession",
    address: str,
    fields: KafkaFields,
    options: Mapping[str, Any],
    *,
    stream: bool,
    times: str,
) -> KafkaReading:
    """The records of a topic, told apart."""
    check_choice("times", times, TIMES, InvalidInput)
    where = kafka_address(address)
    _check_fields(fields)
    records = _records(spark, where, options, stream=stream)
    parsed = _parsed(records, fields, _receive_time(times, where.topic))
    return KafkaReading(_measurements(parsed), _malformed(parsed))


def _check_fields(fields: KafkaFields) -> None:
    """Names are names, and of what is taken along none is another's."""
    for name, field in fields._asdict().items():
        if not isinstance(field, str) and not (name == "key" and field is None):
            raise InvalidInput(f"{name} must be the name of a field of the JSON, got {shown(field)}")
    names = [field.name for field in _fields_in(fields.others)]
    taken = [name for name in names if name in (*OURS, fields.key, fields.type, fields.event_time) or _is_inner(name)]
    if taken or len(set(names)) < len(names):
        raise InvalidInput(f"others must name further fields, each once; it has {', '.join(taken or names)}")


def _is_inner(name: str) -> bool:
    return name.startswith("batchline_")


def _fields_in(ddl: str) -> Sequence[Any]:
    from pyspark.errors import PySparkException

    try:
        return fields_of(ddl) if ddl.strip() else []
    except PySparkException as error:
        raise InvalidInput(f"others must be written as in SQL, value double, unit string; got {shown(ddl)}") from error


def _records(spark: "SparkSession", address: KafkaAddress, options: Mapping[str, Any], *, stream: bool) -> "DataFrame":
    from pyspark.errors import AnalysisException

    for name in options:
        if name.lower() in OF_THE_ADDRESS:
            raise InvalidInput(f"which servers and topic are read is said by the address, got the option {name!r}")
    reader: Any = spark.readStream if stream else spark.read
    given = {"startingOffsets": "earliest", **options, "subscribe": address.topic}
    given["kafka.bootstrap.servers"] = address.servers
    try:
        records: DataFrame = reader.format("kafka").options(**given).load()
    except AnalysisException as error:
        if "find data source" not in str(error):
            raise
        raise MissingExtra(
            "this Spark session has no connector for Kafka: start it with "
            f'session(conf={{"spark.jars.packages": "{kafka_packages()}"}}), or with those jars in spark.jars'
        ) from error
    return records


def _parsed(records: "DataFrame", fields: KafkaFields, receive_time: "Column") -> "DataFrame":
    """The records with what their JSON says, and why they are no measurements, where they are none."""
    from pyspark.sql import functions as sf

    texts = dict.fromkeys(name for name in (fields.key, fields.type, fields.event_time) if name is not None)
    others = [field.name for field in _fields_in(fields.others)]
    ddl = ", ".join([*(f"{quoted(name)} string" for name in texts), *([fields.others] if others else [])])
    rows = records.withColumn(TEXT, sf.col("value").cast("string")).withColumn(JSON, _read(sf.col(TEXT), ddl))
    return rows.select(
        (sf.col("key").cast("string") if fields.key is None else _field(fields.key)).alias("key"),
        _field(fields.type).alias("type"),
        _moment(_field(fields.event_time)).alias("event_time"),
        receive_time.alias("receive_time"),
        *(_field(name).alias(name) for name in others),
        sf.octet_length("value").cast("long").alias("size"),
        "partition",
        "offset",
        # The rest is for those that are no measurements.
        JSON,
        TEXT,
        sf.col("value").alias(VALUE),
    ).withColumn(REASON, _reason(fields))


def _read(text: "Column", ddl: str) -> "Column":
    """A text as JSON. Spark ignores what comes after an object: in brackets, that is not JSON, or more than one."""
    from pyspark.sql import functions as sf

    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": BROKEN, "allowSingleQuotes": "false"}
    whole = sf.concat(sf.lit(f'{{"{OBJECTS}":['), text, sf.lit("]}"))
    return sf.from_json(whole, f"{OBJECTS} array<struct<{ddl}>>, {BROKEN} string", options)


def _field(name: str) -> "Column":
    from pyspark.sql import functions as sf

    return sf.get(sf.col(f"{JSON}.{OBJECTS}"), sf.lit(0)).getField(name)


def _moment(text: "Column") -> "Column":
    """The moment that a text tells, if it tells its zone; null if it tells none, or one outside the years 1 to 9999."""
    from pyspark.sql import functions as sf

    # Spark wants minutes and seconds.
    fuller = sf.regexp_replace(sf.regexp_replace(text, "^(.{13})(Z|[+-])", "$1:00$2"), "^(.{16})(Z|[+-])", "$1:00$2")
    moment = sf.coalesce(text.try_cast("timestamp"), fuller.try_cast("timestamp"))
    known = sf.unix_micros(moment).between(EARLIEST_US, LATEST_US)
    return sf.when(text.rlike(TIME) & known, moment)


def _receive_time(times: str, topic: str) -> "Column":
    """The time of a record, if it is the broker's; it is for the sake of order that one asks."""
    from pyspark.sql import functions as sf

    if times == "any":
        return sf.col("timestamp")
    complaint = sf.raise_error(sf.lit(PRODUCERS_TIME.format(topic=topic))).cast("timestamp")
    return sf.when(sf.col("timestampType") == LOG_APPEND_TIME, sf.col("timestamp")).otherwise(complaint)


def _reason(fields: KafkaFields) -> "Column":
    """Why a record is no measurement, the first reason of several; null if it is one."""
    from pyspark.sql import functions as sf

    time = _field(fields.event_time)
    key_name = "the key of the record" if fields.key is None else fields.key
    reasons = [
        (sf.col(VALUE).isNull(), sf.lit("the record has no value")),
        (~sf.is_valid_utf8(sf.col(TEXT)), sf.lit("not UTF-8")),
        (
            sf.col(f"{JSON}.{BROKEN}").isNotNull(),
            sf.lit(f"no JSON object, or not of the fields {fields.others}".rstrip()),
        ),
        (sf.size(f"{JSON}.{OBJECTS}") != 1, sf.lit("not one JSON object")),
        (sf.col("key").isNull(), sf.lit(f"{key_name} is missing")),
        (~sf.is_valid_utf8(sf.col("key")), sf.lit(f"{key_name} is not UTF-8")),
        (sf.col("type").isNull(), sf.lit(f"{fields.type} is missing")),
        (time.isNull(), sf.lit(f"{fields.event_time} is missing")),
        (sf.col("event_time").isNull(), sf.concat(sf.lit(f"{fields.event_time}: expected {EXPECTED}, got "), time)),
    ]
    return sf.coalesce(*(sf.when(is_so, why) for is_so, why in reasons))


def _measurements(parsed: "DataFrame") -> "DataFrame":
    return parsed.where(f"{REASON} IS NULL").drop(JSON, TEXT, VALUE, REASON)


def _malformed(parsed: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as sf

    return parsed.where(f"{REASON} IS NOT NULL").select(
        "partition",
        "offset",
        "receive_time",
        sf.make_valid_utf8(sf.col("key")).alias("key"),
        sf.col(REASON).alias("reason"),
        sf.make_valid_utf8(sf.col(TEXT)).alias("text"),
        sf.col(VALUE).alias("value"),
    )
