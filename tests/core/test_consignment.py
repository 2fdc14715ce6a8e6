"""A parcel on its way: what is written is read again, and what is damaged is named."""

import gzip
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from batchline.core.consignment import GZIP_FROM, LARGEST_PAYLOAD, Consignment, message_id, read_consignment
from batchline.errors import InvalidMessage

NAMES = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=30)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)
PARCELS = st.builds(
    Consignment,
    id=TEXTS,
    publication=NAMES,
    lane=st.integers(0, 2**31 - 1),
    number=st.integers(1, 2**63 - 1),
    item=st.none() | NAMES,
    count=st.integers(0, 2**63 - 1),
    first_time=TEXTS,
    last_time=TEXTS,
    payload=st.binary(max_size=100) | st.binary(max_size=9).map(lambda some: some * GZIP_FROM),
    reason=TEXTS,
)
VALUES = st.lists(st.dictionaries(TEXTS, st.integers() | TEXTS | st.none(), max_size=3), max_size=20)
PARCEL = Consignment(
    "p-1", "import", 3, 17, "fanout/1/2", 2, "2026-11-15T12:00:00Z", "2026-11-15T12:00:01Z", b'[{"v":1},{"v":2}]'
)


def body_with(**changes: Any) -> bytes:
    """The body of a parcel whose line says something else."""
    head = {name: value for name, value in (PARCEL.head() | changes).items() if value is not ...}
    return json.dumps(head).encode() + b"\n" + PARCEL.payload


@given(parcel=PARCELS)
@example(parcel=replace(PARCEL, id="\n\0'\"\\", payload=b"\n\n"))
@example(parcel=replace(PARCEL, payload=b""))
def test_what_is_written_is_read_again_to_the_byte(parcel: Consignment) -> None:
    assert read_consignment(parcel.as_body()) == parcel


@given(parcel=PARCELS)
def test_the_same_parcel_is_the_same_bytes(parcel: Consignment) -> None:
    assert parcel.as_body() == replace(parcel).as_body()


@pytest.mark.parametrize(("size", "gzipped"), [(GZIP_FROM - 1, False), (GZIP_FROM, True)])
def test_long_measurements_are_gzipped_without_a_time_or_a_name(size: int, gzipped: bool) -> None:
    line, _, payload = replace(PARCEL, payload=b" " * size).as_body().partition(b"\n")
    assert json.loads(line).get("encoding") == ("gzip" if gzipped else None)
    if gzipped:
        assert payload[3:8] == bytes(5)  # no flags, and the moment 0
        assert gzip.decompress(payload) == b" " * size


@given(values=VALUES, chosen=st.sets(st.integers(-2, 25)))
def test_some_of_a_parcels_measurements_by_their_places(values: list[dict[str, Any]], chosen: set[int]) -> None:
    parcel = replace(PARCEL, count=len(values), payload=json.dumps(values).encode())
    some = parcel.only(chosen)
    assert some.measurements == [values[place] for place in sorted(chosen) if 0 <= place < len(values)]
    assert some.count == len(some.measurements)
    assert replace(some, count=parcel.count, payload=parcel.payload) == parcel


@given(values=VALUES, reason=TEXTS)
def test_as_json_it_is_one_object_with_the_measurements_in_it(values: list[dict[str, Any]], reason: str) -> None:
    parcel = replace(PARCEL, payload=json.dumps(values).encode(), reason=reason)
    assert json.loads(parcel.as_json()) == parcel.head() | {"measurements": values}
    assert ("reason" in parcel.head()) == bool(reason)


def test_the_id_of_its_message_names_its_lane_in_braces() -> None:
    assert message_id("import", 3, 17) == "{import/3}17"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\n",
        b"a message of somebody else's",
        b"{}",
        b"{}\n[]",
        b"[]\n[]",
        b'"text"\n[]',
        b"\xff\xfe\n[]",
        b"[" * 100_000 + b"\n[]",
        body_with().partition(b"\n")[0],  # the line alone
        *(body_with(**{name: ...}) for name in PARCEL.head()),
        *(body_with(lane=lane) for lane in (-1, 2**31, 1.0, True, "3", None)),
        *(body_with(number=number) for number in (0, 2**63, "17", None, 10**400)),
        *(body_with(count=count) for count in (-1, 2**63, None)),
        *(body_with(publication=name) for name in ("", None, 7, "a\nb", "x" * 256)),
        *(body_with(item=item) for item in (7, "a\0", ["x"])),
        *(body_with(**{name: 7}) for name in ("parcel", "first_time", "last_time", "reason")),
        body_with(parcel="\ud800"),
        body_with(encoding="gzip"),  # it is not
        PARCEL.as_body()[:40],
        replace(PARCEL, payload=b" " * GZIP_FROM).as_body()[:-9],
        replace(PARCEL, payload=b" " * GZIP_FROM).as_body().partition(b"\n")[0] + b"\n",
    ],
    ids=lambda body: ascii(body)[:60],
)
def test_what_is_no_parcel_is_refused_by_name(body: bytes) -> None:
    with pytest.raises(InvalidMessage, match=r"expected a parcel|a parcel has at most"):
        read_consignment(body).opened()


@given(body=st.binary(max_size=200))
def test_any_bytes_are_a_parcel_or_refused_by_name(body: bytes) -> None:
    with pytest.raises(InvalidMessage):
        read_consignment(body)


@given(place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_gzipped_parcel_with_a_flipped_bit_is_refused_or_other_in_its_line_alone(place: int, bit: int) -> None:
    whole = replace(PARCEL, payload=b" " * GZIP_FROM)
    body = bytearray(whole.as_body())
    body[place % len(body)] ^= 1 << bit
    try:
        found = read_consignment(bytes(body)).opened()
    except InvalidMessage:
        return
    # Unless the line no longer says that they are gzipped, the measurements are what they were.
    assert found.payload == whole.payload or found.payload[:2] == b"\x1f\x8b"


@pytest.mark.parametrize("said", [0, GZIP_FROM - 1, GZIP_FROM + 1, LARGEST_PAYLOAD, 2**32 - 1])
def test_a_parcel_that_lies_about_its_size_is_refused_and_never_expanded_further(said: int) -> None:
    body = replace(PARCEL, payload=b" " * GZIP_FROM).as_body()[:-4] + said.to_bytes(4, "little")
    found = read_consignment(body)
    assert found.size == said
    with pytest.raises(InvalidMessage, match=r"damaged measurements|at most 67,108,864"):
        found.opened()


def test_measurements_stay_gzipped_until_they_are_read() -> None:
    whole = replace(PARCEL, payload=b" " * GZIP_FROM)
    found = read_consignment(whole.as_body())
    assert found.altered(reason="refused").content()[:2] == whole.content()[:2]
    assert found.content() is found.altered(item=None).content()
    assert (found.size, found.opened().size, found.opened()) == (GZIP_FROM, GZIP_FROM, whole)
