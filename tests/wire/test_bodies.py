"""Bodies as JSON: never much longer than they are, whatever is in them."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.wire.form import body_of, text_body
from batchline.wire.messages import NewMessageForm

BODIES = {
    "zeros": bytes(100_000),
    "control characters": b"\x01\x02\x1f" * 30_000,
    "some control characters": (b"\x01" + b"x" * 15) * 5_000,
    "quotes": b'\\"' * 50_000,
    "lines": b"\t\r\n" * 30_000,
    "text": "über €".encode() * 10_000,
    "no text": b"\xff" * 100_000,
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_long_body_is_at_most_two_and_a_half_times_as_long_as_json(body: bytes) -> None:
    form = NewMessageForm(*text_body(body))
    assert len(msgspec.json.encode(form)) < 2.5 * len(body)
    assert body_of(form) == body


@given(body=st.binary(max_size=2_000))
def test_any_body_is_read_as_it_was(body: bytes) -> None:
    assert body_of(NewMessageForm(*text_body(body))) == body
