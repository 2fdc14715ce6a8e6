"""Where results and parcels go: `open_sink("https://…")`."""

from batchline.sinks.opening import open_sink
from batchline.sinks.sink import Sink

__all__ = ["Sink", "open_sink"]
