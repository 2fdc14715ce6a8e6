"""What the metrics tell of a store: read at one moment, at a cost that has a bound whatever is in it."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from batchline.core.fanout import STATES, State
from batchline.core.future_load import Counts, Range
from batchline.core.message import LATEST_MS
from batchline.core.topic import Topic
from batchline.runtime.timeline import LIVE_FOR
from batchline.stores.counting import count_messages
from batchline.stores.delivering import DEAD
from batchline.stores.rows import Rows
from batchline.stores.sharing import partition_holders
from batchline.stores.timeline_rows import BEFORE_ALL, stretch_of
from batchline.stores.tracker_rows import Listing

__all__ = ["MOST_COUNTED", "MOST_FANOUTS", "Reported", "StoreNumbers", "TopicNumbers", "store_numbers"]

#: Topics that are counted; of those after them, by name, nothing is known.
MOST_COUNTED: Final = 250
#: Up to here fanouts of a state are counted.
MOST_FANOUTS: Final = 10_000
MOST_RESOURCES: Final = 50
MOST_PROCESSES: Final = 100
MOST_REPORTED: Final = 50
LIVE_FOR_MS: Final = int(LIVE_FOR.total_seconds() * 1_000)
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
    # Those of parcels go to a topic that is named after theirs.
    dead = {name for topic in topics for name in (topic.dead_letter, topic.name + DEAD)}
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
    first = rows.due(stretch_of(topic, range(topic.buckets), now_ms), BEFORE_ALL, 1)
    lag_ms = now_ms - first[0].at_ms if first else 0
    consumers = len(rows.consumers(topic.number, now_ms - LIVE_FOR_MS))
    return TopicNumbers(topic.name, counts, lag_ms, consumers, dead_letters)


def _oldest_us(rows: Rows, state: State, now_us: int) -> int:
    """How long the oldest fanout of a state has been open; 0 without one."""
    found = rows.list_fanouts(Listing(0, 1, state))
    return now_us - int(found[0][1].opened_at.timestamp() * 1_000_000) if found else 0


def _held(rows: Rows, resources: list[str], now_ms: int) -> Iterator[tuple[tuple[str, str], int]]:
    for name in resources:
        for instance, count in Counter(partition_holders(rows, name, now_ms).values()).items():
            yield (name, instance), count


def _reported(rows: Rows, now_ms: int) -> Iterator[Reported]:
    for row in rows.latest_reports(now_ms - REPORTS_MS)[:MOST_PROCESSES]:
        yield Reported(row.kind, row.name, now_ms - row.at_ms, dict(_numbers(row.body)))


def _numbers(body: str) -> list[tuple[str, float]]:
    said = json.loads(body)
    pairs = said.items() if isinstance(said, dict) else ()
    return [(name, float(value)) for name, value in pairs if isinstance(value, (int, float))][:MOST_REPORTED]
