"""Dead letters are sent again, and a worker delivers them."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from batchline import NewMessage, Store, Timeline, Tracker, open_store
from batchline.core.consignment import Consignment
from batchline.errors import InvalidInput, PartlyDelivered, RefusedParcel, UnknownTopic
from batchline.runtime.publisher import Publisher, make_topics
from batchline.runtime.resend import Resend, origin_of
from batchline.runtime.worker import Worker
from batchline.sinks.sink import Sink
from tests.contract.parcels.posting import parcels_of
from tests.runtime.working import Answer


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/store.db") as opened:
        yield opened


def refuse(parcels: Sequence[Consignment]) -> Answer:
    """Nothing of numbers 2 and 3, nor the first measurement of number 5."""
    refused = {2: RefusedParcel("no"), 3: RefusedParcel("no"), 5: PartlyDelivered(refused={0: "no"})}
    return {one.id: refused[one.number] for one in parcels if one.number in refused}


class Noting(Sink):
    """Notes what it is sent, and answers as it is told."""

    def __init__(self, answer: Callable[[Sequence[Consignment]], Answer] = lambda _: None):
        self._answer = answer
        self.sent: list[Consignment] = []

    async def send(self, parcels: Sequence[Consignment]) -> Answer:
        self.sent += parcels
        return self._answer(parcels)


def deliver(store: Store, sink: Noting) -> list[Consignment]:
    """Let a worker deliver what is on the topic; all that it sent."""

    async def work() -> None:
        worker = Worker(store, "parcels", sink, worker="w")
        running = asyncio.ensure_future(worker.run())
        while Timeline(store).count("parcels").total:
            await asyncio.wait([running], timeout=0.02)
        worker.stop()
        await running

    asyncio.run(asyncio.wait_for(work(), 60))
    return sink.sent


def publish(store: Store, lanes: Mapping[int, int]) -> Tracker:
    """Put parcels on the timeline, so many of each lane, of the fanout `import`."""
    make_topics(Timeline(store), "parcels")
    tracker = Tracker(store)
    tracker.open("import")
    for lane, last in lanes.items():
        Publisher(store, "parcels", "import").post(parcels_of("import", lane, 1, last))
    tracker.seal("import")
    return tracker


def test_dead_parcels_are_delivered_in_their_order_and_a_fanout_tells_when(store: Store) -> None:
    tracker = publish(store, {0: 6, 1: 3})
    first = deliver(store, Noting(refuse))
    resent = Resend(store, "parcels-dead", "parcels").run()
    assert len(resent.parcels) == 5
    assert resent.messages == []
    second = [one for one in deliver(store, Noting()) if one.lane == 0]
    ids = {one.number: one.id for one in first if one.lane == 0}
    assert [one.id for one in second] == [ids[2], ids[3], f"{ids[5]}-dead"]
    assert [(one.number, one.count, one.reason) for one in second] == [(1, 2, ""), (2, 2, ""), (3, 1, "")]
    status = tracker.status(resent.fanout or "")
    assert (status.state, status.acked, status.labels) == ("complete", 5, {"resend": "parcels-dead"})
    assert Timeline(store).count("parcels-dead").total == 0
    assert tracker.status("import").state == "failed"


def test_what_is_refused_again_is_a_dead_letter_again_and_may_be_sent_under_another_id(store: Store) -> None:
    tracker = publish(store, {0: 2})
    deliver(store, Noting(refuse))
    once = Resend(store, "parcels-dead", "parcels").run(limit=10)
    deliver(store, Noting(lambda parcels: {one.id: RefusedParcel("no") for one in parcels}))
    assert tracker.status(once.fanout or "").state == "failed"
    twice = Resend(store, "parcels-dead", "parcels", new_ids=True).run()
    (sent,) = deliver(store, Noting())
    assert sent.id.endswith(f"~{twice.fanout}")


@pytest.fixture
def timeline(store: Store) -> Timeline:
    found = Timeline(store)
    found.create_topic("jobs", max_attempts=1, dead_letter="grave")
    return found


def bury(timeline: Timeline, *messages: NewMessage) -> None:
    timeline.create("jobs", messages, producer_group="shop")
    timeline.release(timeline.lease("jobs", "c", limit=100))
    assert timeline.lease("jobs", "c", limit=100) == []


def test_a_message_has_its_id_owner_and_priority_again_and_no_attempts(store: Store, timeline: Timeline) -> None:
    bury(timeline, NewMessage(b"one", id="a", priority=7), NewMessage(b"two"))
    assert timeline.count("grave").available == 2
    resent = Resend(store, "grave", origin_of(timeline, "grave")).run()
    assert len(resent.messages) == 2
    assert (resent.parcels, resent.fanout) == ([], None)
    found = {one.body: one for one in timeline.lease("jobs", "c", limit=10)}
    assert found.keys() == {b"one", b"two"}
    again = timeline.read("jobs", "a", producer_group="shop")
    assert (again.attempts, again.priority) == (1, 7)
    assert timeline.count("grave").total == 0


def test_an_id_that_is_used_for_something_else_meanwhile_is_left_to_it(store: Store, timeline: Timeline) -> None:
    bury(timeline, NewMessage(b"old", id="a"))
    timeline.create("jobs", [NewMessage(b"new", id="a")], producer_group="shop")
    assert Resend(store, "grave", "jobs").run().messages == ["a"]
    assert timeline.read("jobs", "a", producer_group="shop").body == b"new"
    assert sorted(one.body for one in timeline.lease("jobs", "c", limit=10)) == [b"new", b"old"]


def test_an_id_that_has_died_twice_comes_back_twice(store: Store, timeline: Timeline) -> None:
    bury(timeline, NewMessage(b"first", id="a", priority=1))
    bury(timeline, NewMessage(b"second", id="a", priority=2))
    assert Resend(store, "grave", "jobs").run().messages == ["a", "a"]
    found = timeline.lease("jobs", "c", limit=10)
    assert [one.body for one in found] == [b"second", b"first"]
    assert timeline.count("grave").total == 0


def test_what_somebody_else_has_leased_stays_and_no_more_than_asked_for_are_sent(
    store: Store, timeline: Timeline
) -> None:
    bury(timeline, *(NewMessage(b"x", id=str(number)) for number in range(5)))
    timeline.lease("grave", "other", limit=1, duration=timedelta(hours=1))
    assert len(Resend(store, "grave", "jobs").run(3).messages) == 3
    assert timeline.count("grave").total == 2


def test_where_dead_letters_came_from_must_be_known(timeline: Timeline) -> None:
    timeline.create_topic("more", max_attempts=1, dead_letter="grave")
    with pytest.raises(InvalidInput, match="those of 'jobs', 'more': say to which"):
        origin_of(timeline, "grave")
    with pytest.raises(InvalidInput, match="of no topic that is known"):
        origin_of(timeline, "more")
    with pytest.raises(UnknownTopic):
        origin_of(timeline, "nowhere")


def test_nothing_is_sent_to_where_it_is(store: Store) -> None:
    with pytest.raises(InvalidInput, match="another topic than theirs"):
        Resend(store, "a", "a")
