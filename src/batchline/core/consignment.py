"""A parcel on its way: as it stands on the timeline, and as a sink is given it.

    {"parcel": …, "publication": …, "lane": 3, "number": 17, "item": …, …}      who it is, on one line
    [{…}, {…}, …]                                                               its measurements, JSON; or gzipped

Only the line is read on the way: the measurements go through as the bytes they are.
"""

import gzip
import json
import re
import zlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from batchline.core.name import check_name
from batchline.errors import InvalidMessage, InvalidName, shown

__all__ = ["Consignment", "Content", "check_head", "message_id", "read_consignment"]

#: Measurements of so many bytes are gzipped: fewer would hardly be fewer.
GZIP_FROM: Final = 2_048
GZIP: Final = "gzip"
SURROGATE: Final = re.compile("[\ud800-\udfff]")
#: From where to where the numbers of a parcel may be: what every store can keep.
NUMBERS: Final = {"lane": (0, 2**31 - 1), "number": (1, 2**63 - 1), "count": (0, 2**63 - 1)}


class Content(NamedTuple):
    """Measurements as a message holds them."""

    payload: bytes
    encoding: str = ""


@dataclass(frozen=True, slots=True)
class Consignment:
    """A parcel, where it belongs, and its measurements as JSON."""

    #: The parcel's id, from its data: what a receiver tells repetitions by.
    id: str
    #: Under which name it was published: parcels of a publication are numbered lane by lane.
    publication: str
    lane: int
    number: int
    #: The item of the tracker that is done when it has arrived; None if nobody waits for it.
    item: str | None
    #: How many measurements it holds.
    count: int
    #: Its earliest and its latest event time, ISO 8601.
    first_time: str
    last_time: str
    #: The measurements: a JSON array of objects.
    payload: bytes
    #: Why it is a dead letter, if it is one.
    reason: str = ""

    @property
    def measurements(self) -> list[dict[str, Any]]:
        """The measurements, read."""
        found: list[dict[str, Any]] = json.loads(self.payload)
        return found

    def head(self) -> dict[str, Any]:
        """All but the measurements, as plain data."""
        why = {"reason": self.reason} if self.reason else {}
        return {
            "parcel": self.id,
            "publication": self.publication,
            "lane": self.lane,
            "number": self.number,
            "item": self.item,
            "count": self.count,
            "first_time": self.first_time,
            "last_time": self.last_time,
        } | why

    def content(self) -> Content:
        """The measurements as a message holds them."""
        if len(self.payload) < GZIP_FROM:
            return Content(self.payload)
        # Without a time in it: the same parcel is the same bytes.
        return Content(gzip.compress(self.payload, 1, mtime=0), GZIP)

    def as_body(self, content: Content | None = None) -> bytes:
        """As the body of a message; who has made its content before gives it."""
        payload, encoding = content or self.content()
        return _line(self.head() | ({"encoding": encoding} if encoding else {})) + b"\n" + payload

    def as_json(self) -> bytes:
        """As one JSON object, the measurements in it: what most receivers take."""
        return b'%s,"measurements":%s}' % (_line(self.head())[:-1], self.payload)

    def only(self, places: Collection[int]) -> "Consignment":
        """The same parcel with some of its measurements only, by their places."""
        kept = [one for place, one in enumerate(self.measurements) if place in places]
        payload = json.dumps(kept, separators=(",", ":"), ensure_ascii=False).encode()
        return replace(self, count=len(kept), payload=payload)


def message_id(publication: str, lane: int, number: int) -> str:
    """The id of a parcel's message: what stands in braces decides its bucket, so a lane has one consumer at a time."""
    return f"{{{publication}/{lane}}}{number}"


def read_consignment(body: bytes) -> Consignment:
    """The parcel in the body of a message; raises InvalidMessage if there is none."""
    line, found, payload = body.partition(b"\n")
    try:
        head = json.loads(line)
        if not found or not isinstance(head, dict):
            raise InvalidMessage(f"expected a parcel, a line that tells of it and its measurements, got {shown(body)}")
        if head.get("encoding") == GZIP:
            payload = _unpacked(payload)
        return Consignment(**check_head(head), payload=payload)
    except (ValueError, KeyError, TypeError, OSError, EOFError, RecursionError, zlib.error, InvalidName) as error:
        raise InvalidMessage(f"expected a parcel, got {shown(body)}: {error}") from error


def _unpacked(payload: bytes) -> bytes:
    if not payload:
        raise EOFError("its measurements are missing")  # which gzip takes for none
    return gzip.decompress(payload)


def check_head(head: dict[str, Any]) -> dict[str, Any]:
    """What a parcel's line says, by the names of its fields; raises InvalidMessage, or InvalidName."""
    for name, (least, most) in NUMBERS.items():
        if type(head[name]) is not int or not least <= head[name] <= most:
            raise InvalidMessage(f"expected a parcel, its {name} is {shown(head[name])}, not from {least} to {most}")
    item = head["item"]
    return {
        "id": _text(head["parcel"]),
        "publication": check_name("the publication of a parcel", head["publication"]),
        "item": check_name("the item of a parcel", item) if item else None,
        "first_time": _text(head["first_time"]),
        "last_time": _text(head["last_time"]),
        "reason": _text(head.get("reason", "")),
    } | {name: head[name] for name in NUMBERS}


def _text(value: object) -> str:
    # Halves of a surrogate pair cannot be written again.
    if not isinstance(value, str) or not (value.isascii() or SURROGATE.search(value) is None):
        raise InvalidMessage(f"expected a parcel, got {shown(value)} where a text belongs")
    return value


def _line(head: dict[str, Any]) -> bytes:
    return json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode()
