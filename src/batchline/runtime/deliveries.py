"""What workers tell the store: which parcels have arrived, and how far the lanes are."""

import logging
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Final

from batchline.core.message import Outcome
from batchline.errors import StoreUnavailable
from batchline.runtime.call_runner import CallRunner
from batchline.runtime.callbacks import reason_of
from batchline.runtime.timeline import Timeline
from batchline.stores.creating import NumbersTaken
from batchline.stores.delivering import Delivery, Settled, settle_deliveries
from batchline.stores.fresh_numbers import fresh_number
from batchline.stores.rows import Rows
from batchline.stores.settling import Call, to_propagate
from batchline.stores.store import Store
from batchline.stores.topics import known_topic

if TYPE_CHECKING:
    from batchline.core.fanout import Ending

__all__ = ["Deliveries"]

log: Final = logging.getLogger("batchline")
PRODUCER_GROUP: Final = "dead parcels"
#: Numbers that a delivery may need, of spots that are split and messages that are made.
NUMBERS: Final = 16
TRIES: Final = 100


class Deliveries:
    """The deliveries of a topic's parcels."""

    def __init__(self, store: Store, timeline: Timeline, topic: str):
        self._store, self._timeline, self._topic = store, timeline, topic
        self._calls = CallRunner(store, lambda: timeline.now_ms() * 1_000)
        #: Fanouts that ended by what was settled here; each is told here or elsewhere, once.
        self.endings: list[Ending] = []

    def settle(self, deliveries: Sequence[Delivery]) -> list[Outcome]:
        """Note what became of parcels, in one transaction; a long chain of ancestors is settled in more.

        A parcel that cannot be settled, by a defect of its fanout say, is logged and `lost`: it comes again when its
        lease ends, and stops no other.
        """
        self._timeline.check_clock()
        try:
            return self._settle_together(deliveries)
        except StoreUnavailable:
            raise
        except Exception:
            log.warning("%d parcels cannot be settled together; each is settled apart", len(deliveries), exc_info=True)
        return [outcome for one in deliveries for outcome in self._settle_apart(one)]

    def _settle_apart(self, one: Delivery) -> list[Outcome]:
        try:
            return self._settle_together([one])
        except StoreUnavailable:
            raise
        except Exception as error:
            log.exception("parcel %r cannot be settled; it comes again when its lease ends", one.parcel.id)
            return [Outcome(one.lease.id, "lost", reason=reason_of(error))]

    def _settle_together(self, deliveries: Sequence[Delivery]) -> list[Outcome]:
        call_id = secrets.token_hex(8)
        settled = self._calls.run(call_id, lambda call: self._settle(deliveries, call))
        self.endings += settled.endings
        above = self._calls.propagate(call_id, to_propagate(settled.endings))
        self.endings += [ending for ending in dict.fromkeys(above) if ending not in settled.endings]
        return settled.outcomes

    def _settle(self, deliveries: Sequence[Delivery], call: Call) -> Settled:
        for _ in range(TRIES):
            first = fresh_number(call.now_us // 1_000, NUMBERS * len(deliveries))

            def settle(rows: Rows, first: int = first) -> Settled:
                return settle_deliveries(rows, self._topic, PRODUCER_GROUP, deliveries, count(first), call)

            with suppress(NumbersTaken):
                return self._store.transact(settle)
        raise StoreUnavailable(f"no free numbers were found in {TRIES} tries")

    def reached(self, publications: Iterable[str]) -> dict[tuple[str, int], int]:
        """Up to which number the parcels of each lane of these publications have arrived."""
        wanted = list(publications)

        def look(rows: Rows) -> dict[tuple[str, int], int]:
            topic = known_topic(rows, self._topic).number
            return {(name, row.lane): row.delivered for name in wanted for row in rows.lanes(topic, name)}

        return self._store.read(look)
