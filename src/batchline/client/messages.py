"""The verbs of producers."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import count
from typing import Final

from batchline.client.answers import message_of, outcomes_of
from batchline.client.asking import Calls, Trial, encode
from batchline.client.exchange import Request, Steps, address, request
from batchline.client.pieces import framed, pieces
from batchline.client.topics import topic_path
from batchline.client.verb import Verb
from batchline.core.due_time import Due, after_ms_of
from batchline.core.message import (
    CheckedMessages,
    Lease,
    Message,
    MessagePage,
    NewMessage,
    Outcome,
    as_lease,
    check_id,
    check_leases,
    check_messages,
    lease_text,
)
from batchline.core.name import check_name
from batchline.core.timeline_checks import LONGEST_PAGE, check_after, check_many, check_moves, check_number
from batchline.errors import CallTaken, InvalidInput
from batchline.stores.fresh_numbers import fresh_number
from batchline.wire.form import text_body
from batchline.wire.messages import MessageForm, Messages, NewMessageForm, Outcomes

__all__ = ["MessageVerbs"]

#: What one transaction takes on: so a request is done as a whole, or not at all, and can be repeated.
CREATED_AT_ONCE: Final = 5_000


class MessageVerbs(Calls):
    """Messages of producers on a service: see `Timeline`."""

    @Verb
    def create(
        self, topic: str, messages: Iterable[NewMessage | bytes], *, producer_group: str
    ) -> Steps[list[Outcome]]:
        """Put messages on the line; when it returns they are stored. The outcomes are in the messages' order.

        A message that is there already, with the same owner and body, `exists`.
        """
        path = topic_path(topic, "messages")
        check_name("the producer group", producer_group)
        encoded = _encoded(check_messages(messages, None))
        outcomes: list[Outcome] = []
        for begin, end in pieces(encoded, CREATED_AT_ONCE):
            outcomes += yield from self._create(path, encoded[begin:end], producer_group)
        return outcomes

    def _create(self, path: str, encoded: Sequence[bytes], group: str) -> Steps[list[Outcome]]:
        """Create some messages, under a number that makes it harmless to send them again."""
        for _ in count():
            number, trial = fresh_number(self._now_us() // 1_000, 2 * len(encoded)), Trial()
            body = framed(b"messages", encoded, encode({"call_number": number}))
            try:
                return outcomes_of((yield from self._ask(Request("POST", path, body, group), Outcomes, trial)))
            except CallTaken:
                if trial.lost:  # it may be taken by what we have created ourselves
                    raise
        raise AssertionError

    @Verb
    def move(
        self,
        topic: str,
        moments: Mapping[str, Due] | Iterable[str],
        *,
        producer_group: str,
        after: timedelta | None = None,
    ) -> Steps[list[Outcome]]:
        """Reschedule messages of a producer group; a message with an active lease stays as it is.

        `moments` maps each id to its new due time: a moment, or a span from now. Or it lists ids, and all of them are
        due `after` this span from now. The service's clock says what now is.
        """
        path = topic_path(topic, "messages", "move")
        check_name("the producer group", producer_group)
        checked = check_moves(moments, after, None)
        encoded = [b"%b:%b" % (encode(id), _due(due_ms)) for id, due_ms in checked.items()]
        return (yield from self._change(path, b"moments", encoded, b"{}", producer_group))

    @Verb
    def cancel(self, topic: str, ids: Iterable[str], *, producer_group: str) -> Steps[list[Outcome]]:
        """Take messages of yours off the line; not while somebody has leased them."""
        path = topic_path(topic, "messages", "cancel")
        check_name("the producer group", producer_group)
        encoded = [encode(check_id(id)) for id in check_many(ids, "ids")]
        return (yield from self._change(path, b"ids", encoded, b"[]", producer_group))

    def _change(
        self, path: str, name: bytes, encoded: Sequence[bytes], braces: bytes, group: str
    ) -> Steps[list[Outcome]]:
        outcomes: list[Outcome] = []
        for begin, end in pieces(encoded):
            body = framed(name, encoded[begin:end], braces=braces)
            outcomes += outcomes_of((yield from self._ask(Request("POST", path, body, group), Outcomes)))
        return outcomes

    @Verb
    def read(
        self, topic: str, id: str, *, producer_group: str | None = None, lease: Lease | None = None
    ) -> Steps[Message]:
        """A message, its state and its history; for its owner, or for who holds its lease."""
        path = topic_path(topic, "messages", check_id(id))
        if (producer_group is None) == (lease is None):
            raise InvalidInput("read takes the producer group that owns the message, or the lease of who holds it")
        if producer_group is not None:
            check_name("the producer group", producer_group)
        text = None if lease is None else lease_text(as_lease(check_leases([lease])[0]))
        return message_of((yield from self._ask(request("GET", path, group=producer_group, lease=text), MessageForm)))

    @Verb
    def read_any(self, topic: str, id: str) -> Steps[Message]:
        """A message, whoever owns it: for who looks after all of them, which is an admin."""
        path = topic_path(topic, "messages", check_id(id))
        return message_of((yield from self._ask(request("GET", path), MessageForm)))

    @Verb
    def my_messages(self, producer_group: str, *, after: str | None = None, limit: int = 100) -> Steps[MessagePage]:
        """The messages of a producer group, oldest first, in pages: `after` is the `next` of the page before."""
        check_name("the producer group", producer_group)
        check_number("limit", limit, LONGEST_PAGE)
        check_after(after)
        asked = request("GET", address("v1", "messages"), group=producer_group, after=after, limit=limit)
        answer = yield from self._ask(asked, Messages)
        return MessagePage(tuple(map(message_of, answer.messages)), answer.next)


def _encoded(messages: CheckedMessages) -> list[bytes]:
    return [encode(_form(*message)) for message in zip(*messages, strict=True)]


def _form(id: str, due_ms: int, body: bytes, turn: int) -> NewMessageForm:
    after_ms = after_ms_of(due_ms)
    at_ms = due_ms if after_ms is None else None
    # Without a due time it is due at once: a span of 0 need not be sent.
    return NewMessageForm(*text_body(body), at_ms, id or None, -turn, after_ms or None)


def _due(due_ms: int) -> bytes:
    after_ms = after_ms_of(due_ms)
    return b"%d" % due_ms if after_ms is None else b'{"after_ms":%d}' % after_ms
