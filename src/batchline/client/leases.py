"""The verbs of consumers."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from batchline.client.answers import leased_of, outcomes_of, upcoming_of
from batchline.client.asking import Calls, Trial, encode
from batchline.client.exchange import Request, Steps, request
from batchline.client.pieces import framed, pieces
from batchline.client.topics import topic_path
from batchline.client.verb import Verb
from batchline.core.due_time import after_ms_of, check_either
from batchline.core.message import (
    AnyLease,
    Lease,
    LeasedMessage,
    LeasesPage,
    Outcome,
    Upcoming,
    as_lease,
    check_id,
    check_leases,
    lease_text,
    read_leases_cursor,
)
from batchline.core.moment import check_span, span_text, span_us
from batchline.core.name import check_name, reason_text
from batchline.core.timeline_checks import (
    LEASED_BYTES,
    LONGEST_PAGE,
    MOST_LEASED,
    MOST_VERSIONS,
    check_buckets,
    check_number,
)
from batchline.core.topic import MOST_BUCKETS
from batchline.errors import InvalidInput, InvalidRules
from batchline.runtime.timeline import LIVE_FOR
from batchline.wire.form import at_of
from batchline.wire.messages import LONGEST_WAIT, LeasedMessages, LeaseForm, LeaseOneForm, Outcomes, UpcomingMessages
from batchline.wire.topics import NextDue

__all__ = ["LeaseVerbs"]


class LeaseVerbs(Calls):
    """Leases on a service: see `Timeline`."""

    @Verb
    def lease(
        self,
        topic: str,
        consumer: str,
        *,
        limit: int = 1,
        duration: timedelta | None = None,
        buckets: range | None = None,
        wait: timedelta | None = None,
        max_bytes: int = LEASED_BYTES,
    ) -> Steps[list[LeasedMessage]]:
        """Lease messages that are due, the oldest first, for a time; unless it is extended, the lease ends by itself.

        They are at most `limit`, with at most `max_bytes` of bodies (8 MiB at most, which is the default), but at least
        one if any is due: fewer than `limit` does not mean that no more are due. A consumer that has subscribed gets
        messages in its own buckets; `buckets` says which others to look in. If there are none the service waits for
        some, up to `wait`, which is at most 30 seconds.
        """
        path = topic_path(topic, "messages", "lease")
        check_name("the consumer", consumer)
        check_number("limit", limit, MOST_LEASED)
        check_number("max_bytes", max_bytes, LEASED_BYTES)
        form = LeaseForm(consumer, limit, _duration(duration), wait=_wait(wait))
        if max_bytes != LEASED_BYTES:  # an older service does not know the field
            form.max_bytes = max_bytes
        asked = check_buckets(buckets, MOST_BUCKETS) if buckets is not None else self._share(topic, consumer)
        if asked is not None:
            form.buckets = (asked.start, asked.stop)
        try:
            return leased_of((yield from self._lease(path, form, wait)))
        except InvalidInput:
            if buckets is not None or asked is None:
                raise
        # A topic of the same name that was made anew may have fewer.
        self._shares.pop((topic, consumer), None)
        form.buckets = None
        return leased_of((yield from self._lease(path, form, wait)))

    def _lease(self, path: str, form: LeaseForm, wait: timedelta | None) -> Steps[LeasedMessages]:
        wait_s = 0.0 if wait is None else wait.total_seconds()
        return self._ask(Request("POST", path, encode(form), wait_s=wait_s), LeasedMessages)

    def _share(self, topic: str, consumer: str) -> range | None:
        """The buckets of a consumer that has subscribed, as long as others take it to be there."""
        share, seen_us = self._shares.get((topic, consumer), (None, 0))
        return share if self._now_us() - seen_us <= span_us(LIVE_FOR) else None

    @Verb
    def lease_one(
        self, topic: str, id: str, version: int, consumer: str, *, duration: timedelta | None = None
    ) -> Steps[LeasedMessage | None]:
        """Lease one message that `upcoming` told of, if it is due and was not changed since; None if it is stale."""
        path = topic_path(topic, "messages", "lease-one")
        check_name("the consumer", consumer)
        check_id(id)
        check_number("version", version, MOST_VERSIONS)
        form = LeaseOneForm(id, version, consumer, _duration(duration))
        found = leased_of((yield from self._send("POST", path, form, LeasedMessages)))
        return found[0] if found else None

    @Verb
    def extend(self, leases: AnyLease | Iterable[AnyLease], duration: timedelta | None = None) -> Steps[list[Outcome]]:
        """Hold messages for so long from now on; each outcome has the lease that is valid from then on."""
        wanted = [as_lease(lease) for lease in check_leases(leases)]
        trial = Trial()
        outcomes = yield from self._with_leases("extend", wanted, _said(duration=_duration(duration)), trial)
        return (yield from self._extended_before(wanted, outcomes)) if trial.lost else outcomes

    def _extended_before(self, leases: Sequence[Lease], outcomes: list[Outcome]) -> Steps[list[Outcome]]:
        """After a lost answer: leases that were extended by the request whose answer was lost are found again."""
        lost = {place: leases[place] for place, one in enumerate(outcomes) if one.outcome == "lost"}
        held: dict[tuple[object, ...], Lease] = {}
        for topic, consumer in dict.fromkeys((lease.topic, lease.consumer) for lease in lost.values()):
            for message in (yield from self._held_all(consumer, topic)):
                held[_key(message.lease)] = message.lease
        for place, lease in lost.items():
            found = held.get(_key(lease._replace(version=lease.version + 1)))
            if found is not None:
                outcomes[place] = Outcome(lease.id, "extended", found)
        return outcomes

    @Verb
    def release(
        self,
        leases: AnyLease | Iterable[AnyLease],
        at: datetime | int | None = None,
        *,
        after: timedelta | None = None,
        reason: object = "",
    ) -> Steps[list[Outcome]]:
        """Give messages back, due again `at` a moment, `after` a span from now, or at once.

        The service's clock says what now is. The reason is kept in their history.
        """
        wanted = [as_lease(lease) for lease in check_leases(leases)]
        why = reason_text(reason)
        due_ms = check_either("the moment of a release", at, after, None)
        after_ms = None if due_ms is None else after_ms_of(due_ms)
        at_ms = due_ms if after_ms is None else None
        return (yield from self._with_leases("release", wanted, _said(at=at_ms, after_ms=after_ms, reason=why)))

    @Verb
    def done(self, leases: AnyLease | Iterable[AnyLease]) -> Steps[list[Outcome]]:
        """Finish messages, by their leases or themselves: they are gone. Repeating it is a success."""
        wanted = [as_lease(lease) for lease in check_leases(leases)]
        return (yield from self._with_leases("done", wanted, _said()))

    def _with_leases(
        self, verb: str, leases: Sequence[Lease], rest: bytes, trial: Trial | None = None
    ) -> Steps[list[Outcome]]:
        """Ask for what is done with leases, on one topic after the other; the outcomes are in the leases' order."""
        encoded = [encode(lease_text(lease)) for lease in leases]
        outcomes: dict[int, Outcome] = {}
        for topic, places in _by_topic(leases).items():
            path, theirs = topic_path(topic, "messages", verb), [encoded[place] for place in places]
            for begin, end in pieces(theirs):
                body = framed(b"leases", theirs[begin:end], rest)
                answer = yield from self._ask(Request("POST", path, body), Outcomes, trial)
                outcomes.update(zip(places[begin:end], outcomes_of(answer), strict=True))
        return [outcomes[place] for place in range(len(leases))]

    @Verb
    def my_leases(self, consumer: str, *, topic: str | None = None) -> Steps[list[LeasedMessage]]:
        """List what a consumer has leased and not finished, without the leases of its live sessions."""
        return (yield from self._held_all(consumer, topic))

    @Verb
    def leases_page(
        self,
        consumer: str,
        *,
        topic: str | None = None,
        after: str | None = None,
        max_bytes: int = LEASED_BYTES,
    ) -> Steps[LeasesPage]:
        """List what a consumer has leased and not finished, without the leases of its live sessions, in pages.

        A page has at most `max_bytes` of bodies, or a single message; `after` is the `next` of the page before.
        """
        check_number("max_bytes", max_bytes, LEASED_BYTES)
        read_leases_cursor(after)
        size = None if max_bytes == LEASED_BYTES else max_bytes
        page = yield from self._ask(_held(consumer, topic, after, size), LeasedMessages)
        return LeasesPage(tuple(leased_of(page)), page.next)

    def _held_all(self, consumer: str, topic: str | None) -> Steps[list[LeasedMessage]]:
        """Ask for one page after the other."""
        page = yield from self._ask(_held(consumer, topic), LeasedMessages)
        found = leased_of(page)
        while page.next is not None:
            page = yield from self._ask(_held(consumer, topic, page.next), LeasedMessages)
            found += leased_of(page)
        return found

    @Verb
    def upcoming(
        self, topic: str, consumer: str, *, within: timedelta = timedelta(seconds=1), limit: int = 100
    ) -> Steps[list[Upcoming]]:
        """Messages in a consumer's buckets that are due by then, with their versions, to be leased one by one."""
        path = topic_path(topic, "upcoming")
        check_name("the consumer", consumer)
        check_span("within", within, 0)
        check_number("limit", limit, LONGEST_PAGE)
        asked = request("GET", path, consumer=consumer, within=span_text(within), limit=limit)
        return upcoming_of((yield from self._ask(asked, UpcomingMessages)))

    @Verb
    def next_due(self, topic: str, consumer: str | None = None) -> Steps[int | None]:
        """When the next message in a consumer's buckets, or in all, is or was due, in milliseconds; None for none."""
        path = topic_path(topic, "next-due")
        if consumer is not None:
            check_name("the consumer", consumer)
        at = (yield from self._ask(request("GET", path, consumer=consumer), NextDue)).at
        return None if at is None else at_of(at)


def _said(**fields: object) -> bytes:
    return encode({name: value for name, value in fields.items() if value is not None})


def _held(consumer: str, topic: str | None, after: str | None = None, max_bytes: int | None = None) -> Request:
    check_name("the consumer", consumer)
    if topic is not None:
        check_name("the name of a topic", topic)
    return request("GET", "/v1/leases", consumer=consumer, topic=topic, after=after, max_bytes=max_bytes)


def _by_topic(leases: Iterable[Lease]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for place, lease in enumerate(leases):
        places.setdefault(lease.topic, []).append(place)
    return places


def _key(lease: Lease) -> tuple[object, ...]:
    return lease.topic, lease.bundle, lease.place, lease.version, lease.consumer


def _duration(duration: timedelta | None) -> str | None:
    if duration is None:
        return None
    check_span("the duration of a lease", duration, 1_000)
    return span_text(duration)


def _wait(wait: timedelta | None) -> str | None:
    if wait is None:
        return None
    check_span("wait", wait, 0)
    if wait > LONGEST_WAIT:
        raise InvalidRules(f"wait must be at most 30 seconds, got {wait!r}")
    return span_text(wait)
