"""A parcel on its way: as it stands on the timeline, and as a sink is given it.

    {"parcel": …, "publication": …, "lane": 3, "number": 17, "item": …, …}      who it is, on one line, signed
    [{…}, {…}, …]                                                               its measurements, JSON; or gzipped

Only the line is read on the way: the measurements go through as the bytes they are. Gzipped ones stay so until they are
sent: a body of 1 MiB may expand to 1 GiB, and a parcel that expands to more than 64 MiB is refused.
"""

import gzip
import json
import re
import zlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from batchline.core.name import check_name
from batchline.core.signature import digest_of, signed_line
from batchline.errors import InvalidMessage, InvalidName, shown

__all__ = ["LARGEST_PAYLOAD", "Consignment", "Content", "check_head", "check_size", "message_id", "read_consignment"]

#: Measurements of so many bytes are gzipped: fewer would hardly be fewer.
GZIP_FROM: Final = 2_048
GZIP: Final = "gzip"
#: Bytes of a parcel's measurements as JSON, expanded: up to 64 times what a message holds.
LARGEST_PAYLOAD: Final = 64 << 20
#: Size of the field at the end of a gzip stream that holds the expanded length.
LENGTH_BYTES: Final = 4
SURROGATE: Final = re.compile("[\ud800-\udfff]")
#: From where to where the numbers of a parcel may be: what every store can keep.
NUMBERS: Final = {"lane": (0, 2**31 - 1), "number": (1, 2**63 - 1), "count": (0, 2**63 - 1)}


class Content(NamedTuple):
    """Measurements as a message holds them."""

    payload: bytes
    encoding: str = ""
    #: Of the payload, for the signature; empty if it was not computed before.
    digest: bytes = b""

    @property
    def size(self) -> int:
        """How many bytes of JSON they are, as the content says itself: no more is ever expanded."""
        if self.encoding != GZIP:
            return len(self.payload)
        return int.from_bytes(self.payload[-LENGTH_BYTES:], "little")


class _Payload:
    """The measurements of a parcel as JSON: expanded each time they are read, if it holds them gzipped."""

    def __get__(self, parcel: "Consignment | None", _: object = None) -> bytes:
        if parcel is None:
            raise AttributeError  # a field without a default
        return _expanded(parcel)

    def __set__(self, parcel: "Consignment", payload: bytes | Content) -> None:
        parcel.__dict__["payload"] = payload


@dataclass(frozen=True)
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
    #: The measurements: a JSON array of objects. It may be given as `Content`, and is then expanded when it is read.
    payload: _Payload = _Payload()
    #: Why it is a dead letter, if it is one.
    reason: str = ""

    @property
    def size(self) -> int:
        """How many bytes its measurements have as JSON."""
        return self._held().size

    def opened(self) -> "Consignment":
        """Expand its measurements, once; raises InvalidMessage if they are damaged, or too large."""
        return self if isinstance(self.__dict__["payload"], bytes) else replace(self)

    def altered(self, **changes: Any) -> "Consignment":
        """Return it with other fields; gzipped measurements stay as they are."""
        return replace(self, **({"payload": self.__dict__["payload"]} | changes))

    def _held(self) -> Content:
        held: bytes | Content = self.__dict__["payload"]
        return held if isinstance(held, Content) else Content(held)

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
        held = self._held()
        if held.encoding:
            return held
        if len(self.payload) < GZIP_FROM:
            return Content(self.payload, digest=digest_of(self.payload))
        # Without a time in it: the same parcel is the same bytes.
        packed = gzip.compress(self.payload, 1, mtime=0)
        return Content(packed, GZIP, digest_of(packed))

    def as_body(self, content: Content | None = None, secret: str | None = None) -> bytes:
        """Return it as the body of a message, signed with the secret of its lane, if that is given.

        A caller that has made its content before gives that.
        """
        payload, encoding, digest = content or self.content()
        line = _line(self.head() | ({"encoding": encoding} if encoding else {}))
        if secret:
            line = signed_line(line, digest or digest_of(payload), secret)
        return line + b"\n" + payload

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
    """Return the parcel in the body of a message, not expanded yet; raises InvalidMessage if there is none."""
    line, found, payload = body.partition(b"\n")
    try:
        head = json.loads(line)
        if not found or not isinstance(head, dict):
            raise InvalidMessage(f"expected a parcel, a line that tells of it and its measurements, got {shown(body)}")
        content = Content(payload, GZIP) if head.get("encoding") == GZIP else payload
        return Consignment(**check_head(head), payload=content)
    except (ValueError, KeyError, TypeError, RecursionError, InvalidName) as error:
        raise InvalidMessage(f"expected a parcel, got {shown(body)}: {error}") from error


def check_size(id: str, content: Content) -> None:
    """Raise InvalidMessage for measurements that expand to more than a worker takes."""
    if content.encoding and content.size > LARGEST_PAYLOAD:
        raise InvalidMessage(
            f"parcel {id!r} expands to {content.size:,} bytes of JSON, from {len(content.payload):,} gzipped; a parcel "
            f"has at most {LARGEST_PAYLOAD:,}: pack with a smaller max_items or max_bytes"
        )


def _expanded(parcel: Consignment) -> bytes:
    held: bytes | Content = parcel.__dict__["payload"]
    if isinstance(held, bytes):
        return held
    if not held.encoding:
        return held.payload
    check_size(parcel.id, held)
    # One byte more than it says shows that it says too little.
    stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        payload = stream.decompress(held.payload, held.size + 1)
    except zlib.error as error:
        raise InvalidMessage(f"expected a parcel, got {parcel.id!r} with damaged measurements: {error}") from error
    if not stream.eof or len(payload) != held.size or stream.unused_data:
        raise InvalidMessage(
            f"expected a parcel, got {parcel.id!r} with damaged measurements: no gzip stream of {held.size:,} bytes"
        )
    return payload


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
