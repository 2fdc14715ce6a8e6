"""What an MQTT source has in hand: which messages are due to land, and which may be acknowledged. Told the time.

    broker ─► add ─► waiting ─► take ─► landing ─► landed ─► acknowledged, if the broker that sent it is still there
                        ▲                  │
                        └──── give_back ───┘  the disk is full

A message's number means something only in the session that it came in. After a new connection to the same session the
broker sends again what it has no acknowledgement of, under the same numbers: what is in hand still is recognised, and
not taken twice. After a connection to a new session the numbers are those of other messages: what is in hand lands, and
nobody is told.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from batchline.sources.measured import Arrival

__all__ = ["Delivery", "InHand"]

#: So many at once look as if the broker waited for us: many send no more than some before they are acknowledged.
BURST: Final = 10
#: And then nothing for so long.
QUIET_S: Final = 0.01
#: Bytes of payloads that land at once, however few messages they are; and bytes that each value of one counts for.
MOST_BYTES: Final = 32 << 20
VALUE_BYTES: Final = 256


@dataclass(slots=True, eq=False)
class Delivery:
    """A message that was received."""

    #: The broker's number for it; 0 where it wants no acknowledgement.
    number: int
    topic: str
    payload: bytes
    arrival: Arrival
    #: By which connection it came last.
    connection: int = 0
    landed: bool = False

    @property
    def size(self) -> int:
        """Roughly how many bytes of memory it takes: the values of small ones take far more than the payload."""
        return len(self.payload) + VALUE_BYTES * len(self.arrival.parts)


class InHand:
    """The deliveries that are not acknowledged; not safe for threads by itself."""

    def __init__(self, linger_s: float, most: int, most_bytes: int = MOST_BYTES) -> None:
        self._linger_s, self._most, self._most_bytes = linger_s, most, most_bytes
        self._waiting: list[Delivery] = []
        #: Of their payloads and values.
        self._bytes = 0
        self._unacknowledged: dict[int, Delivery] = {}
        self._connection, self._connected = 0, False
        self._first_s = self._last_s = 0.0
        #: The most that ever waited on this connection.
        self._peak = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def room(self) -> bool:
        """Whether one more may be added: twice what the broker may send, for a session may be lost on the way."""
        return len(self._waiting) < 2 * self._most and self._bytes < 2 * self._most_bytes

    def connected(self, *, same_session: bool) -> None:
        """There is a broker; with a new session, what came before cannot be acknowledged any more."""
        self._connection += 1
        self._connected, self._peak = True, 0
        if not same_session:
            self._unacknowledged.clear()

    def disconnected(self) -> None:
        """There is none: nothing can be acknowledged until there is."""
        self._connected = False

    def again(self, number: int, topic: str, payload: bytes) -> Delivery | None:
        """The delivery in hand that a message is, if it was sent before."""
        known = self._unacknowledged.get(number)
        if known is None or (known.topic, known.payload) != (topic, payload):
            return None
        known.connection = self._connection
        return known

    def add(self, delivery: Delivery, now_s: float) -> bool:
        """Take a message into hand; whether whoever lands should look now, and not only when it is due."""
        delivery.connection = self._connection
        if delivery.number:
            self._unacknowledged[delivery.number] = delivery
        if not self._waiting:
            self._first_s = now_s
        self._last_s = now_s
        self._waiting.append(delivery)
        was_full, self._bytes = self._bytes >= self._most_bytes, self._bytes + delivery.size
        return len(self._waiting) in (1, self._most) or (self._bytes >= self._most_bytes and not was_full)

    def due_in(self, now_s: float) -> float | None:
        """In how many seconds what waits is to land, 0 for now; None if nothing waits."""
        count = len(self._waiting)
        if not count:
            return None
        if count >= self._most or self._bytes >= self._most_bytes:
            return 0.0
        due_s = self._first_s + self._linger_s
        if count >= max(BURST, self._peak):
            due_s = min(due_s, self._last_s + QUIET_S)
        return max(0.0, due_s - now_s)

    def take(self) -> list[Delivery]:
        """All that waits, to be landed."""
        taken, self._waiting, self._bytes = self._waiting, [], 0
        self._peak = max(self._peak, len(taken))
        return taken

    def give_back(self, taken: Sequence[Delivery]) -> None:
        """They could not land: they wait before all others."""
        self._waiting[:0] = taken
        self._bytes += sum(delivery.size for delivery in taken)

    def landed(self, taken: Iterable[Delivery]) -> list[Delivery]:
        """They are durable; those of them that may be acknowledged now."""
        for delivery in taken:
            delivery.landed = True
        return [delivery for delivery in taken if self.acknowledge(delivery)]

    def acknowledge(self, delivery: Delivery) -> bool:
        """Whether a delivery is to be acknowledged now, once: it has landed, and came by this connection."""
        sent = self._connected and delivery.connection == self._connection
        if not (delivery.landed and sent and self._unacknowledged.get(delivery.number) is delivery):
            return False
        del self._unacknowledged[delivery.number]
        return True
