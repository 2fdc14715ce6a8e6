"""Signatures of parcels: a body that was changed in any byte, or signed with another secret, is not signed."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from batchline.core.consignment import GZIP_FROM, Consignment, message_id, read_consignment
from batchline.core.message import Held, LeasedMessage
from batchline.core.signature import LaneProof, is_signed, new_secret
from batchline.core.stray import DEAD_PARCELS, stray_reason
from tests.core.test_consignment import PARCEL, PARCELS

SECRET, OTHER = "0f" * 16, "f0" * 16
LONG = replace(PARCEL, payload=b"[" + b" " * GZIP_FROM + b"]")


def message_of(body: bytes, id: str = "_made", owner: str = "vandals") -> LeasedMessage:
    """A message that a worker has leased."""
    return LeasedMessage(Held("parcels", 1, "w", 0, 1, 1, 1, owner, 0, [id], [body]), 0)


@given(parcel=PARCELS)
@example(parcel=LONG)
def test_a_signed_parcel_is_read_as_it_was_and_is_signed_with_its_secret_only(parcel: Consignment) -> None:
    body = parcel.as_body(secret=SECRET)
    assert read_consignment(body) == parcel
    assert is_signed(body, SECRET)
    assert not is_signed(body, OTHER)
    assert not is_signed(parcel.as_body(), SECRET)
    assert SECRET.encode() not in body


@given(place=st.integers(0, 10_000), bit=st.integers(0, 7))
@pytest.mark.parametrize("parcel", [PARCEL, LONG], ids=["plain", "gzipped"])
def test_a_signed_parcel_of_which_any_bit_was_changed_is_not_signed(parcel: Consignment, place: int, bit: int) -> None:
    body = bytearray(parcel.as_body(secret=SECRET))
    body[place % len(body)] ^= 1 << bit
    assert not is_signed(bytes(body), SECRET)


@pytest.mark.parametrize("changes", [{"number": 18}, {"lane": 2}, {"item": "other/1/2"}, {"publication": "x"}], ids=str)
def test_the_signature_of_a_parcel_is_of_no_use_for_another(changes: dict[str, Any]) -> None:
    signature = PARCEL.as_body(secret=SECRET).partition(b"\n")[0].rpartition(b",")[2]
    line, _, payload = replace(PARCEL, **changes).as_body().partition(b"\n")
    assert not is_signed(b"%s,%s\n%s" % (line[:-1], signature, payload), SECRET)


def test_measurements_are_told_from_the_line_that_they_follow() -> None:
    """A digest of all together would not know where the one ends."""
    body = PARCEL.as_body(secret=SECRET)
    line, _, payload = body.partition(b"\n")
    assert not is_signed(line + b"\n\n" + payload, SECRET)
    assert not is_signed(line + payload, SECRET)


def test_what_is_packed_is_kept_as_it_came() -> None:
    for parcel in (PARCEL, LONG):
        assert read_consignment(parcel.as_body(secret=SECRET)).content()[:2] == parcel.content()[:2]


def test_secrets_are_made_at_random() -> None:
    assert len({new_secret() for _ in range(100)}) == 100
    assert len(bytes.fromhex(new_secret())) == 16


SIGNED = PARCEL.as_body(secret=SECRET)
UNSIGNED = PARCEL.as_body()
ID = message_id("import", 3, 17)


@pytest.mark.parametrize(
    ("message", "proof", "said"),
    [
        (message_of(SIGNED), None, "nothing was published in lane 3 of publication 'import'"),
        (message_of(SIGNED), LaneProof(SECRET, 0), ""),
        (message_of(SIGNED, ID), LaneProof(OTHER, 0), "does not have the signature of that lane"),
        (message_of(UNSIGNED, ID, DEAD_PARCELS), LaneProof(SECRET, 0), "does not have the signature"),
        (message_of(UNSIGNED, ID, "parcels"), LaneProof(SECRET, 16), "does not have the signature"),
        (message_of(UNSIGNED, ID, "parcels"), LaneProof(None, 16), "does not have the signature"),
        (message_of(UNSIGNED, ID, "parcels"), LaneProof(SECRET, 17), ""),
        (message_of(UNSIGNED, ID, "own group"), LaneProof(None, 17), ""),
        (message_of(UNSIGNED, owner=DEAD_PARCELS), LaneProof(None, 17), ""),
        (message_of(UNSIGNED, owner="parcels"), LaneProof(None, 17), "publishing has not created it"),
        (message_of(SIGNED), LaneProof(OTHER, 17), "publishing has not created it"),
    ],
)
def test_a_stray_is_told_by_its_signature_or_before_there_were_any_by_its_id(
    message: LeasedMessage, proof: LaneProof | None, said: str
) -> None:
    reason = stray_reason(message, read_consignment(message.body), proof)
    assert said in reason
    assert bool(reason) == bool(said)
