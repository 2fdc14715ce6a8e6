"""The verbs of the tracker."""

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final

from batchline.client.answers import expired_of, failed_of, sealed_of, status_of
from batchline.client.asking import Calls, encode
from batchline.client.exchange import Request, Steps, address, request
from batchline.client.pieces import framed, pieces
from batchline.client.verb import Verb
from batchline.core.ack import AckOutcome, Asked, Item, ItemError, SealOutcome, collect_items
from batchline.core.expiry_rules import ExpiryRules
from batchline.core.fanout import STATES, FailedItem, FanoutPage, FanoutStatus, State
from batchline.core.item_group import ItemGroup
from batchline.core.moment import span_text
from batchline.core.name import check_labels, check_name, reason_text
from batchline.core.on_complete import OnComplete
from batchline.core.tracker_checks import (
    check_age,
    check_count,
    check_items,
    check_limit,
    check_message,
    check_page,
    check_tolerate,
)
from batchline.errors import InvalidInput, check_choice
from batchline.runtime.tracker import ExpireOutcome
from batchline.stores.listing import cursor_of
from batchline.wire.fanouts import (
    AckAnswer,
    AddForm,
    ExpireAnswer,
    ExpireDueForm,
    ExpireForm,
    ExpiryForm,
    FailedItems,
    FanoutForm,
    Fanouts,
    Groups,
    ItemErrorForm,
    NewFanoutForm,
    OnCompleteForm,
    PendingItems,
    SealAnswer,
    SealForm,
)
from batchline.wire.form import text_body
from batchline.wire.problems import error_of

__all__ = ["FanoutVerbs"]

FANOUTS: Final = "/v1/fanouts"
#: Older than everything, and younger.
OLDEST: Final = timedelta(days=100_000_000)


class FanoutVerbs(Calls):
    """Fanouts on a service: see `Tracker`."""

    @Verb
    def open(
        self,
        id: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        parent: str | None = None,
        tolerate: int | None = 0,
        expiry: ExpiryRules | None = None,
        on_complete: OnComplete | None = None,
    ) -> Steps[FanoutStatus]:
        """Open a fanout, with an id of yours or one made here. A repeat is activity and changes nothing else."""
        check_message(on_complete)
        tolerated = check_tolerate(tolerate)
        form = NewFanoutForm(
            secrets.token_hex(16) if id is None else check_name("the id of a fanout", id),
            check_labels({} if labels is None else labels),
            None if parent is None else check_name("the id of a parent", parent),
            "any" if tolerated is None else tolerated,
            None if expiry is None else _expiry(expiry),
            None if on_complete is None else _on_complete(on_complete),
        )
        return status_of((yield from self._send("POST", FANOUTS, form, FanoutForm)))

    @Verb
    def add(self, fanout: str, count: int, *, add_id: str | None = None) -> Steps[list[ItemGroup]]:
        """Add items, and answer their groups, 64 to a group. With an `add_id` used before: the same groups again."""
        path = _fanout(fanout, "items")
        check_count(count)
        form = AddForm(count, secrets.token_hex(8) if add_id is None else check_name("add_id", add_id))
        answer = yield from self._send("POST", path, form, Groups)
        return [ItemGroup(fanout, group.id, group.upto) for group in answer.groups]

    @Verb
    def seal(self, fanout: str, *, call_id: str | None = None) -> Steps[SealOutcome]:
        """Take no more items. `completed` is true for the one call that made the fanout complete."""
        path = _fanout(fanout, "seal")
        return sealed_of((yield from self._send("POST", path, SealForm(_call(call_id)), SealAnswer)))

    @Verb
    def ack(self, items: Iterable[Item] | Mapping[str, int], *, call_id: str | None = None) -> Steps[AckOutcome]:
        """Acknowledge items, by their ids or as (group, mask), in any order and any number of times.

        A mapping from `fanout:uuid` to a mask names them by group; its errors are told item by item.
        """
        return (yield from self._finish("ack", items, {"call_id": _call(call_id)}))

    @Verb
    def fail(
        self, items: Iterable[Item] | Mapping[str, int], reason: object, *, call_id: str | None = None
    ) -> Steps[AckOutcome]:
        """Give items up for good: they are done, counted and listed apart."""
        said = {"call_id": _call(call_id), "reason": reason_text(reason)}
        return (yield from self._finish("fail", items, said))

    def _finish(self, verb: str, items: Iterable[Item] | Mapping[str, int], said: dict[str, str]) -> Steps[AckOutcome]:
        collected = collect_items(check_items(items))
        pairs, rest = _Pairs(collected.asked), encode(said)
        answers: list[AckAnswer] = []
        for body in (*_masks(collected.asked, rest), *pairs.bodies(rest)):
            answers += [(yield from self._ask(Request("POST", f"{FANOUTS}/{verb}", body), AckAnswer))]
        return AckOutcome(
            changed=sum(answer.changed for answer in answers),
            repeated=collected.repeated + sum(answer.repeated for answer in answers),
            completed=_ended(answer.completed for answer in answers),
            failed=_ended(answer.failed for answer in answers),
            errors=(*collected.errors, *(pairs.error(one) for answer in answers for one in answer.errors)),
        )

    @Verb
    def status(self, fanout: str) -> Steps[FanoutStatus]:
        """What is known of a fanout; its counts are exact, and cost the same for any number of items."""
        return status_of((yield from self._ask(request("GET", _fanout(fanout)), FanoutForm)))

    @Verb
    def pending_items(self, fanout: str, limit: int = 100, *, after: str | None = None) -> Steps[list[str]]:
        """The ids of pending items, in order; `after` is the last of the page before."""
        asked = _page(fanout, "pending", limit, after)
        return (yield from self._ask(asked, PendingItems)).items

    @Verb
    def failed_items(self, fanout: str, limit: int = 100, *, after: str | None = None) -> Steps[list[FailedItem]]:
        """The items that failed, with their reasons, in order; `after` is the id of the last of the page before."""
        return failed_of((yield from self._ask(_page(fanout, "failed", limit, after), FailedItems)))

    @Verb
    def expire(self, fanout: str, *, call_id: str | None = None) -> Steps[ExpireOutcome]:
        """Give a fanout up now, whatever its activity; a late ack is answered `expired`."""
        path = _fanout(fanout, "expire")
        return expired_of((yield from self._send("POST", path, ExpireForm(_call(call_id)), ExpireAnswer)))

    @Verb
    def expire_due(self, limit: int = 100) -> Steps[ExpireOutcome]:
        """One step of expiry; services take such steps by themselves."""
        check_limit(limit)
        return expired_of((yield from self._send("POST", f"{FANOUTS}/expire-due", ExpireDueForm(limit), ExpireAnswer)))

    @Verb
    def list(
        self,
        state: State | None = None,
        labels: Mapping[str, str] | None = None,
        older_than: timedelta | None = None,
        *,
        parent: str | None = None,
        after: int | None = None,
        limit: int = 100,
        newest: bool = False,
    ) -> Steps[FanoutPage]:
        """Fanouts that meet all conditions, oldest first, a page at a time: `after` is the `next` of the page before.

        `older_than` is counted from when they were opened; with `newest` the newest come first.
        """
        if state is not None:
            check_choice("state", state, STATES, InvalidInput)
        if parent is not None:
            check_name("the id of a parent", parent)
        check_limit(limit)
        wanted = check_labels({} if labels is None else labels)
        asked = request(
            "GET",
            FANOUTS,
            state=state,
            labels=encode(wanted).decode() if wanted else None,
            older_than=None if older_than is None else _age(older_than),
            parent=parent,
            after=check_page(after),
            limit=limit,
            newest="true" if newest else None,
        )
        answer = yield from self._ask(asked, Fanouts)
        return FanoutPage(tuple(map(status_of, answer.fanouts)), answer.next)


