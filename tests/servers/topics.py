"""Topics of a Kafka broker, as tests fill them and look into them."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["new_topic", "put_records", "records_of"]

PATIENCE_S = 60.0


def new_topic(url: str, partitions: int = 1, config: dict[str, str] | None = None) -> str:
    """Make a topic that no other test uses, and return its name."""
    name = f"test-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": urlsplit(url).netloc})
    for made in admin.create_topics([NewTopic(name, partitions, 1, config=config or {})]).values():
        made.result(PATIENCE_S)
    return name


def put_records(url: str, topic: str, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
    """Append keys with their values, in order; returns when the broker has them."""
    producer = Producer({"bootstrap.servers": urlsplit(url).netloc, "acks": "all", "linger.ms": 0})
    for key, value in records:
        producer.produce(topic, value, key)
    assert producer.flush(PATIENCE_S) == 0


def records_of(url: str, topic: str) -> list[Message]:
    """All records of a topic, partition by partition in order."""
    with consuming(url) as consumer:
        partitions = consumer.list_topics(topic, PATIENCE_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        found, open_ones = [], set(partitions)
        while open_ones:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"{topic} does not end"
            error = message.error()
            if error is None:
                found.append(message)
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                open_ones.discard(message.partition())
    return sorted(found, key=lambda message: (message.partition(), message.offset()))


@contextmanager
def consuming(url: str) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": urlsplit(url).netloc,
            "group.id": uuid.uuid4().hex,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 20,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()
