"""A device that publishes measurements, and writes down what it has sent and what its broker has acknowledged.

python -m tests.faults.device mqtt://127.0.0.1:1883 device.jsonl 60 7

Its log, a line each: ["sent", number, kind], ["acked", number], ["connected"], ["ended"].
"""

import json
import queue
import random
import signal
import sys
import threading
from pathlib import Path
from typing import Any, Final, TextIO
from urllib.parse import urlsplit

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from batchline.core.moment import moment_of
from batchline.runtime.clock import now_us

__all__ = ["Device"]

KEYS, TYPES = 12, 4
SECOND_US: Final = 1_000_000
#: How often what is wrong with a measurement.
WRONG: Final = {"late": 0.02, "future": 0.01, "malformed": 0.01}
#: How often one is sent twice by a device that is not sure.
TWICE: Final = 0.03


class Device:
    """Numbers its measurements: the value is the number."""

    def __init__(self, url: str, log: TextIO, seed: int):
        parts = urlsplit(url)
        self._log, self._chance = log, random.Random(seed)
        self._happened: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()
        self._numbers: dict[int, int] = {}
        self._number = 0
        self._client = Client(CallbackAPIVersion.VERSION2, client_id=f"device-{seed}", clean_session=False)
        self._client.reconnect_delay_set(1, 1)
        self._client.max_inflight_messages_set(200)
        self._client.on_publish = lambda _client, _data, mid, *_: self._happened.put(("acked", mid))
        self._client.on_connect = lambda *_: self._happened.put(("connected", 0))
        self._client.connect_async(parts.hostname or "", parts.port or 0)
        self._client.loop_start()

    def send(self) -> None:
        """Send one more measurement."""
        self._number += 1
        kind = self._chance.choices(["", *WRONG], [1 - sum(WRONG.values()), *WRONG.values()])[0]
        topic, text = self._message(kind)
        self._note("sent", self._number, kind)
        for _ in range(2 if self._chance.random() < TWICE else 1):
            self._numbers[self._client.publish(topic, text, qos=1).mid] = self._number

    def _message(self, kind: str) -> tuple[str, str]:
        shift = {"late": -3_600, "future": 3_600}.get(kind, 0) * SECOND_US
        time = moment_of(now_us() + shift).isoformat()
        topic = f"te/device/d{self._chance.randrange(KEYS)}///m/"
        if kind == "malformed":
            return topic, json.dumps({"number": self._number, "wrong": [1]})
        return topic, json.dumps({f"t{self._chance.randrange(TYPES)}": self._number, "time": time})

    def look(self) -> None:
        """Write down what has happened."""
        while not self._happened.empty():
            what, mid = self._happened.get()
            if what == "connected":
                self._note(what)
            elif mid in self._numbers:
                self._note(what, self._numbers.pop(mid))

    @property
    def is_done(self) -> bool:
        """Whether all that was sent is acknowledged."""
        return not self._numbers

    def close(self) -> None:
        """Be gone."""
        self._note("ended")
        self._client.disconnect()
        self._client.loop_stop()

    def _note(self, *words: Any) -> None:
        self._log.write(json.dumps(words) + "\n")
        self._log.flush()


def main(url: str, path: Path, per_second: float, seed: int) -> None:
    """Send until SIGTERM, and then until all is acknowledged, and one after that: it proves those before."""
    stop, never = threading.Event(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with path.open("a") as log:
        device = Device(url, log, seed)
        while not stop.wait(1 / per_second):
            device.send()
            device.look()
        for _ in range(2):
            while not device.is_done:
                never.wait(0.02)
                device.look()
            device.send()
        while not device.is_done:
            never.wait(0.02)
            device.look()
        device.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
