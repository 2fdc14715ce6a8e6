"""What the metrics tell of a store: read at one moment, at a cost that has a bound whatever is in it."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from batchline.core.fanout import STATES, State
from batchline.core.future_load import Counts, Range
from batchline.core.message import LATEST_MS
from batchline.core.moment import us_of
from batchline.core.topic import Topic, dead_letter_topics, span_ms
from batchline.runtime.timeline import LIVE_FOR
from batchline.stores.counting import count_messages
from batchline.stores.looking import next_due_ms
from batchline.stores.rows import Rows
from batchline.stores.sharing import partition_holders
from batchline.stores.timeline_rows import stretch_of
from batchline.stores.tracker_rows import Listing

__all__ = ["MOST_COUNTED", "MOST_FANOUTS", "Reported", "StoreNumbers", "TopicNumbers", "store_numbers"]

#: Topics that are counted; of those after them, by name, nothing is known.
MOST_COUNTED: Final = 250
#: Up to here fanouts of a state are counted.
MOST_FANOUTS: Final = 10_000
MOST_RESOURCES: Final = 50
MOST_PROCESSES: Final = 100
MOST_REPORTED: Final = 50
#: Processes that have said nothing for so long are gone.
REPORTS_MS: Final = 60_000
UNFINISHED: Final[tuple[State, ...]] = ("open", "sealed")


@dataclass(frozen=True, slots=True)
class TopicNumbers:
    """A topic: its messages by state, how long the oldest has been available, and who consumes it."""

    name: str
    counts: Counts
    lag_ms: int
    consumers: int
    #: Whether it is where another topic's dead letters go.
    dead_letters: bool


@dataclass(frozen=True, slots=True)
class Reported:
    """What a process said of itself last."""

    kind: str
    name: str
    age_ms: int
    #: Of which topic it tells; None if of none.
    topic: str | None
    numbers: dict[str, float]


@dataclass(frozen=True, slots=True)
class StoreNumbers:
    """All of it."""

    topics: int = 0
    by_topic: list[TopicNumbers] = field(default_factory=list)
    fanouts: dict[State, int] = field(default_factory=dict)
    oldest_fanout_us: dict[State, int] = field(default_factory=dict)
    #: How many partitions a resource has, and how many an instance holds of it.
    partitions: dict[str, int] = field(default_factory=dict)
    held: dict[tuple[str, str], int] = field(default_factory=dict)
    tokens: int = 0
    reported: list[Reported] = field(default_factory=list)


def store_numbers(rows: Rows, now_us: int) -> StoreNumbers:
    """Read them."""
    topics, now_ms = rows.topics(), now_us // 1_000
    dead = dead_letter_topics(topics)
    resources = [row.name for row in rows.resources()[:MOST_RESOURCES]]
    return StoreNumbers(
        topics=len(topics),
        by_topic=[_topic(rows, topic, topic.name in dead, now_ms) for topic in topics[:MOST_COUNTED]],
        fanouts={state: rows.count_fanouts(state, MOST_FANOUTS) for state in STATES},
        oldest_fanout_us={state: _oldest_us(rows, state, now_us) for state in UNFINISHED},
        partitions={name: len(rows.partitions(name)) for name in resources},
        held=dict(_held(rows, resources, now_ms)),
        tokens=sum(token.revoked_ms is None for token in rows.tokens()),
        reported=list(_reported(rows, now_ms)),
    )


def _topic(rows: Rows, topic: Topic, dead_letters: bool, now_ms: int) -> TopicNumbers:
    counts = count_messages(rows, topic, Range(0, LATEST_MS), now_ms)
    oldest_ms = next_due_ms(rows, stretch_of(topic, range(topic.buckets), now_ms), topic) if counts.available else None
    lag_ms = 0 if oldest_ms is None else now_ms - oldest_ms
    consumers = len(rows.consumers(topic.number, now_ms - span_ms(LIVE_FOR)))
    return TopicNumbers(topic.name, counts, lag_ms, consumers, dead_letters)


def _oldest_us(rows: Rows, state: State, now_us: int) -> int:
    """How long the oldest fanout of a state has been open; 0 without one."""
    found = rows.list_fanouts(Listing(0, 1, state))
    return now_us - us_of(found[0][1].opened_at) if found else 0


def _held(rows: Rows, resources: list[str], now_ms: int) -> Iterator[tuple[tuple[str, str], int]]:
    for name in resources:
        for instance, count in Counter(partition_holders(rows, name, now_ms).values()).items():
            yield (name, instance), count


def _reported(rows: Rows, now_ms: int) -> Iterator[Reported]:
    for row in rows.latest_reports(now_ms - REPORTS_MS)[:MOST_PROCESSES]:
        said = json.loads(row.body)
        numbers = [(name, float(value)) for name, value in said.items() if isinstance(value, (int, float))]
        yield Reported(row.kind, row.name, now_ms - row.at_ms, said.get("topic"), dict(numbers[:MOST_REPORTED]))
