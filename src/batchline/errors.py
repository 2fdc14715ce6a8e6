"""Everything Batchline raises, under one root.

    BatchlineError
    ├── InvalidRules          rules that contradict themselves, found when they are built
    ├── InvalidInput          data that cannot be what it claims to be; nothing was changed
    │   ├── InvalidMeasurement    one measurement: a naive time, no key, a negative size
    │   ├── InvalidTable          a table: a missing column, a wrong type, a null
    │   ├── InvalidFile           a file: not there, an unknown format, not readable as what it is named
    │   ├── InvalidName           a name we cannot keep: empty, too long, with control characters
    │   ├── InvalidCount          a number of items that cannot be
    │   ├── InvalidMessage        a message we cannot keep: a naive time, a body that is too large
    │   ├── InvalidOperation      an operation we cannot send: a negative cost, a capacity nobody knows
    │   ├── InvalidStore          an address that names no store
    │   ├── InvalidSink           an address that names no sink, an option it does not have, a table it cannot fill
    │   ├── InvalidConfiguration  a value of batchline.toml or of the environment: an unknown key, a wrong type
    │   ├── InvalidPipeline       a pipeline whose description is not one: an unknown key, a part that is missing
    │   ├── MalformedItem         neither an item id nor a group with a mask
    │   └── MalformedLease        not a lease as it was given out
    ├── InvalidSnapshot       a snapshot that is damaged, or was taken under other rules
    ├── InvalidCheckpoint     the checkpoint of a stream that other rules, lanes or columns made
    ├── FanoutRefused         a fanout, or an item of one, with which this cannot be done; nothing was changed for it
    │   ├── UnknownFanout         there is none of this id
    │   ├── FanoutExists          there is one of this id, opened otherwise
    │   ├── FanoutSealed          no item can be added any more
    │   ├── FanoutExpired         it was given up; what was known of its items is gone
    │   ├── UnknownGroup          the fanout was never given this group
    │   ├── ForeignGroup          the group belongs to another fanout
    │   ├── UnknownItem           the group has fewer items
    │   └── ChildItem             the item stands for a child, and is done when that is
    ├── TopicRefused          a topic, or a message on it, with which this cannot be done; nothing was changed
    │   ├── UnknownTopic          there is none of this name
    │   ├── TopicExists           there is one of this name, with other rules
    │   ├── TopicDeleted          it is being deleted, and takes nothing any more
    │   ├── UnknownMessage        there is none of this id on the topic
    │   ├── ForeignMessage        it is neither yours nor leased to you
    │   ├── CallTaken             another call has this number: take another
    │   └── RefusedMessage        rows that a topic does not take as messages; the others are on it
    ├── OperationRefused      operations that the dispatcher does not take; none of them was enqueued
    │   ├── TooExpensive          it costs more than the limiter can ever give
    │   ├── TooManyAttempts       its watcher allows no further one
    │   ├── DuplicateOperation    it is already enqueued or in flight
    │   ├── BufferFull            there is no room, and one does not wait
    │   └── DispatcherStopped     it takes nothing any more; `operations` are those that were left out
    ├── DeliveryError         raised by a sink: a parcel, or some, did not arrive
    │   ├── Undelivered           not this time: it is sent again, later each time
    │   │   └── SinkClosed            nor any other: nobody reads what this sink writes, so the worker stops
    │   ├── RefusedParcel         never: the receiver does not want it, whenever it is sent
    │   └── PartlyDelivered       some of its measurements; the others are refused, or sent again
    ├── DeadlinePassed        what an operation died of that could not be sent in time
    ├── Throttled             raised by a callback: the receiver wants us to slow down
    ├── ImproperOrder         provision, start and stop, in another order than that
    ├── ResourceMismatch      a shared capacity that others divide otherwise
    ├── ConsumerReplaced      another process was started as this consumer: this one takes nothing more
    ├── Degraded              this broker's clock is off: it answers, and changes nothing
    ├── StoreError            what keeps state, and its troubles
    │   ├── StoreUnavailable      it does not answer; the call can be repeated, unless an estimate counts
    │   ├── LandingUnavailable    a landing that cannot be written: full, in use; nothing has landed, try again
    │   ├── SchemaMismatch        its tables are of another version than this program's
    │   └── ForkedStore           the process was forked while a call was inside it: fork between calls
    ├── ServiceRefused        the service does not do what was asked, or is not there; nothing was changed
    │   ├── Unauthorized          no token, or one that is not valid: unknown, wrong, expired and revoked are told alike
    │   ├── Forbidden             a valid token without the right to do this
    │   ├── UnknownToken          there is none of this id
    │   ├── UnknownKey            no measurement of this key is in the tables of the pipeline, or there are no tables
    │   ├── UnknownRoute          there is nothing under this address
    │   ├── WrongMethod           there is, but it is asked in another way
    │   ├── WrongContent          a request that is not what it should be: no JSON, an unknown field
    │   ├── WrongMedia            a request with another content type than what is asked for
    │   ├── TooSlow               a request that took too long to arrive
    │   ├── TooLarge              more than one request may hold: divide it
    │   ├── AddressTooLong        a request whose address is longer than the service reads
    │   ├── HeadTooLarge          a request with more headers, or larger ones, than the service reads
    │   ├── TooManyFailures       too many wrong tokens came from this address; `retry_after` says when to try again
    │   ├── NotReady              it cannot do its work now: the database, its schema or the clock is not right
    │   ├── Overloaded            there is too much to do now; try later, `retry_after` if it is said
    │   └── ServiceUnavailable    it could not be reached; the call can be repeated
    └── MissingExtra          a part that is not installed

A message says what was expected and what came.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

__all__ = [
    "BatchlineError",
    "BufferFull",
    "CallTaken",
    "ChildItem",
    "ConsumerReplaced",
    "DeadlinePassed",
    "Degraded",
    "DeliveryError",
    "DispatcherStopped",
    "DuplicateOperation",
    "FanoutExists",
    "FanoutExpired",
    "FanoutRefused",
    "FanoutSealed",
    "Forbidden",
    "ForeignGroup",
    "ForeignMessage",
    "ForkedStore",
    "ImproperOrder",
    "InvalidCheckpoint",
    "InvalidConfiguration",
    "InvalidCount",
    "InvalidFile",
    "InvalidInput",
    "InvalidMeasurement",
    "InvalidMessage",
    "InvalidName",
    "InvalidOperation",
    "InvalidPipeline",
    "InvalidRules",
    "InvalidSink",
    "InvalidSnapshot",
    "InvalidStore",
    "InvalidTable",
    "LandingUnavailable",
    "MalformedItem",
    "MalformedLease",
    "MissingExtra",
    "NotReady",
    "OperationRefused",
    "Overloaded",
    "PartlyDelivered",
    "RefusedMessage",
    "RefusedParcel",
    "ResourceMismatch",
    "SchemaMismatch",
    "ServiceRefused",
    "ServiceUnavailable",
    "SinkClosed",
    "StoreError",
    "StoreUnavailable",
    "Throttled",
    "TooExpensive",
    "TooLarge",
    "TooManyAttempts",
    "TooSlow",
    "TopicDeleted",
    "TopicExists",
    "TopicRefused",
    "Unauthorized",
    "Undelivered",
    "UnknownFanout",
    "UnknownGroup",
    "UnknownItem",
    "UnknownKey",
    "UnknownMessage",
    "UnknownRoute",
    "UnknownToken",
    "UnknownTopic",
    "WrongContent",
    "WrongMedia",
    "WrongMethod",
    "check_choice",
    "did_you_mean",
    "shown",
]

#: Most characters of a value that a message repeats.
LONGEST_SHOWN: Final = 300


class BatchlineError(Exception):
    """Something Batchline refuses to do; the message says what to change."""


class InvalidRules(BatchlineError):
    """The rules contradict themselves; correct the value named."""


class InvalidInput(BatchlineError):
    """The input is not what it should be; nothing was changed."""


class InvalidMeasurement(InvalidInput):
    """A measurement is not one; nothing was changed."""


class InvalidTable(InvalidInput):
    """A table lacks what the rule needs; nothing was changed."""


class InvalidFile(InvalidInput):
    """A file cannot be read as measurements; nothing was changed."""


class InvalidName(InvalidInput):
    """A name cannot be kept as it is; nothing was changed."""


class InvalidCount(InvalidInput):
    """A number of items that cannot be; nothing was changed."""


class InvalidStore(InvalidInput):
    """An address names no store; nothing was opened."""


class MalformedItem(InvalidInput):
    """Neither an item id nor a group with a mask; the rest of the call counts."""


class InvalidMessage(InvalidInput):
    """A message cannot be kept as it is; nothing was changed."""


class InvalidOperation(InvalidInput):
    """An operation cannot be sent as it is; nothing was changed."""


class InvalidConfiguration(InvalidInput):
    """A configuration says what no command has, or not as it has it; nothing was started."""


class InvalidPipeline(InvalidInput):
    """The description of a pipeline is not one; nothing was started."""


class InvalidSink(InvalidInput):
    """An address names no sink, or not one as its options say; nothing was opened."""


class MalformedLease(InvalidInput):
    """Not a lease as it was given out; nothing was changed."""


class InvalidSnapshot(BatchlineError):
    """A snapshot is damaged or belongs to other rules; nothing was restored."""


class InvalidCheckpoint(BatchlineError):
    """A checkpoint belongs to another stream; nothing was read."""


class FanoutRefused(BatchlineError):
    """This cannot be done with the fanout or item named; nothing was changed for it."""


class UnknownFanout(FanoutRefused):
    """There is no fanout of this id; open it first."""


class FanoutExists(FanoutRefused):
    """There is a fanout of this id, opened with something else; choose another id."""


class FanoutSealed(FanoutRefused):
    """The fanout is sealed: no item can be added any more."""


class FanoutExpired(FanoutRefused):
    """The fanout was without activity for too long and was given up."""


class UnknownGroup(FanoutRefused):
    """The fanout was never given a group of this id."""


class ForeignGroup(FanoutRefused):
    """The group belongs to another fanout than the item id says."""


class UnknownItem(FanoutRefused):
    """The group has fewer items than the index says."""


class ChildItem(FanoutRefused):
    """The item stands for a child fanout, and is done when that is complete."""


class TopicRefused(BatchlineError):
    """This cannot be done with the topic or message named; nothing was changed."""


class UnknownTopic(TopicRefused):
    """There is no topic of this name; create it first."""


class TopicExists(TopicRefused):
    """There is a topic of this name with other rules; update it, or choose another name."""


class TopicDeleted(TopicRefused):
    """The topic is being deleted; its name is free again when its messages are gone."""


class UnknownMessage(TopicRefused):
    """There is no message of this id on the topic."""


class ForeignMessage(TopicRefused):
    """The message is neither yours nor leased to you."""


class CallTaken(TopicRefused):
    """Another call has the number of this one: take another."""


class RefusedMessage(TopicRefused):
    """The topic does not take these messages; others that were written with them are on it."""


class OperationRefused(BatchlineError):
    """The dispatcher does not take these operations; none of them was enqueued."""


class TooExpensive(OperationRefused):
    """The operation costs more than the limiter can ever give: divide it, or raise the capacity."""


class TooManyAttempts(OperationRefused):
    """The operation was handed out as often as its watcher allows."""


class DuplicateOperation(OperationRefused):
    """The operation is already enqueued or in flight: enqueue it again after its batch has ended, or make a new one."""


class BufferFull(OperationRefused):
    """The buffer has no room for these operations now; try later, or wait with `enqueue`."""


class DispatcherStopped(OperationRefused):
    """The dispatcher was stopped: it takes nothing any more."""

    def __init__(self, message: str, operations: Sequence[Any] = ()):
        super().__init__(message)
        #: Those that were not enqueued: of many, some may have been before it was stopped.
        self.operations = list(operations)


class DeliveryError(BatchlineError):
    """A sink could not deliver."""


class Undelivered(DeliveryError):
    """The parcel did not arrive this time; it is sent again, later each time."""


class SinkClosed(Undelivered):
    """Nobody reads what the sink writes: nothing more can be delivered through it, and what it was given stays."""


class RefusedParcel(DeliveryError):
    """The receiver does not take the parcel, whenever it is sent; it goes to the dead letters."""


class PartlyDelivered(DeliveryError):
    """Some measurements of a parcel arrived: of the others it tells, by their places, why they did not."""

    def __init__(self, *, refused: Mapping[int, str] | None = None, again: Mapping[int, str] | None = None):
        #: Measurements that the receiver never takes; and those that are to be sent again.
        self.refused, self.again = dict(refused or {}), dict(again or {})
        parts = [
            f"{len(some):,} {how}, the first because {next(iter(some.values()))}"
            for some, how in ((self.refused, "refused"), (self.again, "to be sent again"))
            if some
        ]
        super().__init__(f"delivered in part: {'; '.join(parts)}")


class DeadlinePassed(BatchlineError):
    """The operation could not be sent before its deadline."""


class Throttled(BatchlineError):
    """Raised by a callback when the receiver has too much to do: dispatching pauses, and the operations come again."""

    def __init__(self, message: str = "the receiver is throttling", *, retry_after: timedelta | None = None):
        super().__init__(message)
        if not isinstance(retry_after, timedelta | None):
            raise InvalidInput(f"retry_after must be a timedelta, got {shown(retry_after)}")
        #: How long the receiver wants to be left alone, if it has said so.
        self.retry_after = retry_after


class ImproperOrder(BatchlineError):
    """What was called must be called in another order."""


class ResourceMismatch(BatchlineError):
    """A shared capacity is divided otherwise there than here; give every instance the same shared and factor."""


class ConsumerReplaced(BatchlineError):
    """Another process was started as this consumer; give each process a name of its own."""


class Degraded(BatchlineError):
    """This broker's clock is off: it answers reads, and changes nothing until its clock is right."""


