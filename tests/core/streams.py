"""Generated rules and streams: small numbers, so that windows collide, split, fill and time out all the time."""

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from batchline import BatchRules, Measurement

BASE_US = 1_800_000_000_000_000


def us(n: int) -> timedelta:
    return timedelta(microseconds=n)


@st.composite
def batch_rules(draw: st.DrawFn, max_bytes: st.SearchStrategy[int | None] | None = None) -> BatchRules:
    anchor = draw(st.sampled_from(["arrival", "lookback", "event", "aligned"]))
    return BatchRules(
        window=us(draw(st.integers(1, 60))),
        max_delay=us(draw(st.integers(0, 60))),
        leap_limit=us(draw(st.integers(0, 60))),
        max_bytes=draw(st.one_of(st.none(), st.integers(1, 12)) if max_bytes is None else max_bytes),
        anchor=anchor,
        split=draw(st.sampled_from(["later", "midpoint"])) if anchor == "event" else "later",
    )


@st.composite
def streams(draw: st.DrawFn, keys: str = "AB", in_order: bool = False, most: int = 60) -> list[Measurement]:
    """Messages of a few keys in receive order, now and then with one received earlier than the one before it."""
    steps = st.integers(0, 25) if in_order else st.one_of(st.integers(0, 25), st.integers(-10, 10))
    rows = draw(
        st.lists(
            st.tuples(st.sampled_from(keys), st.sampled_from("xyz"), steps, st.integers(-70, 70), st.integers(0, 6)),
            max_size=most,
        )
    )
    receive_us, messages = BASE_US, []
    for number, (key, kind, step, ahead, size) in enumerate(rows):
        receive_us += step
        messages.append(Measurement.from_us(key, kind, receive_us + ahead, receive_us, number, size))
    return messages


def shown(batch: Any) -> tuple[Any, ...]:
    """A batch of the library in the words of the model."""
    return (
        batch.id,
        batch.start_us,
        batch.end_us,
        batch.closed_at_us,
        batch.close_reason.value,
        sorted(m.payload for m in batch.messages),
    )
