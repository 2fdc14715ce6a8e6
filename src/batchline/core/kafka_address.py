"""Where a Kafka topic is, as text: kafka://host:9092,other:9092/topic."""

import re
from typing import Final, NamedTuple

from batchline.errors import InvalidInput, shown

__all__ = ["KafkaAddress", "kafka_address"]

SCHEME: Final = "kafka://"
EXPECTED: Final = "kafka://host:9092,other:9092/topic"
SERVER: Final = re.compile(r"([\w.-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?", re.ASCII)
TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


class KafkaAddress(NamedTuple):
    """Brokers to begin with, and a topic."""

    #: host:port,host:port, as Kafka's clients take it.
    servers: str
    topic: str

    def __str__(self) -> str:
        return f"{SCHEME}{self.servers}/{self.topic}"


def kafka_address(text: object) -> KafkaAddress:
    """The parts of an address; raises InvalidInput if it is none."""
    if not isinstance(text, str) or not text.startswith(SCHEME):
        raise InvalidInput(f"expected the address of a Kafka topic, {EXPECTED}, got {shown(text)}")
    if "@" in text:
        raise InvalidInput(
            "the address of a Kafka topic has no user in it: give sasl.username and the like as settings"
        )
    servers, _, topic = text.removeprefix(SCHEME).partition("/")
    if not all(SERVER.fullmatch(server) for server in servers.split(",")):
        raise InvalidInput(f"expected {EXPECTED}, got no host, or an impossible one, in {shown(text)}")
    if not TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise InvalidInput(
            f"expected {EXPECTED}, got the topic {shown(topic)}: up to 249 letters, digits, points, _ and -"
        )
    return KafkaAddress(servers, topic)
