"""Stage 4: a message, and what users hold of it.

A message stands at a moment on its topic's line. Its state follows from `now`, and is never stored:

    at > now, no consumer    waiting       its owner may move or cancel it
    at ≤ now                 available     offered to consumers, whoever held it before
    at > now, a consumer     processing    leased: nobody else touches it

`at` is in whole milliseconds since the epoch (UTC). A lease moves it: its end is the message's next moment.
"""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple

from batchline.core.due_time import AT_ONCE, LATEST_MS, check_at, moment_ms, ms_of, resolve_after
from batchline.core.moment import moment_of
from batchline.core.name import check_name
from batchline.errors import InvalidInput, InvalidMessage, InvalidName, MalformedLease, shown

__all__ = [
    "BUNDLE_SIZE",
    "LARGEST_BODY",
    "LATEST_MS",
    "OUTCOMES_OF_SUCCESS",
    "AnyLease",
    "Attempt",
    "CheckedMessages",
    "Held",
    "Lease",
    "LeasedMessage",
    "LeasesPage",
    "Message",
    "MessagePage",
    "MessageState",
    "NewMessage",
    "Outcome",
    "OutcomeWord",
    "Upcoming",
    "as_lease",
    "bucket_of",
    "check_at",
    "check_body",
    "check_id",
    "check_leases",
    "check_messages",
    "lease_text",
    "leases_cursor",
    "made_id",
    "made_ids",
    "made_place",
    "moment_ms",
    "ms_of",
    "read_lease",
    "read_leases_cursor",
    "state_of",
]

LARGEST_BODY: Final = 1 << 20
HIGHEST_PRIORITY: Final = 1_000
#: Messages that one row keeps together.
BUNDLE_SIZE: Final = 64
ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
DIGITS: Final = {letter: digit for digit, letter in enumerate(ALPHABET)}
MADE_DIGITS: Final = 13
MADE_LENGTH: Final = 1 + MADE_DIGITS + 2
#: The golden part of 32 bits: its multiples, however many, lie evenly between 0 and all of them.
GOLDEN: Final = 2_654_435_769
PLACES: Final = [f"{place:02d}" for place in range(BUNDLE_SIZE)]

