"""The lanes of which a worker has parcels in hand: each parcel waits here for its turn."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from batchline.core.consignment import Consignment
from batchline.core.lane_order import LaneOrder, Place

__all__ = ["GivenBack", "LanesInHand"]

Key = tuple[str, int]
#: Answered with the parcel's place, or with the moment until which it is given back.
Turn = asyncio.Future[Place | float]
#: So many lanes are remembered of which nothing is in hand.
MOST_IDLE: Final = 10_000
#: A parcel whose turn does not come is given back after so long; it comes again after as long, and later each time.
PATIENCE_S: Final = 1.0
LONGEST_STALL_S: Final = 30.0
#: How long behind what failed the next comes, so that it goes first; and how long behind that those of the next block.
BEHIND_S: Final = 0.002
BLOCK_S: Final = 0.001


class GivenBack(Exception):
    """The parcel's turn does not come now: it is to be given back until then."""

    def __init__(self, until_s: float):
        super().__init__()
        self.until_s = until_s


@dataclass(slots=True)
class _Lane:
    #: So many parcels come again at one moment, and the next of the lane after them: together all might come at once,
    #: in any order, and those to go first might find no room.
    block: int
    order: LaneOrder = field(default_factory=LaneOrder)
    #: Who waits for the turn of a parcel: its number, and since when.
    waiting: dict[Turn, tuple[int, float]] = field(default_factory=dict)
    #: How often in a row its parcels have failed; and were given back because it did not go on.
    failures: int = 0
    stalls: int = 0
    #: Since when it has not gone on.
    since_s: float = 0.0

    def wake(self) -> None:
        """Tell those whose turn has come."""
        for turn, (number, _) in list(self.waiting.items()):
            place = self.order.place(number)
            if place != "wait" and not turn.done():
                turn.set_result(place)

    def go_on(self, now_s: float) -> None:
        """It has come further: it is as patient as at first."""
        self.failures = self.stalls = 0
        self.since_s = now_s
        self.wake()

    def give_back(self, first: int, until_s: float) -> None:
        """Give back a parcel, and all that wait behind it; from then on they come again."""
        self.order.give_back(first, until_s)
        for turn, (number, _) in self.waiting.items():
            if number >= first and not turn.done():
                turn.set_result(self.again_s(number))

    def again_s(self, number: int) -> float:
        """When a parcel that waits comes again, if the lane stands until then."""
        return self.order.until_s + BEHIND_S + (number - self.order.delivered) // self.block * BLOCK_S

    def stall(self, first: int, now_s: float) -> None:
        """Give back a parcel whose turn does not come, and all behind it, for longer each time."""
        pause_s = min(PATIENCE_S * 2**self.stalls, LONGEST_STALL_S)
        self.stalls += 1
        self.give_back(first, max(self.order.until_s, now_s + pause_s))

    def seekers(self) -> list[tuple[int, float]]:
        """The parcels that wait, each, for one that is not in hand; and since when."""
        return [one for turn, one in self.waiting.items() if not turn.done() and not self.order.leads(one[0])]


class LanesInHand:
    """Lanes by publication and number."""

    def __init__(self, clock: Callable[[], float], room: int):
        """Nothing is in hand yet; there is room for so many parcels."""
        self._clock, self._room = clock, room
        self._lanes: dict[Key, _Lane] = {}
        self._held = 0
        #: Set while somebody waits for a parcel that is not in hand, or no room is left.
        self.looking = asyncio.Event()

    @property
    def count(self) -> int:
        """Of how many lanes there are parcels in hand; may be asked in any thread."""
        return sum(bool(lane.order.in_hand) for lane in list(self._lanes.values()))

    async def turn(self, parcel: Consignment) -> Place:
        """Wait until it is a parcel's turn, or it has arrived by somebody else's hands; raises GivenBack.

        Whatever comes of it, the parcel is in hand until it is `dropped`.
        """
        self._held += 1
        lane, number, now_s = self._lane(parcel), parcel.number, self._clock()
        if lane.order.place(number) == "wait" and now_s < lane.order.until_s:
            raise GivenBack(lane.again_s(number))  # what failed before it does not come earlier
        if not lane.order.in_hand:
            lane.since_s = now_s
        place = lane.order.take(number)
        if place != "wait":
            return place
        turn: Turn = asyncio.get_running_loop().create_future()
        lane.waiting[turn] = (number, now_s)
        if self._held >= self._room or not lane.order.leads(number):
            self.looking.set()
        try:
            found = await turn
        finally:
            del lane.waiting[turn]
        if isinstance(found, float):
            raise GivenBack(found)
        return found

    def arrived(self, parcel: Consignment) -> None:
        """A parcel has arrived, or will never: the next may go."""
        lane = self._lane(parcel)
        lane.order.arrived(parcel.number)
        lane.go_on(self._clock())

    def failed(self, parcel: Consignment, pause_s: Callable[[int], float]) -> float:
        """A parcel is to come again: it, and all behind it, are given back for a pause, which is told."""
        lane = self._lane(parcel)
        if lane.order.place(parcel.number) == "arrived":
            return 0.0  # by somebody else's hands, meanwhile
        lane.failures += 1
        pause = pause_s(lane.failures)
        lane.give_back(parcel.number, self._clock() + pause)
        return pause

    def dropped(self, parcel: Consignment) -> None:
        """A parcel is not in hand any more: it is done or given back, its lease was lost, or the worker stops."""
        self._held -= 1
        lane = self._lane(parcel)
        lane.order.in_hand.discard(parcel.number)
        if lane.waiting and lane.seekers():
            self.looking.set()

    # --- what the store says ---

    def sought(self) -> set[str]:
        """The publications in which somebody waits for a parcel that is not in hand."""
        sought = {key[0] for key, lane in self._lanes.items() if lane.waiting and lane.seekers()}
        if not sought and self._held < self._room:
            self.looking.clear()
        return sought

    def seen(self, reached: dict[Key, int]) -> None:
        """Up to which number lanes have come; who has waited too long is given back.

        That is who waits for a parcel that is not in hand; and if there is no room for those of other lanes, also who
        waits for one that the sink has had for long.
        """
        now_s = self._clock()
        for key, lane in self._lanes.items():
            if reached.get(key, 0) > lane.order.delivered:
                lane.order.seen(reached[key])
                lane.order.until_s = 0.0
                lane.go_on(now_s)
            if lane.waiting:
                self._give_way(lane, now_s)

    def _give_way(self, lane: _Lane, now_s: float) -> None:
        late = [number for number, since_s in lane.seekers() if now_s - since_s >= PATIENCE_S]
        if self._held >= self._room and now_s - lane.since_s >= PATIENCE_S:
            late += [number for turn, (number, _) in lane.waiting.items() if not turn.done()]
        if late:
            lane.stall(min(late), now_s)

    def _lane(self, parcel: Consignment) -> _Lane:
        key = (parcel.publication, parcel.lane)
        if key not in self._lanes:
            if len(self._lanes) >= MOST_IDLE:
                self._lanes = {key: lane for key, lane in self._lanes.items() if lane.order.in_hand}
            self._lanes[key] = _Lane(max(self._room // 4, 1))
        return self._lanes[key]
