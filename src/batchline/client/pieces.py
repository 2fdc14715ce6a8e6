"""Large calls in pieces that one request can hold."""

from collections.abc import Iterator, Sequence
from typing import Final

from batchline.wire.form import MOST_AT_ONCE

__all__ = ["BYTES_AT_ONCE", "framed", "pieces"]

#: Encoded bytes of what a request lists: half of what the service takes.
BYTES_AT_ONCE: Final = 8 << 20


def pieces(encoded: Sequence[bytes], most: int = MOST_AT_ONCE) -> Iterator[tuple[int, int]]:
    """From which to before which one request goes; none for nothing."""
    begin, size = 0, 0
    for place, one in enumerate(encoded):
        if place > begin and (place - begin == most or size + len(one) > BYTES_AT_ONCE):
            yield begin, place
            begin, size = place, 0
        size += len(one) + 1
    if encoded:
        yield begin, len(encoded)


def framed(name: bytes, encoded: Sequence[bytes], rest: bytes = b"{}", braces: bytes = b"[]") -> bytes:
    """A body that lists what is encoded, beside the fields of an encoded form."""
    tail = rest[1:] if rest == b"{}" else b"," + rest[1:]
    return b"".join((b'{"', name, b'":', braces[:1], b",".join(encoded), braces[1:], tail))
