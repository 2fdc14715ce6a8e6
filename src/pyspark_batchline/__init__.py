"""Where Spark looks for formats it does not know: so that `batchline_timeline` needs no registration."""

from batchline.spark.timeline_source import TimelineSource as DefaultSource

__all__ = ["DefaultSource"]
