"""Signatures of parcels: by these a worker tells what publishing created from anything else on the topic.

    {"parcel": …, "lane": 3, "number": 17, …,"signature":"9f…"}     over the rest of the line,
    […]                                                             and over a digest of the measurements

The secret of a lane is 128 random bits, kept with the lane in the store. No message, answer or log has it.
"""

import hashlib
import hmac
import re
import secrets
from typing import Final, NamedTuple

__all__ = ["LaneProof", "digest_of", "is_signed", "new_secret", "signed_line"]

SECRET_BYTES: Final = 16
SIGNATURE_BYTES: Final = 16
SIGNED: Final = re.compile(rb'(\{.*),"signature":"([0-9a-f]{32})"\}')


class LaneProof(NamedTuple):
    """What proves that publishing created a parcel of a lane."""

    #: None if nothing was published since parcels are signed.
    secret: str | None
    #: Parcels up to this number were published before, and are not signed.
    unsigned_to: int


def new_secret() -> str:
    """Return a secret for a lane, in hexadecimal digits."""
    return secrets.token_hex(SECRET_BYTES)


def digest_of(payload: bytes) -> bytes:
    """Return the digest of measurements, as a message holds them."""
    return hashlib.blake2b(payload, digest_size=32).digest()


def signed_line(line: bytes, digest: bytes, secret: str) -> bytes:
    """Return the line of a parcel, a JSON object, with its signature as the last field."""
    return b'%s,"signature":"%s"}' % (line[:-1], _signature(line, digest, secret))


def is_signed(body: bytes, secret: str) -> bool:
    """Return whether the body of a message has the signature of a lane's secret. Nothing is unpacked."""
    line, _, payload = body.partition(b"\n")
    match = SIGNED.fullmatch(line)
    if match is None:
        return False
    return hmac.compare_digest(match[2], _signature(b"%s}" % match[1], digest_of(payload), secret))


def _signature(line: bytes, digest: bytes, secret: str) -> bytes:
    key = bytes.fromhex(secret)
    return hashlib.blake2b(digest + line, digest_size=SIGNATURE_BYTES, key=key).hexdigest().encode()