MessageState = Literal["waiting", "available", "processing"]
OutcomeWord = Literal[
    "created",
    "exists",
    "conflict",
    "too_far",
    "limited",
    "moved",
    "cancelled",
    "leased",
    "unknown",
    "foreign",
    "extended",
    "released",
    "done",
    "lost",
]
#: What says that a message now is as the call wanted it; `leased` is that for a lease alone.
OUTCOMES_OF_SUCCESS: Final = frozenset(("created", "exists", "moved", "cancelled", "extended", "released", "done"))


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message that a producer creates. Without an id one is made; without `at` or `after` it is due at once."""

    body: bytes = b""
    #: A moment with a time zone, or milliseconds since the epoch (UTC).
    at: datetime | int | None = None
    id: str | None = None
    #: Of messages at the same moment, the higher goes first.
    priority: int = 0
    #: In place of `at`: a span from now, by the clock of the broker that stores the message.
    after: timedelta | None = None


class CheckedMessages(NamedTuple):
    """New messages whose parts are as they should be, by columns."""

    #: An id that is to be made is empty.
    ids: list[str]
    at_ms: list[int]
    bodies: list[bytes]
    #: The negative of their priorities: the smaller goes first.
    turns: list[int]

    def part(self, begin: int, end: int) -> "CheckedMessages":
        """Those from one index on, up to before another."""
        cut = slice(begin, end)
        return CheckedMessages(self.ids[cut], self.at_ms[cut], self.bodies[cut], self.turns[cut])

    def chosen(self, places: Sequence[int]) -> "CheckedMessages":
        """Return those at some indexes."""
        ids, at_ms, bodies, turns = self
        rows = [(ids[place], at_ms[place], bodies[place], turns[place]) for place in places]
        return CheckedMessages(*map(list, zip(*rows, strict=True))) if rows else CheckedMessages([], [], [], [])


class Lease(NamedTuple):
    """The right to a message, until its end: a token. It belongs to one version; every change makes it void."""

    topic: str
    id: str
    version: int
    consumer: str
    #: When it ends, unless it is extended: milliseconds since the epoch.
    until_ms: int
    #: Where the message is kept: its bundle, the spot of the lease, and its place in the bundle.
    bundle: int
    spot: int
    place: int

    @property
    def until(self) -> datetime:
        """When it ends, unless it is extended."""
        return moment_of(self.until_ms * 1_000)

    @property
    def message_key(self) -> tuple[int, int]:
        """Bundle and place, which no two messages share; an id can name several, one after the other."""
        return self.bundle, self.place

    def is_expired(self, now: datetime | int) -> bool:
        """Return whether it has ended at a moment, unless it was extended: true from `until` on."""
        return check_at("now", now, up=False) >= self.until_ms


class Attempt(NamedTuple):
    """A lease that came to nothing."""

    attempt: int
    consumer: str
    #: "released" by the consumer, or "lost": it ran out.
    ending: str
    ended_ms: int
    reason: str


class Held(NamedTuple):
    """What messages share that are leased together: kept once, however many they are."""

    topic: str
    version: int
    consumer: str
    until_ms: int
    bundle: int
    spot: int
    attempts: int
    producer_group: str
    at_ms: int
    #: Of all messages of the bundle, by place.
    ids: Sequence[str]
    bodies: Sequence[bytes]


class LeasedMessage(NamedTuple):
    """A message in the hands of a consumer."""

    held: Held
    place: int

    @property
    def id(self) -> str:
        """Its id."""
        return self.held.ids[self.place]

    @property
    def body(self) -> bytes:
        """What it says."""
        return self.held.bodies[self.place]

    @property
    def lease(self) -> Lease:
        """The right to it."""
        held, place = self
        return Lease(held[0], held.ids[place], *held[1:6], place)

    @property
    def attempts(self) -> int:
        """How many times it was leased, this time included."""
        return self.held.attempts

    @property
    def producer_group(self) -> str:
        """Its owner."""
        return self.held.producer_group

    @property
    def at_ms(self) -> int:
        """The moment at which it was due; of one that `my_leases` gives back, the end of its lease."""
        return self.held.at_ms

    @property
    def at(self) -> datetime:
        """That moment as a time."""
        return moment_of(self.at_ms * 1_000)

    def __repr__(self) -> str:
        return f"LeasedMessage(id={self.id!r}, body={self.body[:40]!r}, attempts={self.attempts}, lease={self.lease!r})"


#: A lease, by itself or with its message.
AnyLease = Lease | LeasedMessage


class Upcoming(NamedTuple):
    """A message that will be due: to be leased at its moment, if it still has this version then."""

    id: str
    version: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class Message:
    """A message as its owner, or who holds its lease, may read it."""

    topic: str
    id: str
    body: bytes
    state: MessageState
    at: datetime
    producer_group: str
    #: Who holds the lease, if it is active.
    consumer: str | None
    version: int
    attempts: int
    priority: int
    bucket: int
    #: Leases that came to nothing, the oldest first; from the topic it came from as well.
    history: tuple[Attempt, ...] = ()


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Some messages, and where the next page begins; None if this is the last."""

    messages: tuple[Message, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class LeasesPage:
    """Messages that a consumer has leased, and where the next page begins; None if this is the last."""

    messages: tuple[LeasedMessage, ...]
    next: str | None


class Outcome(NamedTuple):
    """What became of one message of a call."""

    id: str
    outcome: OutcomeWord
    #: The lease that holds from now on, after it was extended or taken.
    lease: Lease | None = None
    #: More of the reason, for people.
    reason: str = ""

    @property
    def ok(self) -> bool:
        """Whether the message now is as the call wanted it."""
        return self.outcome in OUTCOMES_OF_SUCCESS or (self.outcome == "leased" and self.lease is not None)


def state_of(at_ms: int, consumer: str | None, now_ms: int) -> MessageState:
    """The state that follows from `now`."""
    if at_ms <= now_ms:
        return "available"
    return "waiting" if consumer is None else "processing"


# --- new messages -----------------------------------------------------------------------------------------------------


def check_messages(messages: Iterable[NewMessage | bytes], now_us: int | None) -> CheckedMessages:
    """Messages, all of them as they should be; bytes alone are the body of one that is due at once.

    Without `now_us`, in a client, spans are left for the broker to resolve: see `check_due`.
    """
    if isinstance(messages, bytes | str | NewMessage):
        raise InvalidMessage(f"expected a list of messages, got {shown(messages)}")
    given = list(messages)
    count, now_ms = len(given), AT_ONCE if now_us is None else now_us // 1_000
    bodies = [message for message in given if isinstance(message, bytes)]
    if len(bodies) == count:  # the shortest form has the shortest way
        checked = CheckedMessages([""] * count, [now_ms] * count, bodies, [0] * count)
    else:
        checked = CheckedMessages([], [], [], [])
        for message in given:
            _check_message(NewMessage(message) if isinstance(message, bytes) else message, now_us, now_ms, checked)
    if count and max(map(len, checked.bodies)) > LARGEST_BODY:
        check_body(max(checked.bodies, key=len))
    chosen = [id for id in checked.ids if id]
    if len(set(chosen)) < len(chosen):
        twice = next(id for id in chosen if chosen.count(id) > 1)
        raise InvalidMessage(f"the id {twice!r} stands twice in one call")
    return checked


def _check_message(message: object, now_us: int | None, now_ms: int, checked: CheckedMessages) -> None:
    if not isinstance(message, NewMessage):
        raise InvalidMessage(f"expected NewMessage(body=…, at=…, id=…) or bytes, got {shown(message)}")
    body, at, id, priority, after = message.body, message.at, message.id, message.priority, message.after
    if type(body) is not bytes:
        check_body(body)
    checked.ids.append("" if id is None else check_id(id))
    if after is not None:
        checked.at_ms.append(resolve_after("the moment of a message", at, after, now_us))
    else:
        checked.at_ms.append(now_ms if at is None else check_at("the moment of a message", at))
    checked.bodies.append(body)
    checked.turns.append(-check_priority(priority) if priority != 0 else 0)


def check_body(body: object) -> None:
    """A body is bytes, and not too many."""
    if not isinstance(body, bytes):
        raise InvalidMessage(f"the body of a message must be bytes, got {shown(body)} ({type(body).__name__})")
    if len(body) > LARGEST_BODY:
        raise InvalidMessage(f"the body of a message must have at most {LARGEST_BODY:,} bytes, got {len(body):,}")


def check_priority(priority: object) -> int:
    """A priority is a number, and not too high."""
    if not isinstance(priority, int) or isinstance(priority, bool) or abs(priority) > HIGHEST_PRIORITY:
        raise InvalidMessage(
            f"priority must be a whole number from -{HIGHEST_PRIORITY} to {HIGHEST_PRIORITY}, got {shown(priority)}"
        )
    return priority


# --- ids --------------------------------------------------------------------------------------------------------------


def check_id(id: object) -> str:
    """The id of a message, if every store can keep it."""
    return check_name("the id of a message", id)


def made_ids(bundle: int, count: int) -> list[str]:
    """Ids made by us: they say where the message is kept, and sort by when it was made."""
    letters = [ALPHABET[bundle >> shift & 31] for shift in range(5 * (MADE_DIGITS - 1), -1, -5)]
    beginning = f"_{''.join(letters)}"
    return [beginning + place for place in PLACES[:count]]


def made_id(bundle: int, place: int) -> str:
    """The id of one message of a bundle."""
    return made_ids(bundle, place + 1)[place]


def made_place(id: str) -> tuple[int, int] | None:
    """The bundle and the place that an id made by us names; None for ids that were chosen."""
    if len(id) != MADE_LENGTH or id[0] != "_" or not id[-2:].isdecimal() or not id[-2:].isascii():
        return None
    bundle = 0
    for letter in id[1:-2]:
        digit = DIGITS.get(letter)
        if digit is None:
            return None
        bundle = bundle << 5 | digit
    place = int(id[-2:])
    return (bundle, place) if bundle < 1 << 63 and place < BUNDLE_SIZE else None


def bucket_of(id: str, buckets: int) -> int:
    """The bucket of a message, by a hash that never changes; those made together share one.

    Of an id that begins with something in braces, `{order-7}paid`, only that counts: such messages share one, too.
    Those of lanes, `{import/3}…`, are spread evenly, so that consumers who share the buckets share the lanes.
    """
    end = id.find("}") if id[0] == "{" else -1
    if end <= 1:
        hashed = id[:-2] if made_place(id) is not None else id
        return zlib.crc32(hashed.encode()) % buckets
    name, _, lane = id[1:end].rpartition("/")
    if not (name and lane.isdecimal() and lane.isascii() and len(lane) < MADE_DIGITS):
        return zlib.crc32(id[1:end].encode()) % buckets
    spread = (zlib.crc32(name.encode()) + int(lane) * GOLDEN) % (1 << 32)
    return spread * buckets >> 32


# --- tokens -----------------------------------------------------------------------------------------------------------


def lease_text(lease: Lease) -> str:
    """A lease as a text, to be handed to another process."""
    numbers = (lease.bundle, lease.spot, lease.place, lease.version, lease.until_ms)
    return "/".join((*(f"{number:x}" for number in numbers), *map(_quoted, lease[:2]), _quoted(lease.consumer)))


def read_lease(text: object) -> Lease:
    """The lease of a text that `lease_text` made."""
    parts = text.split("/") if isinstance(text, str) else []
    try:
        bundle, spot, place, version, until_ms = (int(part, 16) for part in parts[:5])
        topic, id, consumer = (check_name("a name in a lease", _unquoted(part)) for part in parts[5:])
    except (ValueError, InvalidName) as error:
        raise MalformedLease(f"expected a lease as it was given out, got {shown(text)}") from error
    numbers = max(bundle, spot, until_ms) < 1 << 63 and min(bundle, spot, until_ms, version, place) >= 0
    if not numbers or place >= BUNDLE_SIZE or version >= 1 << 31:
        raise MalformedLease(f"expected a lease as it was given out, got {shown(text)}")
    return Lease(topic, id, version, consumer, until_ms, bundle, spot, place)


def leases_cursor(place: tuple[str, int]) -> str:
    """Return the `next` of a page of leases, by the topic and the bundle that it ends with."""
    topic, bundle = place
    return f"{bundle + 1:x}/{topic}"


def read_leases_cursor(cursor: object) -> tuple[str, int]:
    """Return the topic and the bundle that the `next` of a page of leases names; those before all for None."""
    if cursor is None:
        return "", -1
    bundle, _, topic = cursor.partition("/") if isinstance(cursor, str) else ("", "", "")
    try:
        return check_name("the topic of a cursor", topic), _whole(bundle) - 1
    except (ValueError, InvalidName) as error:
        raise InvalidInput(f"after must be the next of the page before, got {shown(cursor)}") from error


def _whole(digits: str) -> int:
    number = int(digits, 16) if len(digits) <= 16 and digits.isalnum() and digits.isascii() else -1
    if not 0 <= number < 1 << 63:
        raise ValueError(digits)
    return number


def check_leases(leases: "AnyLease | Iterable[AnyLease]") -> list[AnyLease]:
    """One lease or many, or the messages they are on, as a list."""
    found = [leases] if isinstance(leases, Lease | LeasedMessage) else list(leases)
    for lease in found:
        if not isinstance(lease, Lease | LeasedMessage):
            raise MalformedLease(f"expected a lease as it was given out, got {shown(lease)}")
    return found


def as_lease(lease: AnyLease) -> Lease:
    """The lease by itself."""
    return lease.lease if isinstance(lease, LeasedMessage) else lease


def _quoted(text: str) -> str:
    return text.replace("%", "%25").replace("/", "%2F")


def _unquoted(text: str) -> str:
    return text.replace("%2F", "/").replace("%25", "%")
