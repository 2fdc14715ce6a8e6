"""Stage 4: who is there, and whether its clock is right."""

from dataclasses import dataclass
from datetime import timedelta

__all__ = ["BrokerHealth", "Subscription"]


@dataclass(frozen=True, slots=True)
class Subscription:
    """A consumer's share of a topic, as of its last heartbeat."""

    topic: str
    consumer: str
    #: The buckets whose messages it is offered: a hint that keeps consumers out of each other's way.
    buckets: range
    #: How many consumers share the topic.
    consumers: int
    #: How far the consumer's clock is ahead of the broker's.
    drift: timedelta


@dataclass(frozen=True, slots=True)
class BrokerHealth:
    """What a broker knows about its clock, as of the last comparison."""

    name: str
    #: How far its clock is off the database's, or off that of a majority of hosts.
    drift: timedelta
    #: Whether that is too much: it answers reads, and changes nothing.
    degraded: bool
    #: How many brokers were seen lately, this one included.
    brokers: int
    #: On how many hosts: each has one vote.
    hosts: int = 1
