"""MQTT with a real Mosquitto: an error in paho's thread ends the ingest."""

import threading
from pathlib import Path

import pytest

from batchline.runtime.clock import elapsed_seconds, now_us
from batchline.sources.landing import Landing
from batchline.sources.mqtt import MqttIngest, MqttRules
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
