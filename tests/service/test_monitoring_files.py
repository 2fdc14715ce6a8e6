"""The page of metrics, the dashboard and the alerts speak of the metrics that there are."""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from batchline.core.attendance import BrokerHealth
from batchline.service.metrics import Metrics
from batchline.service.service import OPERATIONS
from batchline.service.store_families import families
from batchline.service.store_numbers import StoreNumbers

ROOT = Path(__file__).parents[2]
DASHBOARD = json.loads((ROOT / "deploy/grafana/batchline.json").read_text())
GROUPS = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text())["groups"]
ALERTS = [rule for group in GROUPS for rule in group["rules"]]
PAGE = (ROOT / "docs/reference/metrics.md").read_text()
NAME = re.compile(r"\b(?:batchline|process)_[a-z_]+\b")
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("_total",), "gauge": ("",)}


def there() -> Iterator[Any]:
    yield from Metrics().registry.collect()
    health = BrokerHealth("b", timedelta(0), False, 1)
    yield from families(StoreNumbers(), health, lambda _: True, up=True)


def documented() -> dict[str, tuple[str, set[str]]]:
    """Type and labels, by name, as the page has them."""
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|(.*?)\| .+ \|$", PAGE, re.MULTILINE)
    return {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


def test_the_page_names_every_metric_with_its_type_and_no_other() -> None:
    expected = {one.name + ("_total" if one.type == "counter" else ""): one.type for one in there()}
    assert {name: kind for name, (kind, _) in documented().items()} == expected


def test_the_page_names_the_labels_of_those_that_are_counted_here() -> None:
    for metric in vars(Metrics()).values():
        if hasattr(metric, "_labelnames"):
            name = metric._name + ("_total" if metric._type == "counter" else "")
            assert documented()[name][1] == set(metric._labelnames)


def queries() -> list[str]:
    panels = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    variables = [one["query"]["query"] for one in DASHBOARD["templating"]["list"] if isinstance(one["query"], dict)]
    return [*panels, *variables, *(rule["expr"] for rule in ALERTS)]


@pytest.mark.parametrize("query", queries())
def test_a_query_asks_for_metrics_and_labels_that_there_are(query: str) -> None:
    known = {one.name + suffix for one in there() for suffix in SUFFIXES[one.type]}
    found = NAME.findall(query)
    assert found or query.startswith("up{")
    assert set(found) <= known
    assert query.count("(") == query.count(")")
    assert query.count("{") == query.count("}")
    labels = {label for _, of in documented().values() for label in of} | {"job", "instance", "le"}
    asked = re.findall(r"(\w+)=~?\"", query) + [
        label.strip() for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(",")
    ]
    assert set(asked) <= labels


def test_operations_in_queries_are_there() -> None:
    names = {operation.name for operation in OPERATIONS}
    for query in queries():
        for text in re.findall(r"operation=~?\"([^\"]+)\"", query):
            assert set(text.split("|")) <= names


def test_the_dashboard_has_a_row_for_each_part_and_lets_one_choose() -> None:
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert rows == ["Service", "Timeline", "Fanouts", "Capacity", "Pipeline"]
    assert [one["name"] for one in DASHBOARD["templating"]["list"]] == ["datasource", "topic"]
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(numbers) == len(set(numbers))
    assert {panel["datasource"]["uid"] for panel in DASHBOARD["panels"] if panel["type"] != "row"} == {"${datasource}"}


def test_an_alert_says_how_bad_it_is_and_what_to_do() -> None:
    assert len({rule["alert"] for rule in ALERTS}) == len(ALERTS) >= 5
    for rule in ALERTS:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description"}
