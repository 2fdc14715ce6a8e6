"""MQTT into a landing: a message is acknowledged only when the file that it is in is durable.

    broker ─► paho's thread: stamped, parsed, in hand ─► `run`: landed together ─► acknowledged ─► broker

QoS 1 and a session that outlives us: what is not acknowledged comes again, after a crash of ours, of the broker or of
both. What comes twice is a duplicate that the batcher removes, by its event time; so devices should send one.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final

from batchline.core.moment import check_span
from batchline.errors import InvalidInput, InvalidMeasurement, InvalidRules, LandingUnavailable, MissingExtra, shown
from batchline.sources.in_hand import QUIET_S, Delivery, InHand
from batchline.sources.landing import Landing
from batchline.sources.measured import Malformed, Measured, Parser, kept_text
from batchline.sources.mqtt_address import MqttAddress

try:
    from paho.mqtt.client import Client, ConnectFlags, MQTTMessage
    from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties
    from paho.mqtt.reasoncodes import ReasonCode
    from paho.mqtt.subscribeoptions import SubscribeOptions
except ModuleNotFoundError as error:
    raise MissingExtra("mqtt:// needs paho-mqtt: pip install 'batchline[mqtt]'") from error

__all__ = ["MqttCounts", "MqttIngest", "MqttRules"]

KEEPALIVE_S: Final = 30
#: How long it waits before it looks whether it should stop.
PATIENCE_S: Final = 0.1
#: What a message holds at most; more is malformed.
LARGEST_PAYLOAD: Final = 8 << 20
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 0.2, 10.0


@dataclass(frozen=True, slots=True)
class MqttRules:
    """How messages are collected."""

    #: The broker knows the session by it: the same after each start, and nobody else's.
    client_id: str
    #: How long a message waits for others to land with.
    linger: timedelta = timedelta(milliseconds=200)
    #: So many land at once, and the broker sends no more before they are acknowledged.
    most: int = 10_000
    #: For how long the broker keeps messages for us while we are away.
    session: timedelta = timedelta(days=7)

    def __post_init__(self) -> None:
        if not 1 <= len(self.client_id) <= 256:
            raise InvalidRules(f"client_id must be of 1 to 256 characters, got {shown(self.client_id)}")
        if not 1 <= self.most <= 65_535:
            raise InvalidRules(f"most must be from 1 to 65535 messages, got {self.most}")
        check_span("linger", self.linger, 0)
        check_span("session", self.session, 0)


@dataclass(slots=True)
class MqttCounts:
    """What came since the start, and what became of it."""

    #: Messages, those sent again among them.
    received: int = 0
    #: Measurements, and messages that are none, that are durable.
    landed: int = 0
    malformed: int = 0
    #: Messages that were sent again while they were in hand.
    again: int = 0
    #: Messages there was no room for at the end: with QoS 1 they come at the next start, with QoS 0 they are lost.
    refused: int = 0
    files: int = 0


class MqttIngest:
    """Subscribes, and lands what comes until it is stopped; paho's thread receives, the caller's lands."""

    def __init__(
        self,
        address: MqttAddress,
        topics: Sequence[str],
        parse: Parser,
        landing: Landing,
        rules: MqttRules,
        *,
        now_us: Callable[[], int],
        elapsed: Callable[[], float],
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        if not topics or not all(topics):
            raise InvalidInput("expected a topic to subscribe to, such as te/+/+/+/+/m/+")
        self.counts = MqttCounts()
        self._address, self._topics, self._parse, self._landing, self._rules = address, topics, parse, landing, rules
        self._now_us, self._elapsed, self._tell = now_us, elapsed, tell
        self._hand = InHand(rules.linger.total_seconds(), rules.most)
        #: Held whenever what is in hand changes; told when there is something to land.
        self._changed = threading.Condition()
        self._backoff_s = 0.0
        self._failure: BaseException | None = None
        self._is_over = False
        self._client = self._new_client()

    def run(self, stop: threading.Event, look: Callable[[MqttCounts], None] = lambda _: None) -> MqttCounts:
        """Receive until told to stop, then land and acknowledge what is in hand; `look` is called now and then."""
        self._connect()
        try:
            while not stop.is_set():
                self.run_once()
                look(self.counts)
                stop.wait(self._backoff_s)
            self._land(self._taken())
        finally:
            with self._changed:
                self._is_over = True
                self._changed.notify_all()
            self._client.disconnect()
            self._client.loop_stop()
        return self.counts

    def run_once(self) -> None:
        """Wait a moment for what is due, and land it."""
        with self._changed:
            delay = self._hand.due_in(self._elapsed())
            if delay is None or delay > 0:
                self._changed.wait(PATIENCE_S if delay is None else min(delay, QUIET_S))
                delay = self._hand.due_in(self._elapsed())
        if self._failure is not None:
            raise self._failure
        if delay == 0:
            self._land(self._taken())

    def _taken(self) -> list[Delivery]:
        with self._changed:
            self._changed.notify_all()  # a message may wait for room
            return self._hand.take()

    def _land(self, taken: list[Delivery]) -> None:
        if not taken:
            return
        try:
            self._landing.land([delivery.arrival for delivery in taken])
        except LandingUnavailable as error:
            with self._changed:
                self._hand.give_back(taken)
            self._backoff_s = min(max(FIRST_BACKOFF_S, 2 * self._backoff_s), LONGEST_BACKOFF_S)
            self._tell(f"{error}; {len(taken):,} messages wait, the broker keeps the others")
            return
        self._backoff_s = 0.0
        self._count(taken)
        with self._changed:
            for delivery in self._hand.landed(taken):
                self._client.ack(delivery.number, 1)

    def _count(self, taken: Sequence[Delivery]) -> None:
        for delivery in taken:
            malformed = sum(isinstance(part, Malformed) for part in delivery.arrival.parts)
            self.counts.malformed += malformed
            self.counts.landed += len(delivery.arrival.parts) - malformed
        self.counts.files += 1

    # --- in paho's thread ---------------------------------------------------------------------------------------------

    def _noting(self, callback: Callable[..., None]) -> Callable[..., None]:
        """Return a callback of paho's whose error `run` raises: it ends paho's thread, and nothing would come in."""

        def noted(*arguments: Any) -> None:
            try:
                callback(*arguments)
            except BaseException as error:
                self._failure = error
                raise

        return noted

    def _received(self, _client: Client, _data: Any, message: MQTTMessage) -> None:
        with self._changed:
            # Wait, and read no more from the broker: a message that is turned away only comes with a new connection.
            self._changed.wait_for(lambda: self._hand.room or self._is_over)
            self._take_in(message, _topic_of(message), bytes(message.payload))

    def _take_in(self, message: MQTTMessage, topic: str, payload: bytes) -> None:
        self.counts.received += 1
        number = message.mid if message.qos else 0
        # One that is not marked as sent again is another, even if it looks the same: a broker that was killed may
        # remember a session, and not which numbers it gave away last.
        known = self._hand.again(number, topic, payload) if message.dup else None
        if known is not None:
            self.counts.again += 1
            if self._hand.acknowledge(known):
                self._client.ack(number, 1)
        elif not self._hand.room:
            self.counts.refused += 1
        else:
            arrival = self._landing.arrived(self._now_us(), partial(self._parts, topic, payload))
            if self._hand.add(Delivery(number, topic, payload, arrival), self._elapsed()):
                self._changed.notify()

    def _parts(self, topic: str, payload: bytes, receive_us: int) -> Sequence[Measured | Malformed]:
        try:
            _check_size(len(payload))
            parts = self._parse(topic, payload, receive_us)
        except InvalidMeasurement as error:
            return [Malformed(topic, str(error), kept_text(payload))]
        return parts

    def _connected(self, client: Client, _data: Any, flags: ConnectFlags, reason: ReasonCode, _more: Any) -> None:
        if reason.is_failure:
            self._tell(f"the broker refuses us: {reason}")
            return
        with self._changed:
            self._hand.connected(same_session=flags.session_present)
        # Retained messages come with a new subscription only, not with each connection.
        options = SubscribeOptions(qos=1, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB)
        client.subscribe([(topic, options) for topic in self._topics])

    def _disconnected(self, _client: Client, _data: Any, _flags: Any, reason: ReasonCode, _more: Any) -> None:
        with self._changed:
            self._hand.disconnected()
        if reason.is_failure:
            self._tell(f"the broker is gone: {reason}; trying again")

    def _subscribed(self, _client: Client, _data: Any, _mid: int, reasons: Sequence[ReasonCode], _more: Any) -> None:
        for topic, reason in zip(self._topics, reasons, strict=False):
            if reason.is_failure:
                self._tell(f"the broker refuses the topic {topic}: {reason}")
            else:
                self._tell(f"subscribed to {topic} at {self._address.host}:{self._address.port}")

    def _unreachable(self, _client: Client, _data: Any) -> None:
        self._tell(f"no broker at {self._address.host}:{self._address.port}; trying again")

    # --- the connection -----------------------------------------------------------------------------------------------

    def _new_client(self) -> Client:
        client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=self._rules.client_id,
            protocol=MQTTProtocolVersion.MQTTv5,
            manual_ack=True,
        )
        if self._address.user is not None:
            client.username_pw_set(self._address.user, self._address.password)
        if self._address.tls:
            try:
                client.tls_set(ca_certs=self._address.ca)
            except OSError as error:
                raise InvalidInput(f"the certificates in {self._address.ca} cannot be read: {error}") from error
        client.reconnect_delay_set(1, round(LONGEST_BACKOFF_S))
        client.on_message, client.on_connect = self._noting(self._received), self._noting(self._connected)
        client.on_disconnect, client.on_subscribe = self._noting(self._disconnected), self._noting(self._subscribed)
        client.on_connect_fail = self._noting(self._unreachable)
        return client

    def _connect(self) -> None:
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = min(round(self._rules.session.total_seconds()), 2**32 - 1)
        properties.ReceiveMaximum = self._rules.most
        host, port = self._address.host, self._address.port
        self._client.connect_async(host, port, KEEPALIVE_S, clean_start=False, properties=properties)
        self._client.loop_start()


def _check_size(size: int) -> None:
    if size > LARGEST_PAYLOAD:
        raise InvalidMeasurement(f"expected a message of at most {LARGEST_PAYLOAD:,} bytes, got {size:,}: send several")


def _topic_of(message: MQTTMessage) -> str:
    try:
        return message.topic
    except UnicodeDecodeError:
        return "\N{REPLACEMENT CHARACTER}"
