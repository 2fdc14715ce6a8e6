"""What workers tell the store: which parcels have arrived, how far the lanes are, and what is a stray."""

import logging
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Final, TypeVar

from batchline.core.message import Outcome
from batchline.core.signature import LaneProof
from batchline.core.stray import DEAD_PARCELS, STRAYS
from batchline.errors import Degraded, StoreUnavailable
from batchline.runtime.call_runner import CallRunner
from batchline.runtime.callbacks import reason_of
from batchline.runtime.timeline import Timeline
from batchline.stores.creating import NumbersTaken
from batchline.stores.delivering import Delivery, Settled, settle_deliveries
from batchline.stores.fresh_numbers import fresh_number
from batchline.stores.lane_rows import LaneRow
from batchline.stores.letters import Stray, bury_strays
from batchline.stores.rows import Rows
from batchline.stores.settling import Call, to_propagate
from batchline.stores.store import Store
from batchline.stores.topics import known_topic

if TYPE_CHECKING:
    from batchline.core.fanout import Ending

__all__ = ["Deliveries"]

log: Final = logging.getLogger("batchline")
T = TypeVar("T")
#: Numbers that a delivery may need, of spots that are split and messages that are made.
NUMBERS: Final = 16
TRIES: Final = 100


class Deliveries:
    """The deliveries of a topic's parcels."""

    def __init__(self, store: Store, timeline: Timeline, topic: str):
        self._store, self._topic, self._clock = store, topic, timeline.clock
        self._calls = CallRunner(store, self._clock.checked_us)
        #: Fanouts that ended by what was settled here; each is told here or elsewhere, once.
        self.endings: list[Ending] = []

    def settle(self, deliveries: Sequence[Delivery]) -> list[Outcome]:
        """Note what became of parcels, in one transaction; a long chain of ancestors is settled in more.

        A parcel that cannot be settled, by a defect of its fanout say, is logged and `lost`: it comes again when its
        lease ends, and stops no other.
        """
        try:
            return self._settle_together(deliveries)
        except (StoreUnavailable, Degraded):
            raise
        except Exception:
            log.warning("%d parcels cannot be settled together; each is settled apart", len(deliveries), exc_info=True)
        return [outcome for one in deliveries for outcome in self._settle_apart(one)]

    def _settle_apart(self, one: Delivery) -> list[Outcome]:
        try:
            return self._settle_together([one])
        except (StoreUnavailable, Degraded):
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
        def settle(rows: Rows, numbers: Iterator[int]) -> Settled:
            return settle_deliveries(rows, self._topic, DEAD_PARCELS, deliveries, numbers, call)

        return self._transact(len(deliveries), call.now_us, settle)

    def _transact(self, parcels: int, now_us: int, work: Callable[[Rows, Iterator[int]], T]) -> T:
        for _ in range(TRIES):
            first = fresh_number(now_us // 1_000, NUMBERS * parcels)

            def attempt(rows: Rows, first: int = first) -> T:
                return work(rows, count(first))

            with suppress(NumbersTaken):
                return self._store.transact(attempt)
        raise StoreUnavailable(f"no free numbers were found in {TRIES} tries")

    def reached(self, publications: Iterable[str]) -> dict[tuple[str, int], int]:
        """Up to which number the parcels of each lane of these publications have arrived."""
        return {key: row.delivered for key, row in self._lanes(publications).items()}

    def proofs(self, publications: Iterable[str]) -> dict[tuple[str, int], LaneProof]:
        """Return what proves that publishing created a parcel, for each lane of these publications."""
        return {key: row.proof for key, row in self._lanes(publications).items()}

    def _lanes(self, publications: Iterable[str]) -> dict[tuple[str, int], LaneRow]:
        wanted = list(publications)

        def look(rows: Rows) -> dict[tuple[str, int], LaneRow]:
            topic = known_topic(rows, self._topic).number
            return {(name, row.lane): row for name in wanted for row in rows.lanes(topic, name)}

        return self._store.read(look)

    def bury(self, strays: Sequence[Stray]) -> list[Outcome]:
        """Move strays to the dead letters, in one transaction."""
        now_us = self._clock.checked_us()
        return self._transact(
            len(strays), now_us, lambda rows, numbers: bury_strays(rows, self._topic, STRAYS, strays, now_us, numbers)
        )
