"""/v1/pipeline: keys are searched, and windows of one are paged from the newest back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from batchline.core.batch_rules import BatchRules
from batchline.local import batch_table, write_batched
from batchline.sources.sample import Fleet, sample_fleet
from batchline.stores import open_store
from tests.service.serving import serving

WINDOWS = "/v1/pipeline/windows"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    tables = tmp_path_factory.mktemp("tables")
    write_batched(batch_table(sample_fleet(Fleet(devices=12, minutes=0.5)), BatchRules()), {}, tables)
    with (
        open_store("memory://") as store,
        serving(store, tables=tables) as url,
        httpx2.Client(base_url=url) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def key(client: httpx2.Client) -> str:
    found = client.get("/v1/pipeline/keys", params={"limit": 1}).json()
    assert found["tables"] is True
    return str(found["keys"][0]["key"])


def windows(client: httpx2.Client, **query: Any) -> dict[str, Any]:
    answer = client.get(WINDOWS, params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_pages_from_the_newest_back_are_all_windows_once(client: httpx2.Client, key: str) -> None:
    seen: list[dict[str, Any]] = []
    rejected: list[dict[str, Any]] = []
    while True:
        page = windows(client, key=key, limit=10, skip=len(seen))
        assert (page["later"], page["earlier"]) == (len(seen), page["batches"] - len(seen) - len(page["windows"]))
        seen = page["windows"] + seen
        rejected = page["rejected"] + rejected
        if not page["earlier"]:
            break
    assert len({one["id"] for one in seen}) == len(seen) == page["batches"]
    assert [one["begin"] for one in seen] == sorted(one["begin"] for one in seen)
    assert sum(len(one["members"]) for one in seen) == sum(one["messages"] for one in seen) == page["batched"]
    assert len(rejected) == sum(page["rejected_by_reason"].values())


def test_members_lie_in_their_window_and_types_can_be_chosen(client: httpx2.Client, key: str) -> None:
    whole = windows(client, key=key, limit=5)
    for one in whole["windows"]:
        assert all(one["begin"] <= member["event"] < one["end"] for member in one["members"])
    chosen = windows(client, key=key, limit=5, type=whole["types"][0])
    assert chosen["types"] == whole["types"][:1]
    assert [one["messages"] for one in chosen["windows"]] == [one["messages"] for one in whole["windows"]]


def test_a_page_beyond_the_first_window_is_empty(client: httpx2.Client, key: str) -> None:
    page = windows(client, key=key, skip=100_000)
    assert (page["windows"], page["earlier"], page["later"]) == ([], 0, page["batches"])


@pytest.mark.parametrize("query", [{"key": "nobody"}, {"key": ""}])
def test_a_key_that_is_not_there_is_unknown(client: httpx2.Client, query: dict[str, str]) -> None:
    answer = client.get(WINDOWS, params=query)
    assert (answer.status_code, answer.json()["type"]) == (404, "/problems/UnknownKey")


@pytest.mark.parametrize("query", [{}, {"key": "a", "limit": 0}, {"key": "a", "skip": -1}, {"key": "a", "lmit": 1}])
def test_what_cannot_be_a_page_is_refused(client: httpx2.Client, query: dict[str, Any]) -> None:
    assert client.get(WINDOWS, params=query).status_code == 400


def test_without_tables_it_is_said_how_to_give_them(tmp_path: Path) -> None:
    with open_store("memory://") as store, serving(store) as url, httpx2.Client(base_url=url) as client:
        assert client.get("/v1/pipeline/keys").json() == {"keys": [], "tables": False}
        answer = client.get(WINDOWS, params={"key": "pump-1"})
        assert (answer.status_code, "batchline serve --tables" in answer.json()["detail"]) == (404, True)
    with open_store("memory://") as store, serving(store, tables=tmp_path / "soon") as url:
        assert httpx2.get(f"{url}/v1/pipeline/keys").json() == {"keys": [], "tables": True}