class StoreError(BatchlineError):
    """A store could not do what was asked."""


class StoreUnavailable(StoreError):
    """The store does not answer; the call can be repeated without harm, except where an estimate is counted."""


class LandingUnavailable(StoreError):
    """A landing cannot be written to now; nothing of the call has landed, and it can be repeated."""


class SchemaMismatch(StoreError):
    """The store's tables are of another version than this program's."""


class ForkedStore(StoreError):
    """This process was forked while a call of its parent was inside a store; start it anew, or fork between calls."""


class ServiceRefused(BatchlineError):
    """The service does not do what was asked; nothing was changed."""


class Unauthorized(ServiceRefused):
    """There is no token, or one that is not valid; get one by `batchline token create`."""


class Forbidden(ServiceRefused):
    """The token has no right to do this; nothing was changed."""


class UnknownKey(ServiceRefused):
    """No measurement of this key is in the tables of the pipeline."""


class UnknownToken(ServiceRefused):
    """There is no token of this id."""


class UnknownRoute(ServiceRefused):
    """There is nothing under this address."""


class WrongMethod(ServiceRefused):
    """What is under this address is asked in another way."""


class WrongContent(ServiceRefused):
    """The request is not what it should be."""


class WrongMedia(ServiceRefused):
    """The request has another content type than what is asked for."""


