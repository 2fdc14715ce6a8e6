"""What Spark is told of a timeline: options, which are texts, checked before anything runs."""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Final, NamedTuple, TypeVar

from batchline.core.moment import span_of
from batchline.core.name import check_name
from batchline.core.spot import SEGMENTS
from batchline.errors import InvalidInput, check_choice, did_you_mean, shown

__all__ = ["MOST_LEASED", "ReadOptions", "WriteOptions", "read_options", "write_options"]

T = TypeVar("T")
#: Messages that one partition leases: a task holds them, and one message keeps the note of them.
MOST_LEASED: Final = 50_000
MOST_SEEN: Final = 10_000
MODES: Final = ("lease", "peek")
READ: Final = ("store", "topic", "mode", "consumer", "read", "partitions", "limit", "duration", "within")
WRITE: Final = ("store", "topic", "producer_group", "allow_made_ids", "on_conflict")
#: What Spark itself hands over to a sink.
OF_STREAMS: Final = ("checkpointlocation", "queryname")


class ReadOptions(NamedTuple):
    """What is read, and how."""

    store: str
    topic: str
    mode: str
    consumer: str
    #: What the read is called; one that has no name of its own is given one.
    read: str | None
    partitions: int
    #: Messages per partition.
    limit: int
    #: How long the leases are; None for what the topic says.
    duration: timedelta | None
    within: timedelta


class WriteOptions(NamedTuple):
    """Where rows become messages."""

    store: str
    topic: str
    producer_group: str
    allow_made_ids: bool
    #: Whether a message that is there under the same id stays, or ends the job.
    keep: bool


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """The options of a read."""
    _check_known(options, READ)
    mode = options.get("mode", "lease")
    check_choice("option mode", mode, MODES, InvalidInput)
    most = MOST_LEASED if mode == "lease" else MOST_SEEN
    read = options.get("read")
    return ReadOptions(
        store=_needed(options, "store"),
        topic=check_name("option topic", _needed(options, "topic")),
        mode=mode,
        consumer=check_name("option consumer", options.get("consumer", "spark")),
        read=None if read is None else check_name("option read", read),
        partitions=_number(options, "partitions", 4, SEGMENTS),
        limit=_number(options, "limit", MOST_SEEN, most),
        duration=_parsed(options, "duration", span_of, None),
        within=_parsed(options, "within", span_of, None) or timedelta(0),
    )


def write_options(options: Mapping[str, str], *, streaming: bool) -> WriteOptions:
    """The options of a write."""
    _check_known(options, (*WRITE, *OF_STREAMS) if streaming else WRITE)
    on_conflict = options.get("on_conflict", "fail")
    check_choice("option on_conflict", on_conflict, ("fail", "keep"), InvalidInput)
    made = options.get("allow_made_ids", "false").lower()
    check_choice("option allow_made_ids", made, ("true", "false"), InvalidInput)
    return WriteOptions(
        store=_needed(options, "store"),
        topic=check_name("option topic", _needed(options, "topic")),
        producer_group=check_name("option producer_group", _needed(options, "producer_group")),
        allow_made_ids=made == "true",
        keep=on_conflict == "keep",
    )


def _check_known(options: Iterable[str], known: tuple[str, ...]) -> None:
    for name in options:
        if name not in known:
            words = ", ".join(word for word in known if word not in OF_STREAMS)
            raise InvalidInput(f"there is no option {name!r}; there are {words}{did_you_mean(name, known)}")


def _needed(options: Mapping[str, str], name: str) -> str:
    if name not in options:
        raise InvalidInput(f"batchline_timeline needs the option {name!r}")
    return options[name]


def _parsed(options: Mapping[str, str], name: str, parse: Callable[[str], T], default: T | None) -> T | None:
    if name not in options:
        return default
    try:
        return parse(options[name])
    except ValueError as error:
        raise InvalidInput(f"option {name}: {error}") from error


def _number(options: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = options.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and 1 <= int(text) <= most):
        raise InvalidInput(f"option {name} must be a whole number from 1 to {most:,}, got {shown(text)}")
    return int(text)
