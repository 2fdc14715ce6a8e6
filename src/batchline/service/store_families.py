"""The numbers of a store as metrics; what has a name of its own is bounded, and the rest is `other`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from batchline.core.attendance import BrokerHealth
from batchline.service.store_numbers import Reported, StoreNumbers, TopicNumbers

__all__ = ["MOST_NAMED", "OTHER", "families"]

#: Topics, and instances of a resource, that are told by their names.
MOST_NAMED: Final = 50
OTHER: Final = "other"
Labels = tuple[str, ...]
Value = tuple[Labels, float]


def families(
    numbers: StoreNumbers, health: BrokerHealth | None, may_see: Callable[[str], bool], *, up: bool
) -> Iterator[Metric]:
    """All of them, with or without a value; a topic that one may not see is `other`, and its workers are not told."""
    yield _one("store_up", "Whether the store answered the last look at it.", float(up))
    yield from _clock(health)
    yield from _topics(numbers, may_see)
    yield _family("fanouts", "Fanouts by state; counted up to 10,000.", ("state",), _by_one(numbers.fanouts))
    oldest = [((state,), age / 1e6) for state, age in numbers.oldest_fanout_us.items()]
    yield _family("oldest_fanout_age_seconds", "How long ago the oldest unfinished was opened.", ("state",), oldest)
    yield _family("partitions", "Partitions of a shared resource.", ("resource",), _by_one(numbers.partitions))
    held = _bounded(((*key,), float(count)) for key, count in numbers.held.items())
    yield _family("partitions_held", "Partitions that an instance holds.", ("resource", "instance"), held)
    yield _one("tokens", "Tokens that are not revoked.", numbers.tokens)
    yield from _reports([one for one in numbers.reported if one.topic is None or may_see(one.topic)])


def _clock(health: BrokerHealth | None) -> Iterator[Metric]:
    known = [] if health is None else [health]
    yield _family("brokers", "Service processes seen lately.", (), [((), one.brokers) for one in known])
    drift = [((), one.drift.total_seconds()) for one in known]
    yield _family("clock_drift_seconds", "How far this process's clock is off that of the others.", (), drift)
    degraded = [((), float(one.degraded)) for one in known]
    yield _family("clock_degraded", "Whether that is too much, so that it changes nothing.", (), degraded)


def _topics(numbers: StoreNumbers, may_see: Callable[[str], bool]) -> Iterator[Metric]:
    label = _labels_of(numbers.by_topic, may_see)
    yield _one("topics", "Topics, counted below or not.", numbers.topics)
    states = [
        ((label[one.name], state), float(getattr(one.counts, state)))
        for one in numbers.by_topic
        for state in ("waiting", "available", "processing")
    ]
    yield _family("messages", "Messages by topic and state.", ("topic", "state"), _summed(states))
    lags = [((label[one.name],), one.lag_ms / 1e3) for one in numbers.by_topic]
    text = "How long ago the oldest message that is available became due; 0 without one."
    yield _family("oldest_message_age_seconds", text, ("topic",), _summed(lags, max))
    consumers = [((label[one.name],), float(one.consumers)) for one in numbers.by_topic]
    yield _family("consumers", "Consumers that take part in a topic.", ("topic",), _summed(consumers))
    dead = [((label[one.name],), float(one.counts.total)) for one in numbers.by_topic if one.dead_letters]
    yield _family("dead_letters", "Messages on topics for dead letters.", ("topic",), _summed(dead))


def _reports(reported: Sequence[Reported]) -> Iterator[Metric]:
    said = [((one.kind, one.name, name), value) for one in reported for name, value in sorted(one.numbers.items())]
    yield _family("reported", "Numbers that processes say of themselves.", ("kind", "process", "number"), said)
    ages = [((one.kind, one.name), one.age_ms / 1e3) for one in reported]
    yield _family("report_age_seconds", "How long ago a process has said so.", ("kind", "process"), ages)


def _labels_of(topics: Iterable[TopicNumbers], may_see: Callable[[str], bool]) -> dict[str, str]:
    names = [one.name for one in topics]
    named = [name for name in names if may_see(name)][:MOST_NAMED]
    return dict.fromkeys(names, OTHER) | {name: name for name in named}


def _bounded(values: Iterable[tuple[tuple[str, str], float]]) -> list[Value]:
    """At most so many instances of each resource by name."""
    found: dict[str, int] = {}
    labelled: list[Value] = []
    for (resource, instance), value in values:
        found[resource] = found.get(resource, 0) + 1
        labelled.append(((resource, instance if found[resource] <= MOST_NAMED else OTHER), value))
    return _summed(labelled)


def _summed(values: Iterable[Value], put: Callable[[float, float], float] = lambda a, b: a + b) -> list[Value]:
    """A value for each of the labels."""
    found: dict[Labels, float] = {}
    for labels, value in values:
        found[labels] = put(found[labels], value) if labels in found else value
    return list(found.items())


def _by_one(values: Mapping[Any, int]) -> list[Value]:
    return [((label,), float(value)) for label, value in values.items()]


def _one(name: str, text: str, value: float) -> Metric:
    return _family(name, text, (), [((), value)])


def _family(name: str, text: str, labels: Labels, values: Iterable[Value]) -> Metric:
    made = GaugeMetricFamily(f"batchline_{name}", text, labels=labels)
    for of, value in values:
        made.add_metric(of, value)
    return made