class TooSlow(ServiceRefused):
    """The request took too long to arrive."""


class TooLarge(ServiceRefused):
    """A request holds more than one may; divide it."""


class AddressTooLong(ServiceRefused):
    """The address of a request is longer than the service reads."""


class HeadTooLarge(ServiceRefused):
    """A request has more headers, or larger ones, than the service reads."""


class TooManyFailures(ServiceRefused):
    """Too many wrong tokens came from this address; try later, with a valid one."""

    def __init__(self, message: str, *, retry_after: timedelta | None = None):
        super().__init__(message)
        #: How long to wait before, if it is said.
        self.retry_after = retry_after


class NotReady(ServiceRefused):
    """The service cannot do its work now; the reasons are told."""


class Overloaded(ServiceRefused):
    """The service has too much to do now; try later."""

    def __init__(
        self, message: str = "there is too much to do now: try later", *, retry_after: timedelta | None = None
    ):
        super().__init__(message)
        #: How long to wait before, if it is said.
        self.retry_after = retry_after


class ServiceUnavailable(ServiceRefused):
    """The service could not be reached; the call can be repeated without harm."""


class MissingExtra(BatchlineError):
    """A part of Batchline is not installed; install the extra named."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: the known one it looks like, or nothing."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def check_choice(name: str, choice: object, known: tuple[str, ...], refused: type[BatchlineError]) -> None:
    """What is chosen is one of the known words, or refused by an error of that kind."""
    if choice not in known:
        words = ", ".join(map(repr, known))
        raise refused(f"{name} must be one of {words}, got {choice!r}{did_you_mean(str(choice), known)}")


def shown(value: object) -> str:
    """What came, as a message shows it: not too much of it, and whatever it is."""
    try:
        return repr(value)[:LONGEST_SHOWN]
    except ValueError:  # Python writes no number out that has thousands of digits
        return f"an {type(value).__name__} too long to show"
    except Exception:  # noqa: BLE001 - a faulty repr of a payload must not hide the error that shows it
        return f"a {type(value).__name__} that cannot be shown"
