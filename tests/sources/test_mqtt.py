"""MQTT with a real Mosquitto: an error in paho's thread ends the ingest; a full disk loses no message."""

import json
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from paho.mqtt import publish

from batchline.errors import LandingUnavailable
from batchline.runtime.clock import elapsed_seconds, now_us
from batchline.sources import mqtt
from batchline.sources.in_hand import InHand
from batchline.sources.landing import Landing
from batchline.sources.measured import Arrival
from batchline.sources.mqtt import MqttCounts, MqttIngest, MqttRules
from batchline.sources.mqtt_address import MqttAddress
from batchline.sources.thin_edge import parse_thin_edge
from tests.doubles import new_id


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_in_a_callback_of_paho_is_raised_by_run(mosquitto_url: str, tmp_path: Path) -> None:
    def tell(text: str) -> None:
        if text.startswith("subscribed"):
            raise ZeroDivisionError(text)

    def give_up() -> None:
        stop.set()

    stop, name = threading.Event(), new_id()
    watch = threading.Timer(60, give_up)
    watch.start()
    with Landing(tmp_path, "mqtt") as landing:
        ingest = MqttIngest(
            MqttAddress.from_text(mosquitto_url),
            [f"{name}/+"],
            parse_thin_edge,
            landing,
            MqttRules(name),
            now_us=now_us,
            elapsed=elapsed_seconds,
            tell=tell,
        )
        with pytest.raises(ZeroDivisionError, match="subscribed"):
            ingest.run(stop)
    watch.cancel()


#: Messages: the broker sends as many before one is acknowledged.
MANY = 20


class FullDisk(Landing):
    """A directory that cannot be written to until `attempts` attempts have failed."""

    attempts = 3

    def land(self, arrivals: Sequence[Arrival]) -> None:
        """Fail, or land."""
        if self.attempts:
            raise LandingUnavailable("the disk is full")
        super().land(arrivals)


def test_messages_for_which_there_is_no_room_while_the_disk_is_full_land_later(
    mosquitto_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker sends a message again only after a new connection, so none may be turned away."""
    monkeypatch.setattr(mqtt, "InHand", partial(InHand, most_bytes=4_000))
    address, name, stop, full = MqttAddress.from_text(mosquitto_url), new_id(), threading.Event(), threading.Event()
    topic = f"te/{name}////m/"
    watch = threading.Timer(60, stop.set)
    watch.start()

    def send() -> None:
        payloads = [json.dumps({"t": number, "pad": {"x" * 500: 1}}) for number in range(MANY)]
        publish.multiple([(topic, one, 1, False) for one in payloads], hostname=address.host, port=address.port)

    def tell(text: str) -> None:
        if text.startswith("subscribed"):
            threading.Thread(target=send).start()
        elif "the disk is full" in text and full.is_set():
            disk.attempts -= 1

    def look(counts: MqttCounts) -> None:
        if counts.received >= 8:
            full.set()
        if counts.landed >= 2 * MANY:
            stop.set()

    with FullDisk(tmp_path, "mqtt") as disk:
        rules = MqttRules(name)
        ingest = MqttIngest(
            address, [topic], parse_thin_edge, disk, rules, now_us=now_us, elapsed=elapsed_seconds, tell=tell
        )
        counts = ingest.run(stop, look)
    watch.cancel()
    assert (counts.landed, counts.refused) == (2 * MANY, 0)
