"""Sends dead letters again: back onto the topic that they came from.

a message that was leased too often    under its id, with its owner, from its first attempt on
a parcel that nobody took              in a publication and a fanout of its own: its lane went on without it
"""

import secrets
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import Final, TypeVar

from batchline.core.consignment import Consignment, read_consignment
from batchline.core.message import CheckedMessages, LeasedMessage, made_place
from batchline.core.stray import DEAD_PARCELS, NOT_SENT_AGAIN
from batchline.core.topic import dead_letter_topics
from batchline.errors import InvalidInput, InvalidMessage, StoreUnavailable
from batchline.runtime import publisher
from batchline.runtime.timeline import Timeline
from batchline.runtime.tracker import Tracker
from batchline.stores.creating import Creation, NumbersTaken
from batchline.stores.fresh_numbers import fresh_number
from batchline.stores.resending import Parcels, resend_messages, resend_parcels
from batchline.stores.rows import Rows
from batchline.stores.store import Store

__all__ = ["Resend", "Resent", "origin_of"]

T = TypeVar("T")
#: How many are taken in hand at once, and for how long.
AT_ONCE: Final = 500
LEASE: Final = timedelta(minutes=1)
#: Numbers that a letter may need, of what is made and of spots that are split.
NUMBERS: Final = 8
TRIES: Final = 100
Dead = tuple[LeasedMessage, Consignment]


@dataclass(slots=True)
class Resent:
    """What was sent again."""

    #: By their ids on the dead-letter topic.
    messages: list[str] = field(default_factory=list)
    parcels: list[str] = field(default_factory=list)
    #: Complete when all parcels have arrived; None if there was none.
    fanout: str | None = None


def origin_of(timeline: Timeline, topic: str) -> str:
    """The topic whose dead letters these are; raises InvalidInput if that cannot be told."""
    alive = [one for one in timeline.topics() if not one.deleted]
    found = [one.name for one in alive if topic in dead_letter_topics([one])]
    if len(found) == 1:
        return found[0]
    timeline.topic(topic)
    which = f"those of {', '.join(map(repr, found))}" if found else "of no topic that is known"
    raise InvalidInput(f"the dead letters on {topic!r} are {which}: say to which topic they are sent")


