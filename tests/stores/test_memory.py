"""The store in memory: a transaction that raises leaves nothing behind."""

import copy
from typing import Any

import pytest

from batchline import Tracker, open_store
from batchline.core.item_group import slot_of
from batchline.stores.memory import MemoryStore
from batchline.stores.memory_tables import Table
from batchline.stores.tracker_rows import Failure, Shard, TrackerRows


def everything(store: MemoryStore) -> dict[str, dict[Any, Any]]:
    tables = store._tables
    names = ("fanouts", "numbers", "labels", "shards", "adds", "add_ids", "groups", "failures", "last")
    return {name: copy.deepcopy(dict(getattr(tables, name))) for name in names}


@pytest.fixture
def store() -> MemoryStore:
    store = open_store("memory://")
    assert isinstance(store, MemoryStore)
    return store


def test_a_transaction_that_raises_is_taken_back(store: MemoryStore) -> None:
    tracker = Tracker(store)
    fanout = tracker.open("f", labels={"a": "b"}, tolerate=None).id
    (group,) = tracker.add(fanout, 5, add_id="x")
    tracker.fail([(group, 1)], "broken")
    before = everything(store)

    def work(rows: TrackerRows) -> None:
        (found,) = rows.fanouts_by_id(["f"]).values()
        found.total = 77
        rows.write_fanout(found)
        number = rows.insert_add(found.number, "y", 1, None)
        assert number is not None
        rows.insert_groups(number, 1)
        rows.write_groups([(slot_of(1, 0), 1)])
        rows.insert_failures([Failure(slot_of(1, 0), 2, "more", 5), Failure(slot_of(number, 0), 1, "new", 5)])
        rows.write_shards([Shard(found.number, 1, 99, 99)])
        rows.grow_shards(found.number, {7: 5}, 9)
        rows.clear_fanout(found.number, 100)
        rows.delete_fanout(found.number)
        assert rows.status("f") is None
        raise KeyError("on purpose")

    with pytest.raises(KeyError, match="on purpose"):
        store.transact(work)
    assert everything(store) == before
    assert tracker.ack([(group, 0b11110)]).changed == 4


def test_what_is_read_can_be_changed_without_changing_what_is_kept(store: MemoryStore) -> None:
    fanout = Tracker(store).open("f", labels={"a": "b"}).id

    def work(rows: TrackerRows) -> None:
        for found in (rows.fanouts_by_id([fanout])[fanout], rows.hold_fanout(1)):
            assert found is not None
            found.total = 77
        status = rows.status(fanout)
        assert status is not None
        status.labels["a"] = "c"

    store.read(work)
    assert (Tracker(store).status(fanout).total, Tracker(store).status(fanout).labels) == (0, {"a": "b"})


def test_a_table_remembers_how_to_take_back_what_was_done() -> None:
    done: list[Any] = []
    table = Table(done)
    table["a"] = 1
    done.clear()
    table["a"] = 2
    table["b"] = 3
    del table["a"]
    table["a"] = 4
    while done:
        done.pop()()
    assert table == {"a": 1}


def test_there_is_no_schema(store: MemoryStore) -> None:
    assert (store.version(), store.migrate()) == (0, [])
    store.check_schema()
    store.close()
