"""The parcels of a lane, in whatever order they come into hand, go one after the other."""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from batchline.core.lane_order import LaneOrder

NUMBERS = st.integers(1, 12)


class Lane(RuleBasedStateMachine):
    """A lane, beside a list of all its parcels and what is known of each."""

    def __init__(self) -> None:
        super().__init__()
        self.order = LaneOrder()
        #: By number: in the store, in hand, or arrived.
        self.known: dict[int, str] = dict.fromkeys(range(1, 13), "away")
        self.until_s = 0.0

    def delivered(self) -> int:
        return next((number - 1 for number, place in self.known.items() if place != "arrived"), len(self.known))

    @rule(number=NUMBERS)
    def take(self, number: int) -> None:
        expected = self.expected(number)
        assert self.order.take(number) == expected
        if self.known[number] == "away":
            self.known[number] = "in hand"

    def expected(self, number: int) -> str:
        if self.known[number] == "arrived":
            return "arrived"
        return "turn" if all(self.known[one] == "arrived" for one in range(1, number)) else "wait"

    @precondition(lambda self: self.known.get(self.delivered() + 1) == "in hand")
    @rule()
    def arrive(self) -> None:
        number = self.delivered() + 1
        assert self.order.place(number) == "turn"
        self.order.arrived(number)
        self.known[number] = "arrived"

    @rule(number=NUMBERS)
    def others_bring_it_further(self, number: int) -> None:
        self.order.seen(number)
        for one in range(1, number + 1):
            self.known[one] = "arrived"
            self.order.in_hand.discard(one)

    @rule(number=NUMBERS, until_s=st.floats(0, 100))
    def give_back(self, number: int, until_s: float) -> None:
        held = [one for one, place in self.known.items() if place == "in hand"]
        again = {one for one in self.order.in_hand if self.known[one] == "arrived"}
        behind = self.order.give_back(number, until_s)
        assert [one for one in behind if one not in again] == [one for one in held if one > number]
        self.known |= dict.fromkeys((one for one in held if one >= number), "away")
        self.until_s = max(self.until_s, until_s)

    @invariant()
    def it_knows_what_is_in_hand_and_what_has_arrived(self) -> None:
        assert self.order.delivered == self.delivered()
        held = {number for number, place in self.known.items() if place == "in hand"}
        assert held == {number for number in self.order.in_hand if self.known[number] != "arrived"}
        assert self.order.until_s == self.until_s

    @invariant()
    def at_most_one_has_its_turn_and_all_before_it_have_arrived(self) -> None:
        assert [self.order.place(number) for number in self.known] == [self.expected(number) for number in self.known]
        assert sum(self.order.place(number) == "turn" for number in self.known) <= 1

    @invariant()
    def one_leads_another_if_that_is_the_next_of_it(self) -> None:
        for number in self.known:
            assert self.order.leads(number) == (number - 1 in self.order.in_hand)


TestLane: Any = Lane.TestCase


@pytest.mark.parametrize(("number", "place"), [(7, "arrived"), (8, "turn"), (9, "wait"), (12, "wait")])
def test_where_a_parcel_stands(number: int, place: str) -> None:
    assert LaneOrder(delivered=7).take(number) == place
