"""What the tracker says of many fanouts: exact at each look, and those that are over are not looked at again."""

from batchline import Tracker, open_store
from batchline.runtime.completion import PAGE, Completion


def test_all_fanouts_of_a_label_are_counted_at_each_look() -> None:
    with open_store("memory://") as store:
        tracker = Tracker(store)
        items = {}
        for number in range(2 * PAGE + 5):
            fanout = tracker.open(f"f{number}", labels={"pipeline": "p"}).id
            items[number] = [item for group in tracker.add(fanout, 2) for item in group.items()]
            tracker.seal(fanout)
        tracker.open("other")
        completion = Completion(tracker, {"pipeline": "p"})
        for done in (0, 3, PAGE, PAGE + 7, 2 * PAGE + 4):
            for number in range(done):
                tracker.ack(items[number])
            completion.look()
            sums = completion.sums
            assert (sums.fanouts, sums.total, sums.acked) == (len(items), 2 * len(items), 2 * done)
            assert (completion.complete, sums.pending) == (False, 2 * (len(items) - done))
            assert completion.why_not()[0] == f"f{done}: 2 of 2 parcels have not arrived yet"
        tracker.fail(items[2 * PAGE + 4], "no use")
        completion.look()
        assert completion.why_not() == [f"f{2 * PAGE + 4}: 2 of 2 parcels were refused, the first: no use"]


def test_what_is_over_is_not_looked_at_again() -> None:
    with open_store("memory://") as store:
        tracker = Tracker(store)
        for number in range(PAGE + 1):
            tracker.seal(tracker.open(f"f{number}", labels={"pipeline": "p"}).id)
        completion = Completion(tracker, {"pipeline": "p"})
        completion.look()
        assert completion.complete
        store._tables.fanouts.clear()  # type: ignore[attr-defined] # as expiry would, in time
        completion.look()
        assert completion.sums.fanouts == PAGE
