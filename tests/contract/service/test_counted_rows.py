"""What metrics read of every store: resources, and how many fanouts are in a state."""

from batchline import Store, Tracker


def test_all_resources_are_listed_by_name(fresh_store: Store) -> None:
    assert fresh_store.read(lambda rows: rows.resources()) == []
    for name, size in (("møbel/b", "1000 by 100"), ("a", "5 by 1")):
        fresh_store.transact(lambda rows, name=name, size=size: rows.insert_resource(name, size))  # type: ignore[misc]
    found = fresh_store.read(lambda rows: rows.resources())
    assert found == [("a", "5 by 1"), ("møbel/b", "1000 by 100")]


def test_fanouts_are_counted_by_state_and_no_further_than_asked(fresh_store: Store) -> None:
    tracker = Tracker(fresh_store)
    for id in ("a", "b", "c"):
        tracker.open(id)
    tracker.seal("c")
    assert fresh_store.read(lambda rows: rows.count_fanouts("open", 10)) == 2
    assert fresh_store.read(lambda rows: rows.count_fanouts("open", 1)) == 1
    assert fresh_store.read(lambda rows: rows.count_fanouts("complete", 10)) == 1
    assert fresh_store.read(lambda rows: rows.count_fanouts("failed", 10)) == 0
