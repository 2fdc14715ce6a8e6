"""The lanes of which a worker has parcels in hand: each parcel waits here for its turn."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from batchline.core.consignment import Consignment
from batchline.core.lane_order import LaneOrder, Place

__all__ = ["GivenBack", "LanesInHand"]

Key = tuple[str, int]
#: So many lanes are remembered of which nothing is in hand.
MOST_IDLE: Final = 10_000
#: A parcel whose turn does not come is given back after so long, and comes again after as long.
PATIENCE_S: Final = 1.0
#: Behind what failed, so that it goes first.
BEHIND_S: Final = 0.002


class GivenBack(Exception):
    """The parcel's turn does not come now: it is to be given back until then."""

    def __init__(self, until_s: float):
        super().__init__()
        self.until_s = until_s


@dataclass(slots=True)
class _Lane:
    order: LaneOrder = field(default_factory=LaneOrder)
    #: Who waits for the turn of a parcel, and since when.
    waiting: dict[int, tuple["asyncio.Future[Place]", float]] = field(default_factory=dict)
    #: How often in a row its parcels have failed.
    failures: int = 0

    def wake(self) -> None:
        """Tell those whose turn has come."""
        for number, (turn, _) in list(self.waiting.items()):
            place = self.order.place(number)
            if place != "wait" and not turn.done():
                turn.set_result(place)

    def give_back(self, number: int, until_s: float) -> None:
        """Give a parcel back, and all that wait behind it."""
        for one in self.order.give_back(number, until_s):
            if one in self.waiting and not self.waiting[one][0].done():
                self.waiting[one][0].set_exception(GivenBack(until_s + BEHIND_S))


class LanesInHand:
    """Lanes by publication and number."""

    def __init__(self, clock: Callable[[], float]):
        self._clock = clock
        self._lanes: dict[Key, _Lane] = {}
        #: Set while somebody waits for a parcel that is not in hand.
        self.looking = asyncio.Event()

    async def turn(self, parcel: Consignment) -> Place:
        """Wait until it is a parcel's turn, or it has arrived by somebody else's hands; raises GivenBack."""
        lane, number = self._lane(parcel), parcel.number
        place = lane.order.take(number)
        if place != "wait":
            return place
        turn: asyncio.Future[Place] = asyncio.get_running_loop().create_future()
        lane.waiting[number] = (turn, self._clock())
        if not lane.order.leads(number):
            self.looking.set()
        try:
            return await turn
        finally:
            del lane.waiting[number]

    def arrived(self, parcel: Consignment) -> None:
        """A parcel has arrived, or will never: the next may go."""
        lane = self._lane(parcel)
        lane.failures = 0
        lane.order.arrived(parcel.number)
        lane.wake()

    def failed(self, parcel: Consignment, pause_s: Callable[[int], float]) -> float:
        """A parcel is to come again: it, and all behind it, are given back for a pause, which is told."""
        lane = self._lane(parcel)
        lane.failures += 1
        pause = pause_s(lane.failures)
        lane.give_back(parcel.number, self._clock() + pause)
        return pause

    def dropped(self, parcel: Consignment) -> None:
        """A parcel is not in hand any more: its lease was lost, or the worker stops."""
        lane = self._lane(parcel)
        lane.order.in_hand.discard(parcel.number)
        if any(not lane.order.leads(number) for number in lane.waiting):
            self.looking.set()

    # --- what the store says ---

    def sought(self) -> set[str]:
        """The publications in which somebody waits for a parcel that is not in hand."""
        sought = {key[0] for key, lane in self._lanes.items() if self._seekers(lane)}
        if not sought:
            self.looking.clear()
        return sought

    def seen(self, reached: dict[Key, int]) -> None:
        """Up to which number lanes have come; who has waited too long is given back."""
        now_s = self._clock()
        for key, lane in self._lanes.items():
            if key in reached:
                lane.order.seen(reached[key])
                lane.wake()
            for number in self._seekers(lane):
                turn, since_s = lane.waiting[number]
                if now_s - since_s >= PATIENCE_S and not turn.done():
                    until_s = max(lane.order.until_s, now_s + PATIENCE_S)
                    lane.give_back(number, until_s)
                    turn.set_exception(GivenBack(until_s))

    def _seekers(self, lane: _Lane) -> list[int]:
        """The first parcels that wait, each, for one that is not in hand."""
        return [
            number for number, (turn, _) in lane.waiting.items() if not turn.done() and not lane.order.leads(number)
        ]

    def _lane(self, parcel: Consignment) -> _Lane:
        key = (parcel.publication, parcel.lane)
        if key not in self._lanes:
            if len(self._lanes) >= MOST_IDLE:
                self._lanes = {key: lane for key, lane in self._lanes.items() if lane.order.in_hand}
            self._lanes[key] = _Lane()
        return self._lanes[key]