class Resend:
    """Dead letters of a topic, back to another."""

    def __init__(self, store: Store, topic: str, to: str, *, new_ids: bool = False, timeline: Timeline | None = None):
        """`new_ids` gives parcels other ids, by which a receiver does not know that it has refused them before."""
        if topic == to:
            raise InvalidInput(f"dead letters are sent to another topic than theirs, got {topic!r} for both")
        self._store, self._topic, self._to, self._new_ids = store, topic, to, new_ids
        self._timeline = timeline or Timeline(store)
        self._name = f"resend-{secrets.token_hex(4)}"
        self.resent = Resent()

    def run(self, limit: int | None = None) -> Resent:
        """Send all dead letters, or `limit` of them, the oldest first. Each leaves one topic as it reaches the other.

        Strays, measurements that fit in no parcel, and parcels that cannot be read stay where they are.
        """
        left, staying = limit, NOT_SENT_AGAIN if self._timeline.topic(self._topic).internal else frozenset[str]()
        while left is None or left > 0:
            most = AT_ONCE if left is None else min(left, AT_ONCE)
            found = self._timeline.lease(self._topic, self._name, limit=most, duration=LEASE)
            if not found:
                break
            letters = [one for one in found if one.producer_group not in staying]
            self._leave([one for one in found if one.producer_group in staying])
            sent = self._send(letters)
            left = None if left is None else left - sent
        if self.resent.fanout is not None:
            self._tracker().seal(self.resent.fanout)
        return self.resent

    def _leave(self, letters: Sequence[LeasedMessage]) -> None:
        """Leave letters where they are, for later than this run: workers would only bury them again, or drop them."""
        if letters:
            leases = [one.lease for one in letters]
            self._timeline.release(leases, after=LEASE, reason="it is no parcel of a lane, and is not sent again")

    def _send(self, letters: Sequence[LeasedMessage]) -> int:
        """Send letters, but leave parcels that cannot be read; return how many were sent."""
        owners: dict[str, list[LeasedMessage]] = defaultdict(list)
        lanes: dict[int, list[Dead]] = defaultdict(list)
        unreadable: list[LeasedMessage] = []
        for letter in letters:
            if letter.producer_group != DEAD_PARCELS:
                owners[letter.producer_group].append(letter)
            elif (parcel := _parcel_of(letter)) is None:
                unreadable.append(letter)
            else:
                lanes[parcel.lane].append((letter, parcel))
        self._leave(unreadable)
        for owner, some in owners.items():
            self._send_messages(owner, some)
        for dead in lanes.values():
            # As they stood in their lane.
            dead.sort(key=lambda one: (one[1].publication, one[1].number))
            for begin in range(0, len(dead), publisher.AT_ONCE):
                self._send_parcels(dead[begin : begin + publisher.AT_ONCE])
        return len(letters) - len(unreadable)

    def _send_messages(self, owner: str, letters: Sequence[LeasedMessage]) -> None:
        ids, turns = _own_ids(letters), [0] * len(letters)
        now_ms, leases = self._timeline.now_ms(), [one.lease for one in letters]
        bodies = [one.body for one in letters]
        creation = Creation(self._to, owner, CheckedMessages(ids, [now_ms] * len(ids), bodies, turns), now_ms * 1_000)
        held = self._transact(len(ids), lambda rows, numbers: resend_messages(rows, creation, leases, numbers))
        self.resent.messages += [one.id for one, was in zip(letters, held, strict=True) if was]

    def _send_parcels(self, dead: Sequence[Dead]) -> None:
        parcels = [self._named(parcel) for _, parcel in dead]
        leases = [letter.lease for letter, _ in dead]
        resent = Parcels(self._fanout(), self._name, leases, parcels, [one.content() for one in parcels])
        now_us, group = self._timeline.now_ms() * 1_000, publisher.PRODUCER_GROUP
        held = self._transact(
            len(dead), lambda rows, numbers: resend_parcels(rows, self._to, group, resent, now_us, numbers)
        )
        self.resent.parcels += [letter.id for (letter, _), was in zip(dead, held, strict=True) if was]

    def _named(self, parcel: Consignment) -> Consignment:
        return parcel.altered(id=f"{parcel.id}~{self._name}") if self._new_ids else parcel

    def _fanout(self) -> str:
        """Opened when the first parcel is sent."""
        if self.resent.fanout is None:
            self.resent.fanout = self._tracker().open(self._name, labels={"resend": self._topic}).id
        return self.resent.fanout

    def _tracker(self) -> Tracker:
        return Tracker(self._store, clock=self._timeline.clock)

    def _transact(self, letters: int, work: Callable[[Rows, Iterator[int]], T]) -> T:
        self._timeline.check_clock()
        for _ in range(TRIES):
            first = fresh_number(self._timeline.now_ms(), NUMBERS * letters)

            def send(rows: Rows, first: int = first) -> T:
                return work(rows, count(first))

            try:
                return self._store.transact(send)
            except NumbersTaken:
                continue
        raise StoreUnavailable(f"no free numbers were found in {TRIES} tries")


def _own_ids(letters: Sequence[LeasedMessage]) -> list[str]:
    """Their ids, but for those that were made, and for one that has died twice: these get others."""
    seen: set[str] = set()
    ids = []
    for letter in letters:
        ids.append("" if made_place(letter.id) is not None or letter.id in seen else letter.id)
        seen.add(letter.id)
    return ids


def _parcel_of(letter: LeasedMessage) -> Consignment | None:
    """Return the parcel that a worker has given up; None if it is damaged, or too large."""
    try:
        parcel = read_consignment(letter.body)
        parcel.opened()
    except InvalidMessage:
        return None
    return parcel
