"""`/v1/topics/{topic}/messages/lease` and what follows a lease: extend, release, done."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import timedelta
from functools import partial
from typing import Any, Final

from starlette.requests import ClientDisconnect
from starlette.responses import Response

from batchline.core.message import LARGEST_BODY, Lease, LeasedMessage, read_lease
from batchline.core.timeline_checks import LEASED_BYTES, MOST_LEASED, check_number
from batchline.errors import Forbidden, InvalidInput, TopicDeleted, UnknownTopic
from batchline.service.answering import LARGE, respond
from batchline.service.caller import Caller
from batchline.service.messages import MESSAGES
from batchline.service.operation import Call, Operation
from batchline.service.pump import Pump
from batchline.service.topics import TOPIC
from batchline.service.waiting import Wanted
from batchline.wire.form import Form, Name, Span, given_after, given_ms, given_span, ms_text, read_span
from batchline.wire.messages import (
    LONGEST_WAIT,
    ExtendForm,
    LeasedMessages,
    LeaseForm,
    LeaseOneForm,
    LeasesForm,
    Outcomes,
    ReleaseForm,
    UpcomingMessages,
    leased_messages,
    outcomes_form,
    upcoming_form,
)
from batchline.wire.topics import NextDue

__all__ = ["OPERATIONS", "checked_leases"]

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
#: More messages than these are encoded in a thread, however small they are.
MANY: Final = 256


class HeldQuery(Form):
    """Whose leases, on all topics or on one; and which page: `after` is the `next` of the page before."""

    consumer: Name
    topic: Name | None = None
    after: str | None = None
    #: Bytes of bodies that the page has at most, unless it is one message alone; up to 8 MiB, which is the default.
    max_bytes: int = LEASED_BYTES


class UpcomingQuery(Form):
    """Who looks ahead, how far, and for how many."""

    consumer: Name
    within: Span = "1s"
    limit: int = 100


class NextDueQuery(Form):
    """In whose buckets; without a consumer, in all of them."""

    consumer: Name | None = None


async def lease_messages(call: Call[LeaseForm]) -> LeasedMessages | Response:
    """Lease messages that are due, the oldest first; if there are none, wait for them if asked to."""
    form, wait = call.form, wait_of(call.form.wait)
    check_number("limit", form.limit, MOST_LEASED)
    max_bytes = LEASED_BYTES if form.max_bytes is None else form.max_bytes
    check_number("max_bytes", max_bytes, LEASED_BYTES)
    wanted = Wanted(
        call.caller.check_consumer(form.consumer),
        lambda: form.limit,
        duration=given_span("duration", form.duration),
        buckets=None if form.buckets is None else range(*form.buckets),
        check=partial(call.parts.check_token, call.caller.token_id),
        max_bytes=max_bytes,
        share=call.share,
    )
    await call.share.take(wanted.most_bytes(form.limit))
    found = await call.parts.in_thread(_lease_now, call, wanted)
    wanted.keep(found)
    if not found and wait:
        with call.parts.under_way.resting():
            pump, wait_s = call.parts.pumps.of(call.topic), wait.total_seconds()
            found = await while_connected(pump, wanted, wait_s, call.request.receive)
    if len(found) > MANY or sum(len(message.body) for message in found) > LARGE:
        return await call.parts.in_thread(_large_answer, found)
    return leased_messages(found)


def _large_answer(found: list[LeasedMessage]) -> Response:
    return respond(leased_messages(found), 200)


def _lease_now(call: Call[LeaseForm], wanted: Wanted) -> list[LeasedMessage]:
    return call.parts.timeline.lease(
        call.topic,
        wanted.consumer,
        limit=wanted.limit(),
        duration=wanted.duration,
        buckets=wanted.buckets,
        max_bytes=wanted.max_bytes,
    )


def wait_of(text: str | None) -> timedelta:
    """How long a request waits for messages, if it may."""
    wait = given_span("wait", text) or timedelta(0)
    if not timedelta(0) <= wait <= LONGEST_WAIT:
        raise InvalidInput(f"wait: expected at most {LONGEST_WAIT.total_seconds():g}s, got {text!r}: ask again then")
    return wait


async def while_connected(pump: Pump, wanted: Wanted, wait_s: float, receive: Receive) -> list[LeasedMessage]:
    """What comes for who waits; ClientDisconnect, and nothing stays leased, if nobody waits for it any more."""
    working, leaving = asyncio.ensure_future(pump.lease(wanted, wait_s)), asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        await _forsake(pump, working)
        raise
    finally:
        is_gone = leaving.done()
        leaving.cancel()
    if is_gone:
        await _forsake(pump, working)
        raise ClientDisconnect
    return working.result()


async def _forsake(pump: Pump, working: asyncio.Task[list[LeasedMessage]]) -> None:
    working.cancel()
    await asyncio.wait([working])
    if not working.cancelled() and working.exception() is None:
        pump.give_back(working.result())


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def lease_one(call: Call[LeaseOneForm]) -> LeasedMessages:
    """Lease one message that `upcoming` told of; none is answered if it is stale."""
    form = call.form
    duration = given_span("duration", form.duration)
    consumer = call.caller.check_consumer(form.consumer)
    found = call.parts.timeline.lease_one(call.topic, form.id, form.version, consumer, duration=duration)
    return leased_messages([] if found is None else [found])


def extend_leases(call: Call[ExtendForm]) -> Outcomes:
    """Hold messages for so long from now on; each outcome has the lease that is valid from then on."""
    duration = given_span("duration", call.form.duration)
    return outcomes_form(call.parts.timeline.extend(leases_of(call, call.form.leases), duration))


def release_leases(call: Call[ReleaseForm]) -> Outcomes:
    """Give messages back: they are due again at once, at a moment, or after a span."""
    at = given_ms("the moment of a release", call.form.at)
    after = given_after("the moment of a release", call.form.after_ms)
    leases = leases_of(call, call.form.leases)
    outcomes = call.parts.timeline.release(leases, at, after=after, reason=call.form.reason)
    call.parts.pumps.wake(call.topic)
    return outcomes_form(outcomes)


def finish_leases(call: Call[LeasesForm]) -> Outcomes:
    """Finish messages: they are gone. Repeating it is a success."""
    return outcomes_form(call.parts.timeline.done(leases_of(call, call.form.leases)))


def leases_of(call: Call[Form], texts: list[str]) -> list[Lease]:
    """The leases of texts: on the topic of the path, and of consumers in whose names the caller may lease."""
    return checked_leases(call.caller, call.topic, texts)


def checked_leases(caller: Caller, topic: str, texts: list[str]) -> list[Lease]:
    """The leases of texts: on a topic, and of consumers in whose names a caller may lease."""
    leases = [read_lease(text) for text in texts]
    for consumer in {lease.consumer for lease in leases}:
        caller.check_consumer(consumer)
    for other in {lease.topic for lease in leases} - {topic}:
        raise Forbidden(f"this address is for leases on topic {topic!r}, got one on {other!r}")
    return leases


def my_leases(call: Call[HeldQuery]) -> LeasedMessages:
    """List what a consumer has leased and not finished, without the leases of its live sessions, in pages."""
    consumer, topic = call.caller.check_consumer(call.form.consumer), call.form.topic
    if topic is not None:
        call.caller.check_topic(topic)
    check_number("max_bytes", call.form.max_bytes, LEASED_BYTES)
    page = call.parts.timeline.leases_page(consumer, topic=topic, after=call.form.after, max_bytes=call.form.max_bytes)
    return leased_messages([one for one in page.messages if _may_have(call, one.held.topic)], page.next)


def _may_have(call: Call[HeldQuery], topic: str) -> bool:
    return call.caller.may_see(topic) and not call.parts.internal.is_reserved(call.caller, topic)


def list_upcoming(call: Call[UpcomingQuery]) -> UpcomingMessages:
    """Messages in a consumer's buckets that are due by then, to be leased one by one."""
    consumer, within = call.caller.check_consumer(call.form.consumer), read_span("within", call.form.within)
    found = call.parts.timeline.upcoming(call.topic, consumer, within=within, limit=call.form.limit)
    return upcoming_form(found)


