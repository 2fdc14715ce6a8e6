"""Bad input: each call names what is wrong, and has changed nothing."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from batchline import Lease, NewMessage, Store, Timeline
from batchline.core.message import LARGEST_BODY, LATEST_MS
from batchline.errors import (
    BatchlineError,
    InvalidCount,
    InvalidInput,
    InvalidMessage,
    InvalidName,
    InvalidRules,
    MalformedLease,
    UnknownTopic,
)
from tests.contract.timeline.line import MINUTE, Line
from tests.doubles import HandClock, new_id

Call = Callable[[Line, Any], object]


@pytest.fixture
def held(timeline: Timeline, clock: HandClock) -> tuple[Line, Lease]:
    """A line with a message that is leased, one that waits, and one that is available."""
    line = Line(timeline, clock).make(longest_lease=timedelta(hours=1), buckets=16)
    (lease,) = line.leased("leased")
    line.create("waits", at=line.now + 5)
    line.create("available")
    return line, lease


def assert_refused(
    line: Line, call: Callable[[Any], object], values: Iterable[Any], error: type[BatchlineError]
) -> None:
    """The call raises just that for each of the values, and nothing is another than before."""

    def all_there_is() -> tuple[Any, ...]:
        timeline = line.timeline
        return line.messages(), line.counts(), timeline.topic(line.topic), timeline.consumers(line.topic)

    before = all_there_is()
    for value in values:
        with pytest.raises(BatchlineError) as raised:
            call(value)
        assert raised.type is error
        assert str(raised.value)
    assert all_there_is() == before


# --- names ------------------------------------------------------------------------------------------------------------

NAMED: dict[str, Call] = {
    "create_topic": lambda line, name: line.timeline.create_topic(name),
    "dead_letter": lambda line, name: line.timeline.create_topic(new_id(), max_attempts=1, dead_letter=name),
    "update_topic": lambda line, name: line.timeline.update_topic(name),
    "delete_topic": lambda line, name: line.timeline.delete_topic(name),
    "topic": lambda line, name: line.timeline.topic(name),
    "create's topic": lambda line, name: line.timeline.create(name, [NewMessage()], producer_group=line.group),
    "create's group": lambda line, name: line.timeline.create(line.topic, [NewMessage()], producer_group=name),
    "create's id": lambda line, name: line.timeline.create(
        line.topic, [NewMessage(), NewMessage(id=name)], producer_group=line.group
    ),
    "move's topic": lambda line, name: line.timeline.move(name, {"waits": 0}, producer_group=line.group),
    "move's group": lambda line, name: line.timeline.move(line.topic, {"waits": 0}, producer_group=name),
    "move's id": lambda line, name: line.timeline.move(line.topic, {"waits": 0, name: 0}, producer_group=line.group),
    "cancel's topic": lambda line, name: line.timeline.cancel(name, ["waits"], producer_group=line.group),
    "cancel's group": lambda line, name: line.timeline.cancel(line.topic, ["waits"], producer_group=name),
    "cancel's id": lambda line, name: line.timeline.cancel(line.topic, ["waits", name], producer_group=line.group),
    "read's topic": lambda line, name: line.timeline.read(name, "waits", producer_group=line.group),
    "read's id": lambda line, name: line.timeline.read(line.topic, name, producer_group=line.group),
    "read's group": lambda line, name: line.timeline.read(line.topic, "waits", producer_group=name),
    "my_messages": lambda line, name: line.timeline.my_messages(name),
    "lease's topic": lambda line, name: line.timeline.lease(name, "w"),
    "lease's consumer": lambda line, name: line.timeline.lease(line.topic, name),
    "lease_one's topic": lambda line, name: line.timeline.lease_one(name, "available", 1, "w"),
    "lease_one's id": lambda line, name: line.timeline.lease_one(line.topic, name, 1, "w"),
    "lease_one's consumer": lambda line, name: line.timeline.lease_one(line.topic, "available", 1, name),
    "my_leases": lambda line, name: line.timeline.my_leases(name),
    "my_leases' topic": lambda line, name: line.timeline.my_leases("w", topic=name),
    "upcoming's topic": lambda line, name: line.timeline.upcoming(name, "w"),
    "upcoming's consumer": lambda line, name: line.timeline.upcoming(line.topic, name),
    "next_due's topic": lambda line, name: line.timeline.next_due(name, "w"),
    "next_due's consumer": lambda line, name: line.timeline.next_due(line.topic, name),
    "count": lambda line, name: line.timeline.count(name),
    "load": lambda line, name: line.timeline.load(name, to=line.now + 5),
    "subscribe's topic": lambda line, name: line.timeline.subscribe(name, "w"),
    "subscribe's consumer": lambda line, name: line.timeline.subscribe(line.topic, name),
    "unsubscribe's topic": lambda line, name: line.timeline.unsubscribe(name, "w"),
    "unsubscribe's consumer": lambda line, name: line.timeline.unsubscribe(line.topic, name),
    "consumers": lambda line, name: line.timeline.consumers(name),
}


NAMES = ("", "x" * 256, "nul \0", "line\nbreak", "half \ud83d", 5, b"bytes")


@pytest.mark.parametrize("verb", NAMED)
def test_a_name_that_cannot_be_kept_is_refused_by_every_call(held: tuple[Line, Lease], verb: str) -> None:
    assert_refused(held[0], partial(NAMED[verb], held[0]), NAMES, InvalidName)


def test_a_name_of_a_broker_that_cannot_be_kept_is_refused(store: Store) -> None:
    for name in NAMES:
        with pytest.raises(InvalidName):
            Timeline(store).beat(name)  # type: ignore[arg-type]


TOPICS = [verb for verb in NAMED if "topic" in verb and verb not in ("create_topic",)] + ["count", "load", "consumers"]


@pytest.mark.parametrize("verb", TOPICS)
def test_a_topic_that_is_not_there_is_unknown_to_every_call(held: tuple[Line, Lease], verb: str) -> None:
    names = (new_id(), "'; DROP TABLE batchline_topics; --", "%s :name ?")
    assert_refused(held[0], partial(NAMED[verb], held[0]), names, UnknownTopic)


# --- numbers, moments and spans ---------------------------------------------------------------------------------------

NAIVE = datetime(2027, 1, 1)  # noqa: DTZ001
NUMBERS = (0, -1, 10_001, 1.0, True, "5", None, 10**5000)
MOMENTS = (-1, LATEST_MS + 1, 1.5, True, "now", NAIVE, 10**5000)
AFTERS = (timedelta(-1), timedelta(microseconds=-1), timedelta(days=36_501), timedelta.max, 60, 1.5, True, "1m")
SPANS = (timedelta(0), timedelta(-1), timedelta(microseconds=999), timedelta(hours=1, microseconds=1), 60, "1m")
BAD: dict[str, tuple[Call, Sequence[Any], type[BatchlineError]]] = {
    "lease's limit": (lambda line, bad: line.timeline.lease(line.topic, "w", limit=bad), NUMBERS, InvalidCount),
    "my_messages' limit": (lambda line, bad: line.timeline.my_messages(line.group, limit=bad), NUMBERS, InvalidCount),
    "upcoming's limit": (lambda line, bad: line.timeline.upcoming(line.topic, "w", limit=bad), NUMBERS, InvalidCount),
    "load's bins": (
        lambda line, bad: line.timeline.load(line.topic, to=line.now + 5, bins=bad),
        NUMBERS,
        InvalidCount,
    ),
    "lease_one's version": (
        lambda line, bad: line.timeline.lease_one(line.topic, "available", bad, "w"),
        (0, -1, 1.0, True, "1", None, 10**5000),
        InvalidCount,
    ),
    "heartbeat's clock": (
        lambda line, bad: line.timeline.heartbeat(line.topic, "w", clock_ms=bad),
        (-1, LATEST_MS + 1, 1.5, True, "now", 10**5000),
        InvalidMessage,
    ),
    "heartbeat's speed": (
        lambda line, bad: line.timeline.heartbeat(line.topic, "w", messages_per_second=bad),
        (-1, -0.1, float("nan"), float("inf"), True, "fast", None),
        InvalidCount,
    ),
    "create's moment": (
        lambda line, bad: line.timeline.create(line.topic, [NewMessage(), NewMessage(at=bad)], producer_group="g"),
        MOMENTS,
        InvalidMessage,
    ),
    "move's moment": (
        lambda line, bad: line.timeline.move(line.topic, {"available": 0, "waits": bad}, producer_group=line.group),
        (*MOMENTS, None),
        InvalidMessage,
    ),
    "create's span": (
        lambda line, bad: line.timeline.create(line.topic, [NewMessage(), NewMessage(after=bad)], producer_group="g"),
        AFTERS,
        InvalidMessage,
    ),
    "create's moment and span": (
        lambda line, at: line.timeline.create(line.topic, [NewMessage(at=at, after=MINUTE)], producer_group="g"),
        (0, NAIVE.replace(tzinfo=UTC)),
        InvalidMessage,
    ),
    "move's span of each": (
        lambda line, bad: line.timeline.move(line.topic, {"available": 0, "waits": bad}, producer_group=line.group),
        [bad for bad in AFTERS if isinstance(bad, timedelta)],
        InvalidMessage,
    ),
    "move's span of all": (
        lambda line, bad: line.timeline.move(line.topic, ["available", "waits"], after=bad, producer_group=line.group),
        AFTERS,
        InvalidMessage,
    ),
    "move's moments and span": (
        lambda line, bad: line.timeline.move(line.topic, bad, after=MINUTE, producer_group=line.group),
        ({"waits": 0}, {}, "waits", ""),
        InvalidInput,
    ),
    "move's ids without a span": (
        lambda line, bad: line.timeline.move(line.topic, bad, producer_group=line.group),
        (["waits"], [], "waits"),
        InvalidInput,
    ),
    "move's ids": (
        lambda line, bad: line.timeline.move(line.topic, bad, after=MINUTE, producer_group=line.group),
        (["waits", "available", "waits"],),
        InvalidMessage,
    ),
    "count's beginning": (lambda line, bad: line.timeline.count(line.topic, bad), (*MOMENTS, None), InvalidMessage),
    "count's end": (lambda line, bad: line.timeline.count(line.topic, 0, bad), (*MOMENTS, None), InvalidMessage),
    "load's end": (lambda line, bad: line.timeline.load(line.topic, to=bad), (*MOMENTS, None), InvalidMessage),
    "load of the past": (lambda line, off: line.timeline.load(line.topic, to=line.now + off), (0, -1), InvalidInput),
    "lease's duration": (lambda line, bad: line.timeline.lease(line.topic, "w", duration=bad), SPANS, InvalidRules),
    "lease_one's duration": (
        lambda line, bad: line.timeline.lease_one(line.topic, "available", 1, "w", duration=bad),
        SPANS,
        InvalidRules,
    ),
    "upcoming's span": (
        lambda line, bad: line.timeline.upcoming(line.topic, "w", within=bad),
        (timedelta(-1), timedelta(days=40_000), 5, None),
        InvalidRules,
    ),
    "lease's buckets": (
        lambda line, bad: line.timeline.lease(line.topic, "w", buckets=bad),
        (range(17), range(-1, 4), range(0, 8, 2), range(8, 4), [1, 2], 5, "0-5"),
        InvalidInput,
    ),
    "my_messages' after": (
        lambda line, bad: line.timeline.my_messages(line.group, after=bad),
        ("", "waits", 5, b"", ("a",), "_" + "z" * 13 + "00"),
        InvalidInput,
    ),
    "cancel's ids": (
        lambda line, bad: line.timeline.cancel(line.topic, bad, producer_group=line.group),
        ("waits", ""),
        InvalidInput,
    ),
    "create's body": (
        lambda line, bad: line.timeline.create(line.topic, [NewMessage(id="a"), NewMessage(bad)], producer_group="g"),
        ("text", None, 5, bytes(LARGEST_BODY + 1), bytearray(b"x")),
        InvalidMessage,
    ),
    "create's priority": (
        lambda line, bad: line.timeline.create(line.topic, [NewMessage(priority=bad)], producer_group="g"),
        (1_001, -1_001, 1.0, True, None, "high"),
        InvalidMessage,
    ),
    "create's messages": (
        lambda line, bad: line.timeline.create(line.topic, bad, producer_group="g"),
        (["text"], "text", [None], [5], {"a": 1}, [NewMessage(id="a"), NewMessage(id="a")]),
        InvalidMessage,
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_is_refused(held: tuple[Line, Lease], what: str) -> None:
    call, values, error = BAD[what]
    assert_refused(held[0], partial(call, held[0]), values, error)


@pytest.mark.parametrize("verb", ["extend", "release", "done"])
def test_what_is_no_lease_is_malformed(held: tuple[Line, Lease], verb: str) -> None:
    line, lease = held
    values = ("text", [lease, None], [lease, "text"], tuple(lease), [tuple(lease)], [line.timeline.my_leases("w")])
    assert_refused(line, getattr(line.timeline, verb), values, MalformedLease)


def test_read_takes_a_lease_or_a_producer_group(held: tuple[Line, Lease]) -> None:
    line, lease = held
    values = ("text", tuple(lease), 5)
    assert_refused(line, lambda bad: line.timeline.read(line.topic, "leased", lease=bad), values, MalformedLease)


def test_a_duration_or_a_moment_that_cannot_be_is_refused(held: tuple[Line, Lease]) -> None:
    line, lease = held
    assert_refused(line, lambda bad: line.timeline.extend(lease, bad), SPANS, InvalidRules)
    assert_refused(line, lambda bad: line.timeline.release(lease, bad), (*MOMENTS, ""), InvalidMessage)
    assert_refused(line, lambda bad: line.timeline.release(lease, after=bad), AFTERS, InvalidMessage)
    assert_refused(line, lambda at: line.timeline.release(lease, at, after=MINUTE), (0, line.now), InvalidMessage)


@pytest.mark.parametrize("name", ["live_for", "max_drift"])
@pytest.mark.parametrize("bad", [timedelta(0), timedelta(-1), 5, None], ids=str)
def test_a_timeline_with_rules_that_cannot_be_is_refused(store: Store, name: str, bad: Any) -> None:
    with pytest.raises(InvalidRules, match=name):
        Timeline(store, **{name: bad})


@pytest.mark.parametrize(
    "name",
    [
        "ünï ✓",
        "😀" * 255,
        "שלום \u202eabc\u202c",
        "'; DROP TABLE batchline_spots; --",
        '"quoted" `back` \\back\\slash\\',
        "%s %(name)s %% 100%",
        ":name ::bigint @variable ?",
        '{"a": [1, null]}',
        "trailing space ",
        "\u2028line\u2029paragraph\u00a0",
        "NULL",
        "a/b%2Fc",
        "{segment}",
        "x" * 255,
    ],
)
def test_a_strange_name_is_kept_to_the_character(timeline: Timeline, clock: HandClock, name: str) -> None:
    mark = new_id()[-8:]
    strange = f"{mark}{name}" if len(name) + 8 <= 255 else mark + name[8:]
    line = Line(timeline, clock, topic=strange, group=strange).make()
    assert timeline.topic(strange).name == strange
    line.create(name, "other")
    assert line.move(**{name: line.now - 1}) == ["moved"]
    (message,) = line.lease(strange, limit=1, duration=MINUTE)
    assert (message.id, message.producer_group, message.lease.consumer) == (name, strange, strange)
    assert [one.lease for one in timeline.my_leases(strange)] == [message.lease]
    timeline.release(message.lease, reason=name)
    assert [(one.consumer, one.reason) for one in line.read(name).history] == [(strange, name)]
    assert timeline.subscribe(strange, strange).consumer == strange
    assert [one.consumer for one in timeline.consumers(strange)] == [strange]
    assert line.cancel(name) == ["cancelled"]
