"""An ingest that is killed at the worst moment: `python -m tests.acceptance.ingesting before|after URL DIR`."""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from batchline.runtime.clock import elapsed_seconds, now_us
from batchline.sources.landing import Landing
from batchline.sources.measured import Arrival
from batchline.sources.mqtt import MqttIngest, MqttRules
from batchline.sources.mqtt_address import MqttAddress
from batchline.sources.thin_edge import parse_thin_edge

__all__ = ["main"]


class FatalLanding(Landing):
    """Its process is killed as it lands: before anything is durable, or when all is and nothing is acknowledged."""

    when = "before"

    def land(self, arrivals: Sequence[Arrival]) -> None:
        """Die."""
        if self.when == "after":
            super().land(arrivals)
        os.kill(os.getpid(), signal.SIGKILL)


def main(when: str, url: str, into: Path) -> None:
    """Receive, until something comes."""
    landing = FatalLanding(into, "mqtt")
    landing.when = when
    rules = MqttRules("batchline-mqtt")
    topics = ["te/+/+/+/+/m/+"]
    broker = MqttAddress.from_text(url)
    ingest = MqttIngest(broker, topics, parse_thin_edge, landing, rules, now_us=now_us, elapsed=elapsed_seconds)
    ingest.run(threading.Event())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