def next_due(call: Call[NextDueQuery]) -> NextDue:
    """When the next message in a consumer's buckets, or in all, is or was due."""
    consumer = call.form.consumer
    if consumer is not None:
        call.caller.check_consumer(consumer)
    at_ms = call.parts.timeline.next_due(call.topic, consumer)
    return NextDue(None if at_ms is None else ms_text(at_ms))


CHANGED: Final = (UnknownTopic, TopicDeleted)

OPERATIONS: Final = (
    Operation("POST", f"{MESSAGES}/lease", "consume", lease_messages, LeaseForm, LeasedMessages, refusals=CHANGED),
    Operation(
        "POST",
        f"{MESSAGES}/lease-one",
        "consume",
        lease_one,
        LeaseOneForm,
        LeasedMessages,
        refusals=CHANGED,
        most_bytes=LARGEST_BODY,
    ),
    Operation("POST", f"{MESSAGES}/extend", "consume", extend_leases, ExtendForm, Outcomes, refusals=CHANGED),
    Operation("POST", f"{MESSAGES}/release", "consume", release_leases, ReleaseForm, Outcomes, refusals=CHANGED),
    Operation("POST", f"{MESSAGES}/done", "consume", finish_leases, LeasesForm, Outcomes, refusals=CHANGED),
    Operation(
        "GET",
        "/v1/leases",
        "consume",
        my_leases,
        HeldQuery,
        LeasedMessages,
        refusals=(UnknownTopic,),
        most_bytes=LEASED_BYTES,
    ),
    Operation("GET", f"{TOPIC}/upcoming", "consume", list_upcoming, UpcomingQuery, UpcomingMessages, refusals=CHANGED),
    Operation("GET", f"{TOPIC}/next-due", "consume", next_due, NextDueQuery, NextDue, refusals=CHANGED),
)
