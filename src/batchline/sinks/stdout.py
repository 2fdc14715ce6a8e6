"""Parcels as lines of JSON on standard output."""

import json
import sys
import threading
from collections.abc import Sequence
from typing import Any, Final, Literal

from batchline.core.consignment import Consignment
from batchline.errors import InvalidSink, SinkClosed, check_choice
from batchline.sinks.sink import Sink

__all__ = ["EACH", "StdoutSink", "lines_of"]

EACH: Final = ("parcel", "measurement")


class StdoutSink(Sink):
    """Writes a line per parcel, or per measurement; a parcel that comes twice is written twice."""

    most = 64

    def __init__(self, *, each: Literal["parcel", "measurement"] = "parcel", stream: Any = None):
        """Write to standard output, or to another binary stream."""
        check_choice("each", each, EACH, InvalidSink)
        self._each = each
        self._stream = stream
        self._alone = threading.Lock()

    def send(self, parcels: Sequence[Consignment]) -> None:
        """Write the parcels, line after line; raises SinkClosed when nobody reads them any more."""
        text = b"".join(line for parcel in parcels for line in lines_of(parcel, self._each))
        with self._alone:
            try:
                self._write(text)
            except (BrokenPipeError, ValueError) as error:  # the latter if we have closed it ourselves
                raise SinkClosed(f"standard output is closed: {error}") from error

    def _write(self, text: bytes) -> None:
        stream = self._stream or _unbuffered()
        rest = memoryview(text)
        while rest:
            rest = rest[stream.write(rest) :]
        stream.flush()


def _unbuffered() -> Any:
    """Standard output without what is kept back: that would be tried again, in vain, when the program ends."""
    sys.stdout.flush()
    return getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)


def lines_of(parcel: Consignment, each: str) -> list[bytes]:
    """A parcel as lines of JSON: one, or one per measurement."""
    if each == "parcel":
        # Between the values of JSON a line's end is a space, and within them there is none.
        return [parcel.as_json().replace(b"\n", b" ") + b"\n"]
    return [f"{json.dumps(one, ensure_ascii=False)}\n".encode() for one in parcel.measurements]
