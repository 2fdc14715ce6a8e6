"""What is in hand lands when it is due, and is acknowledged only when it has landed, to whom it came from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.sources.in_hand import BURST, QUIET_S, VALUE_BYTES, Delivery, InHand
from batchline.sources.measured import Arrival, Measured

LINGER_S = 0.2
MOST = 100


def delivery(number: int = 1, payload: bytes = b"") -> Delivery:
    return Delivery(number, "t", payload, Arrival(0, 0, []))


@pytest.fixture
def hand() -> InHand:
    hand = InHand(LINGER_S, MOST)
    hand.connected(same_session=False)
    return hand


def test_nothing_in_hand_is_never_due(hand: InHand) -> None:
    assert hand.due_in(5.0) is None


def test_a_message_waits_for_others_for_no_longer_than_linger(hand: InHand) -> None:
    hand.add(delivery(1), 5.0)
    hand.add(delivery(2), 5.15)
    assert hand.due_in(5.15) == pytest.approx(0.05)
    assert hand.due_in(6.0) == 0.0


def test_as_many_as_fit_are_due_at_once(hand: InHand) -> None:
    looks = [hand.add(delivery(number), 5.0) for number in range(1, MOST + 1)]
    assert hand.due_in(5.0) == 0.0
    assert [place for place, look in enumerate(looks, 1) if look] == [1, MOST]


def test_a_burst_with_nothing_after_it_is_due_soon_for_the_broker_may_wait_for_us(hand: InHand) -> None:
    for number in range(BURST):
        hand.add(delivery(number + 1), 5.0)
    assert hand.due_in(5.0) == pytest.approx(QUIET_S)


def test_fewer_than_came_at_once_before_wait_for_more(hand: InHand) -> None:
    for number in range(2 * BURST):
        hand.add(delivery(number + 1), 5.0)
    hand.landed(hand.take())
    for number in range(BURST):
        hand.add(delivery(number + 1), 6.0)
    assert hand.due_in(6.0) == pytest.approx(LINGER_S)


def test_what_has_landed_is_acknowledged_once(hand: InHand) -> None:
    hand.add(delivery(7), 5.0)
    taken = hand.take()
    assert hand.landed(taken) == taken
    assert not hand.acknowledge(taken[0])


def test_what_could_not_land_comes_before_all_that_came_since(hand: InHand) -> None:
    hand.add(delivery(1), 5.0)
    taken = hand.take()
    hand.add(delivery(2), 5.0)
    hand.give_back(taken)
    assert [one.number for one in hand.take()] == [1, 2]


def test_what_wants_no_acknowledgement_gets_none(hand: InHand) -> None:
    hand.add(delivery(0), 5.0)
    assert hand.landed(hand.take()) == []


def test_what_is_sent_again_while_in_hand_is_known_and_acknowledged_when_it_lands(hand: InHand) -> None:
    hand.add(delivery(7, b"a"), 5.0)
    hand.disconnected()
    hand.connected(same_session=True)
    known = hand.again(7, "t", b"a")
    assert known is not None
    assert hand.landed(hand.take()) == [known]


def test_what_landed_without_a_broker_is_acknowledged_when_it_is_sent_again(hand: InHand) -> None:
    hand.add(delivery(7, b"a"), 5.0)
    hand.disconnected()
    assert hand.landed(hand.take()) == []
    hand.connected(same_session=True)
    known = hand.again(7, "t", b"a")
    assert known is not None
    assert hand.acknowledge(known)


def test_another_message_of_the_same_number_is_another(hand: InHand) -> None:
    hand.add(delivery(7, b"a"), 5.0)
    assert hand.again(7, "t", b"b") is None
    assert hand.again(7, "u", b"a") is None


def test_in_a_new_session_nothing_that_came_before_is_acknowledged(hand: InHand) -> None:
    hand.add(delivery(7, b"a"), 5.0)
    hand.disconnected()
    hand.connected(same_session=False)
    assert hand.again(7, "t", b"a") is None
    hand.add(delivery(7, b"b"), 5.0)
    assert [one.payload for one in hand.landed(hand.take())] == [b"b"]


def test_room_is_for_twice_as_many_as_the_broker_may_send() -> None:
    hand = InHand(LINGER_S, 1)
    for number in (1, 2):
        assert hand.room
        hand.add(delivery(number), 5.0)
    assert not hand.room


class Broker:
    """Sends numbered messages, again those that nobody has acknowledged; numbers are used again once they are free."""

    def __init__(self) -> None:
        self.hand = InHand(LINGER_S, 3)
        self.queue = list(range(40))
        self.sent: dict[int, int] = {}
        self.landed: list[int] = []
        self.up = False

    def send(self) -> None:
        if self.up and self.queue and len(self.sent) < 3:
            number = next(one for one in (1, 2, 3) if one not in self.sent)
            self.sent[number] = self.queue.pop(0)
            self.deliver(number)

    def deliver(self, number: int) -> None:
        # All alike but for every third: numbers must not be all that tells messages apart, nor what they hold.
        payload = b"%d" % (self.sent[number] % 3)
        known = self.hand.again(number, "t", payload)
        if known is None:
            self.hand.add(Delivery(number, "t", payload, Arrival(0, self.sent[number], [])), 0.0)
        elif self.hand.acknowledge(known):
            self.acknowledged(known)

    def land(self) -> None:
        taken = self.hand.take()
        self.landed += [one.arrival.sequence for one in taken]
        for one in self.hand.landed(taken):
            self.acknowledged(one)

    def fail(self) -> None:
        self.hand.give_back(self.hand.take())

    def acknowledged(self, one: Delivery) -> None:
        assert self.sent.pop(one.number) in self.landed

    def cut(self) -> None:
        self.up = False
        self.hand.disconnected()

    def connect(self, *, same_session: bool = True) -> None:
        self.cut()
        self.up = True
        if not same_session:  # it has forgotten the numbers, but not the messages
            self.queue[:0] = self.sent.values()
            self.sent.clear()
        self.hand.connected(same_session=same_session)
        for number in sorted(self.sent):
            self.deliver(number)

    def forget(self) -> None:
        self.connect(same_session=False)


def after(steps: list[str]) -> Broker:
    """The broker when all that broke is well again, and nothing is on its way."""
    broker = Broker()
    for step in steps:
        getattr(broker, step)()
    broker.connect()
    while broker.queue or broker.sent:
        broker.send()
        broker.land()
    return broker


@given(st.lists(st.sampled_from(["send", "send", "send", "land", "fail", "cut", "connect", "forget"]), max_size=60))
def test_whatever_breaks_nothing_is_acknowledged_that_has_not_landed_and_all_land(steps: list[str]) -> None:
    assert set(after(steps).landed) == set(range(40))


@given(st.lists(st.sampled_from(["send", "send", "send", "land", "fail", "cut", "connect"]), max_size=60))
def test_while_the_session_lasts_a_message_lands_once(steps: list[str]) -> None:
    assert sorted(after(steps).landed) == list(range(40))


def test_large_messages_are_due_when_their_bytes_are_many_and_no_more_fit_than_twice_that() -> None:
    hand = InHand(LINGER_S, MOST, most_bytes=100)
    looks = [(hand.add(delivery(number, bytes(60)), 0.0), hand.due_in(0.0), hand.room) for number in range(1, 5)]
    assert looks == [(True, LINGER_S, True), (True, 0.0, True), (False, 0.0, True), (False, 0.0, False)]
    hand.give_back(hand.take())
    assert (hand.due_in(0.0), hand.room) == (0.0, False)
    hand.take()
    assert (hand.due_in(0.0), hand.room) == (None, True)


def test_the_values_of_small_messages_count_as_the_memory_that_they_take() -> None:
    hand = InHand(LINGER_S, MOST, most_bytes=4 * VALUE_BYTES)
    values = [Measured("k", "t", 0, 1.0)] * 3
    for number in range(1, 4):
        assert hand.room
        hand.add(Delivery(number, "t", b"", Arrival(0, 0, values)), 0.0)
    assert (hand.due_in(0.0), hand.room) == (0.0, False)
