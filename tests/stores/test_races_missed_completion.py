"""The race that the original loses: the fanout is sealed while its last item is acknowledged. Driven step by step."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from batchline.core.ack import AckOutcome, SealOutcome
from batchline.core.item_group import shard_of, slot_and_salt
from batchline.errors import FanoutSealed
from batchline.runtime.tracker import Tracker
from batchline.stores.opening import open_store
from tests.stores.observing import Beside, beside

T = TypeVar("T")

# --- the original -----------------------------------------------------------------------------------------------------


def original_schema(connection: Beside) -> None:
    """Its two tables, with one open batch of one item that is pending."""
    connection.run("CREATE TABLE batch (id integer PRIMARY KEY, closed integer NOT NULL)")
    connection.run("CREATE TABLE item_group (id integer PRIMARY KEY, batch integer NOT NULL, bits bigint NOT NULL)")
    connection.run("INSERT INTO batch VALUES (1, 0)")
    connection.run("INSERT INTO item_group VALUES (1, 1, 1)")


def original_check(connection: Beside) -> bool:
    """How it asks whether a batch is complete."""
    ((closed,),) = connection.run("SELECT closed FROM batch WHERE id = 1")
    return bool(closed) and not connection.run("SELECT 1 FROM item_group WHERE batch = 1 AND bits <> 0")


SEAL = "UPDATE batch SET closed = 1 WHERE id = 1"
ACK = "UPDATE item_group SET bits = bits & ~1 WHERE id = 1"


def test_the_original_tells_nobody_when_seal_and_last_ack_overlap(server_database: str) -> None:
    with beside(server_database) as sealer, beside(server_database) as acker:
        original_schema(sealer)
        sealer.run("BEGIN")
        acker.run("BEGIN")
        sealer.run(SEAL)
        acker.run(ACK)
        told = [original_check(sealer), original_check(acker)]
        sealer.run("COMMIT")
        acker.run("COMMIT")
        assert told == [False, False]
        assert original_check(sealer)  # it is complete, and nobody will ever know


@pytest.mark.parametrize(("first", "second"), [(SEAL, ACK), (ACK, SEAL)])
def test_the_original_tells_one_when_they_do_not_overlap(server_database: str, first: str, second: str) -> None:
    with beside(server_database) as connection:
        original_schema(connection)
        told = []
        for statement in (first, second):
            connection.run("BEGIN")
            connection.run(statement)
            told.append(original_check(connection))
            connection.run("COMMIT")
        assert told == [False, True]


# --- ours -------------------------------------------------------------------------------------------------------------


def at_once(watch: Beside, keep: Beside, calls: Sequence[Callable[[], T]]) -> list[T]:
    """Make calls that all wait for the rows of fanouts, in this order, and only then let them go; their answers."""
    with ThreadPoolExecutor(len(calls)) as threads:
        with keep.holding("batchline_fanouts"):
            running = []
            for number, call in enumerate(calls, 1):
                running.append(threads.submit(call))
                watch.wait_for_waiting(number)
        return [one.result() for one in running]


def times_told(answers: Sequence[object], fanout: str) -> int:
    """How many were told that the fanout is complete."""
    return sum(
        fanout in answer.completed if isinstance(answer, AckOutcome) else answer.completed
        for answer in answers
        if isinstance(answer, AckOutcome | SealOutcome)
    )


def last_ack(tracker: Tracker, how: str, items: list[str]) -> Callable[[], AckOutcome]:
    """Finish the last items in one of several ways, each of which takes another path to the rows."""
    group, _, _ = items[0].rpartition(":")
    return {
        "single": lambda: tracker.ack(items[:1]),
        "mask": lambda: tracker.ack([(group.rpartition(":")[2], 1)]),
        "bulk": lambda: tracker.ack(items),
        "fail": lambda: tracker.fail(items, "no use"),
    }[how]


@pytest.mark.parametrize("seal_first", [True, False])
@pytest.mark.parametrize("how", ["single", "mask", "bulk", "fail"])
def test_exactly_one_is_told_when_seal_and_last_ack_overlap(server_database: str, how: str, seal_first: bool) -> None:
    with open_store(server_database) as store, beside(server_database) as watch, beside(server_database) as keep:
        tracker = Tracker(store)
        fanout = tracker.open(tolerate=None).id
        items = [item for _ in range(2) for group in tracker.add(fanout, 1) for item in group.items()]
        if how in ("single", "mask"):
            tracker.ack(items[1:])
        calls: list[Callable[[], object]] = [lambda: tracker.seal(fanout), last_ack(tracker, how, items)]
        answers = at_once(watch, keep, calls if seal_first else calls[::-1])
        assert times_told(answers, fanout) == 1
        assert tracker.status(fanout).state == "complete"


@pytest.mark.parametrize("hows", [("single", "single"), ("single", "bulk"), ("bulk", "bulk"), ("fail", "single")])
def test_exactly_one_is_told_when_the_last_two_shards_are_emptied_at_once(
    server_database: str, hows: tuple[str, str]
) -> None:
    with open_store(server_database) as store, beside(server_database) as watch, beside(server_database) as keep:
        tracker = Tracker(store)
        fanout = tracker.open(tolerate=None).id
        adds = [[item for group in tracker.add(fanout, 1) for item in group.items()] for _ in hows]
        tracker.seal(fanout)
        answers = at_once(watch, keep, [last_ack(tracker, how, items) for how, items in zip(hows, adds, strict=True)])
        assert times_told(answers, fanout) == 1
        assert tracker.status(fanout).state == "complete"


@pytest.mark.parametrize("seal_first", [True, False])
def test_no_item_slips_in_while_the_fanout_is_sealed(server_database: str, seal_first: bool) -> None:
    with open_store(server_database) as store, beside(server_database) as watch, beside(server_database) as keep:
        tracker = Tracker(store)
        fanout = tracker.open().id
        calls: list[Callable[[], object]] = [
            lambda: tracker.seal(fanout).completed,
            lambda: added(tracker, fanout),
        ]
        answers = at_once(watch, keep, calls if seal_first else calls[::-1])
        completed, count = answers if seal_first else answers[::-1]
        status = tracker.status(fanout)
        assert (completed, count) in ((True, 0), (False, 3))
        assert (status.total, status.pending, status.completed) == (count, count, completed)
        assert len(tracker.pending_items(fanout)) == count


def added(tracker: Tracker, fanout: str) -> int:
    try:
        return sum(group.upto for group in tracker.add(fanout, 3))
    except FanoutSealed:
        return 0


def test_a_bulk_ack_over_parent_and_child_meets_the_failure_of_the_child_and_each_end_is_told_once(
    server_database: str,
) -> None:
    with open_store(server_database) as store, beside(server_database) as watch, beside(server_database) as keep:
        tracker = Tracker(store)
        parent = tracker.open().id
        child = tracker.open(parent=parent).id
        of_parent, first, last = (list(tracker.add(one, 1)[0].items()) for one in (parent, child, child))
        tracker.seal(child)
        tracker.seal(parent)
        # One will hold the parent and want the child, the other hold the child and want the parent: a circle.
        calls = [lambda: tracker.ack(of_parent + first), lambda: tracker.fail(last, "no use")]
        answers = at_once(watch, keep, calls)
        assert sorted(one for answer in answers for one in answer.failed) == sorted([child, parent])
        assert sum(answer.changed for answer in answers) == 3
        assert tracker.status(parent).state == tracker.status(child).state == "failed"


def test_the_parent_is_told_once_when_its_last_two_children_end_at_once(server_database: str) -> None:
    with open_store(server_database) as store, beside(server_database) as watch, beside(server_database) as keep:
        tracker = Tracker(store)
        parent = tracker.open().id
        children = [tracker.open(parent=parent).id for _ in range(2)]
        tracker.seal(parent)
        answers = at_once(watch, keep, [lambda: tracker.seal(children[0]), lambda: tracker.seal(children[1])])
        parents = [answer.parents_completed for answer in answers]
        assert sorted(parents) == [(), (parent,)]


# --- and acks of one fanout do not queue up ---------------------------------------------------------------------------


def test_an_ack_that_empties_no_shard_waits_neither_for_the_fanout_nor_for_other_shards(server_database: str) -> None:
    with open_store(server_database) as store, beside(server_database) as keep:
        tracker = Tracker(store)
        fanout = tracker.open().id
        groups = tracker.add(fanout, 64 * 20)
        items = [list(group.items()) for group in groups]
        with keep.holding("batchline_fanouts"):
            # It would raise StoreUnavailable, or never come back, if it took the lock that is held.
            assert tracker.ack(items[0][:1]).changed == 1
            assert tracker.ack([group[1] for group in items]).changed == 20
        assert tracker_shard(groups[3].id) != tracker_shard(groups[4].id)
        with keep.holding("batchline_shards", f"fanout = 1 AND shard = {tracker_shard(groups[4].id)}"):
            assert tracker.ack(items[3][2:3]).changed == 1
            assert tracker.ack(items[3][3:5]).changed == 2


def tracker_shard(group: str) -> int:
    read = slot_and_salt(group)
    assert read is not None
    return shard_of(read[0])