class _Pairs:
    """Groups with masks that were given as such: an error is told of the very object."""

    def __init__(self, asked: Iterable[Asked]) -> None:
        self._given: dict[tuple[str, int], list[object]] = {}
        self._encoded: list[bytes] = []
        for one in asked:
            if one.pair is not None:
                name = (one.group if one.fanout is None else f"{one.fanout}:{one.group}", one.mask)
                self._given.setdefault(name, []).append(one.pair)
                self._encoded.append(encode(name))

    def bodies(self, rest: bytes) -> Iterator[bytes]:
        """A body for each request."""
        return (framed(b"items", self._encoded[begin:end], rest) for begin, end in pieces(self._encoded))

    def error(self, form: ItemErrorForm) -> ItemError:
        """What did not count, as it was given."""
        item: object = form.item if isinstance(form.item, str) else self._given[form.item].pop(0)
        return ItemError(item, error_of(form.type, form.detail))


def _masks(asked: Iterable[Asked], rest: bytes) -> Iterator[bytes]:
    """A body for each request that names items by their ids, combined to masks."""
    encoded = [b"%b:%d" % (encode(f"{one.fanout}:{one.group}"), one.mask) for one in asked if one.pair is None]
    return (framed(b"masks", encoded[begin:end], rest, b"{}") for begin, end in pieces(encoded))


def _ended(found: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(sorted({fanout for some in found for fanout in some}))


def _fanout(fanout: str, *verb: str) -> str:
    return address("v1", "fanouts", check_name("the id of a fanout", fanout), *verb)


def _page(fanout: str, what: str, limit: int, after: str | None) -> Request:
    path = _fanout(fanout, what)
    check_limit(limit)
    cursor_of(fanout, after)
    return request("GET", path, limit=limit, after=after)


def _call(call_id: str | None) -> str:
    """The id of a call: chosen, or one of our own, for repeating it after a lost answer."""
    return secrets.token_hex(8) if call_id is None else check_name("call_id", call_id)


def _expiry(rules: ExpiryRules) -> ExpiryForm:
    return ExpiryForm(span_text(rules.unsealed), span_text(rules.sealed), span_text(rules.tombstone))


def _on_complete(message: OnComplete) -> OnCompleteForm:
    after = span_text(message.after)
    return OnCompleteForm(message.topic, *text_body(message.body), message.id, after, message.producer_group)


def _age(older_than: timedelta) -> str:
    return span_text(min(max(check_age(older_than), -OLDEST), OLDEST))
