"""What a process with a wrong clock would harm: a long lease, a message far off, a fanout that is alive."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Final

from batchline.client import Client
from batchline.core.expiry_rules import ExpiryRules
from batchline.core.message import LeasedMessage, NewMessage
from batchline.core.moment import moment_of
from batchline.core.topic import dead_letters_of
from batchline.errors import BatchlineError
from batchline.runtime.clock import now_us
from batchline.runtime.timeline import Timeline
from batchline.runtime.tracker import Tracker
from batchline.stores import Store

__all__ = ["Canary"]

TOPIC: Final = "canary"
OWNER, HOLDER, STRANGER = "canary", "holder", "stranger"
#: Longer than a run, shorter than the clocks of faults are off.
LONG: Final = timedelta(minutes=40)
ANSWER: Final = timedelta(seconds=2)


class Canary:
    """Put into the store before a run, and looked at afterwards."""

    def __init__(self) -> None:
        self._held: LeasedMessage | None = None
        #: What was handed out before its time.
        self.early: list[str] = []

    def plant(self, store: Store) -> None:
        """Lease a message for the last time that its topic allows, and leave others for later."""
        timeline = Timeline(store)
        timeline.create_topic(TOPIC, max_attempts=1, dead_letter=dead_letters_of(TOPIC))
        later = NewMessage(b"later", id="later", at=moment_of(now_us()) + LONG)
        timeline.create(TOPIC, [NewMessage(b"held", id="held"), later], producer_group=OWNER)
        (self._held,) = timeline.lease(TOPIC, HOLDER, duration=LONG, limit=2)
        Tracker(store).open("canary", expiry=ExpiryRules(unsealed=LONG, sealed=LONG, tombstone=LONG))

    def tempt(self, service: str) -> None:
        """Ask a service whose clock is wrong for messages that are not due."""
        with suppress(BatchlineError), Client(service, timeout=ANSWER, retry=None) as client:
            self.early += [message.id for message in client.lease(TOPIC, consumer=STRANGER, limit=10)]

    def harm(self, store: Store) -> Iterator[str]:
        """What is not as it was left."""
        if self._held is None:
            return
        timeline = Timeline(store)
        for id in self.early:
            yield f"message {id!r} was leased before its time"
        for id, state in {"held": "processing", "later": "waiting"}.items():
            page = [one for one in timeline.my_messages(OWNER).messages if (one.topic, one.id) == (TOPIC, id)]
            if [one.state for one in page] != [state]:
                yield f"message {id!r} is {', '.join(one.state for one in page) or 'gone'}, and was {state}"
        if timeline.count(dead_letters_of(TOPIC)).total:
            yield "a message with a live lease is a dead letter"
        status = Tracker(store).status("canary")
        if status.state != "open":
            yield f"the fanout is {status.state}, and was open"
