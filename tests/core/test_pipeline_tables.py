"""A pipeline out of tables: what is described, and what is refused, by its place."""

from datetime import timedelta
from typing import Any

import pytest

from batchline import BatchRules, PackRules
from batchline.core.pipeline import Capacity, Pipeline, Publication, SinkAddress, Source, Work
from batchline.core.pipeline_tables import pipeline_of
from batchline.errors import InvalidPipeline

LEAST: dict[str, Any] = {
    "name": "fleet",
    "out": "out",
    "source": {"address": "landing"},
    "publish": {"store": "sqlite:///fleet.db"},
}
MQTT = {"address": "mqtt://x", "kind": "mqtt", "into": "landing"}


def test_the_least_that_is_needed_has_defaults_for_the_rest() -> None:
    assert pipeline_of(LEAST) == Pipeline("fleet", Source("landing"), Publication("sqlite:///fleet.db"), "out")


def test_every_table_is_read() -> None:
    tables = LEAST | {
        "master": "local[2]",
        "spark": {"spark.driver.memory": "1g"},
        "source": {"address": "mqtt://broker", "kind": "mqtt", "into": "landing", "topics": ["te/#"], "skew": "2s"},
        "batch": {"window": "2s", "max_delay": "5s"},
        "pack": {"max_items": 50},
        "publish": {"store": "sqlite:///fleet.db", "delay": "1m", "tolerate": -1, "without": ["more"]},
        "capacity": {"per_second": 100, "cost": "measurement", "shared": "redis://cache"},
        "sink": {"address": "https://api.example", "headers": {"X-Team": "fleet"}},
        "work": {"lease": "1m", "retry": {"first": "2s"}},
    }
    found = pipeline_of(tables)
    assert found.source == Source(
        "mqtt://broker", "mqtt", into="landing", topics=("te/#",), skew=timedelta(seconds=2), clock="wall"
    )
    assert (found.batch, found.pack) == (
        BatchRules(timedelta(seconds=2), timedelta(seconds=5)),
        PackRules(max_items=50),
    )
    assert found.publish.without == ("more",)
    assert found.capacity == Capacity(100, "measurement", "redis://cache")
    assert found.capacity is not None
    assert found.capacity.piece == 2
    assert found.sink == SinkAddress("https://api.example", {"headers": {"X-Team": "fleet"}})
    assert found.work.retry.first == timedelta(seconds=2)
    assert (found.master, found.spark) == ("local[2]", {"spark.driver.memory": "1g"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sorce": {}}, "has no key 'sorce'; did you mean 'source'?"),
        ({"source": ...}, r"the file needs \[source\]"),
        ({"name": ..., "publish": ...}, r"the file needs name, \[publish\]"),
        ({"name": ""}, "name must have 1 to 255 characters"),
        ({"source": {"addres": "x"}}, r"\[source\] has no key 'addres'; did you mean 'address'?"),
        ({"source": {}}, r"\[source\] needs address"),
        ({"source": {"address": "x", "kind": "kafak"}}, "did you mean 'kafka'"),
        ({"source": {"address": "mqtt://x", "kind": "mqtt"}}, "needs into, the directory"),
        ({"source": MQTT | {"format": "jsno"}}, "format must be one of 'thin-edge', 'collectd', 'json', got 'jsno'"),
        ({"source": MQTT | {"format": "json", "topics": ["a"]}}, "need map, where a measurement's parts are"),
        ({"source": MQTT | {"format": "json", "map": "key=k"}}, "and topics"),
        ({"source": MQTT | {"map": "key=k"}}, "map goes with the format 'json', got the format 'thin-edge'"),
        ({"source": {"address": "x", "order": "sequence"}}, r"\[source\] .*order must be a list, got 'sequence'"),
        ({"source": {"address": "x", "clock": "sun"}}, "clock must be one of 'data', 'wall'"),
        ({"batch": {"window": 5}}, r"\[batch\] .*window must be a span such as '500ms'"),
        ({"batch": {"window": "soon"}}, "expected a span such as 500ms"),
        ({"pack": {"max_items": 0}}, "max_items must lie between"),
        ({"publish": {"store": "sqlite:///x.db", "lanes": 0}}, "lanes must be a whole number from 1 on, got 0"),
        ({"publish": {"store": "sqlite:///x.db", "period": "10ms"}}, "period must be 1s or longer"),
        ({"capacity": {"per_second": "many"}}, "per_second must be a number"),
        ({"capacity": {"per_second": 1, "cost": "parcl"}}, "did you mean 'parcel'"),
        ({"work": {"in_hand": True}}, "in_hand must be a whole number"),
        ({"work": {"retry": {"first": "2x"}}}, r"\[work.retry\]"),
        ({"sink": "stdout:"}, r"\[sink\] must be a table, got 'stdout:'"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(change: dict[str, Any], message: str) -> None:
    tables = {name: table for name, table in (LEAST | change).items() if table is not ...}
    with pytest.raises(InvalidPipeline, match=message):
        pipeline_of(tables)


def test_work_has_the_retry_of_a_worker() -> None:
    assert Work().retry.longest == timedelta(minutes=5)
