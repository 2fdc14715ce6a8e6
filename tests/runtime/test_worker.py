"""A worker, in virtual time: parcels into a sink, each lane in order, whatever the sink does."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import pytest

from batchline import LeasedMessage, NewMessage, ProvisionedResource, RetryRules
from batchline.core.consignment import GZIP_FROM, Consignment, read_consignment
from batchline.core.signature import LaneProof
from batchline.core.topic import dead_letters_of
from batchline.errors import InvalidRules, PartlyDelivered, RefusedParcel, Throttled, Undelivered
from batchline.runtime.deliveries import Deliveries
from batchline.runtime.lane_proofs import LaneProofs
from batchline.runtime.prune import Prune
from batchline.runtime.publisher import Publisher
from batchline.runtime.virtual_time import virtual_seconds, virtual_wall_us
from batchline.runtime.worker import Worker
from tests.contract.parcels.posting import parcel_of
from tests.runtime.working import Depot, Receiver, Severable, places_of, virtually

if TYPE_CHECKING:
    from batchline.core.trouble import LoopName

HOUR = timedelta(hours=1)


def raising(error: BaseException, *, times: int = 1, number: int = 1, lane: int = 0) -> Any:
    """Raise an error the first times that a parcel comes."""
    left = times

    def act(_: Receiver, parcels: Sequence[Consignment]) -> None:
        nonlocal left
        if left and any((one.lane, one.number) == (lane, number) for one in parcels):
            left -= 1
            raise error

    return act


async def reason_of(proofs: LaneProofs, message: LeasedMessage) -> str:
    """Why a message is a stray."""
    return await proofs.reason(message, read_consignment(message.body))


class Mute(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@virtually
async def test_all_parcels_arrive_lane_by_lane_in_order_and_the_end_is_told() -> None:
    depot, sink = Depot({0: 70, 1: 3, 2: 1}), Receiver()
    worker = depot.worker(sink)
    delivered: list[int] = []
    worker.on_delivered = lambda parcel: delivered.append(parcel.number)
    await depot.run(worker)
    depot.check_end("complete")
    assert {lane: sink.numbers(lane) for lane in depot.lanes} == {
        lane: list(range(1, count + 1)) for lane, count in depot.lanes.items()
    }
    assert worker.parcels == {"delivered": 74}
    assert worker.measurements["delivered"] == 148
    assert sorted(delivered) == sorted([*range(1, 71), 1, 2, 3, 1])
    assert sink.closed == 1
    assert virtual_seconds() < 1


@virtually
async def test_a_sink_that_takes_several_is_given_several_of_different_lanes() -> None:
    depot, sink = Depot(dict.fromkeys(range(8), 5)), Receiver(most=4)
    sizes: list[int] = []
    sink.act = lambda _, parcels: sizes.append(len(parcels))
    await depot.run(depot.worker(sink))
    depot.check_end("complete")
    assert max(sizes) == 4


@virtually
async def test_parcels_of_one_id_from_two_publications_both_arrive() -> None:
    depot, sink = Depot({0: 1}), Receiver(most=10)
    for name in ("another", "a third"):
        publisher = Publisher(depot.store, "parcels", depot.tracker.open().id, clock=virtual_wall_us)
        publisher.post([parcel_of(name, 0, 1, id="import-0-1")])
    await depot.run(depot.worker(sink))
    assert sorted(parcel.publication for _, parcel in sink.sent) == ["a third", "another", "import"]
    depot.check_end("complete")


@pytest.mark.parametrize(
    "error",
    [
        Undelivered("not now"),
        RuntimeError("bug"),
        StopAsyncIteration(),
        asyncio.CancelledError(),
        TimeoutError(),
        SystemExit(3),
        GeneratorExit(),
        Mute(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_parcel_that_fails_comes_again_later_each_time_and_those_behind_it_wait(error: BaseException) -> None:
    @virtually
    async def story() -> None:
        depot, sink = Depot({0: 5, 1: 2}), Receiver(raising(error, times=3, number=2))
        worker = depot.worker(sink)
        await depot.run(worker)
        depot.check_end("complete")
        assert sink.numbers() == [1, 2, 2, 2, 2, 3, 4, 5]
        moments = [at_s for at_s, parcel in sink.sent if parcel.number == 2 and parcel.lane == 0]
        assert [later - earlier for earlier, later in pairwise(moments)] == pytest.approx([1, 2, 4], abs=0.1)
        assert [at_s for at_s, parcel in sink.sent if parcel.lane == 1][-1] < 0.5
        assert worker.parcels == {"delivered": 7, "failed": 3}

    story()


@pytest.mark.parametrize("answer", [7, "no", [1], object()], ids=lambda answer: type(answer).__name__)
def test_an_answer_that_is_none_is_a_failure(answer: object) -> None:
    @virtually
    async def story() -> None:
        class Odd(Receiver):
            async def send(self, parcels: Sequence[Consignment]) -> Any:
                await super().send(parcels)
                return answer if len(self.sent) == 1 else None

        depot, sink = Depot({0: 2}), Odd()
        await depot.run(depot.worker(sink))
        depot.check_end("complete")
        assert sink.numbers() == [1, 1, 2]

    story()


@virtually
async def test_what_is_refused_is_a_dead_letter_and_the_lane_goes_on() -> None:
    depot, sink = Depot({0: 3}), Receiver(raising(RefusedParcel("unreadable"), number=2))
    worker = depot.worker(sink)
    await depot.run(worker)
    depot.check_end("failed")
    assert [(one.number, one.count, one.reason) for one in depot.dead()] == [(2, 2, "unreadable")]
    assert worker.parcels == {"delivered": 2, "refused": 1}
    assert worker.measurements == {"delivered": 4, "refused": 2}


@virtually
async def test_of_a_batch_each_has_its_own_answer() -> None:
    def act(_: Receiver, parcels: Sequence[Consignment]) -> dict[str, Any]:
        words = {0: RefusedParcel("no"), 1: Undelivered("later") if len(sink.sent) < 5 else None}
        return {one.id: words[one.lane] for one in parcels if words.get(one.lane)}

    depot, sink = Depot({0: 1, 1: 1, 2: 1}), Receiver(act, most=3)
    worker = depot.worker(sink)
    await depot.run(worker)
    depot.check_end("failed")
    assert [one.lane for one in depot.dead()] == [0]
    assert sink.numbers(1) == [1, 1, 1]
    assert sink.numbers(2) == [1]


@virtually
async def test_of_a_parcel_delivered_in_part_the_rest_comes_before_those_behind_it() -> None:
    def act(receiver: Receiver, parcels: Sequence[Consignment]) -> None:
        (parcel,) = parcels
        if parcel.number == 2 and parcel.count > 1:
            places = places_of(parcel)
            receiver.take(places[1:2])
            again = dict.fromkeys(range(2, parcel.count), "busy") | {0: "busy", 99: "not there"}
            raise PartlyDelivered(refused={0: "broken"} if parcel.count == 4 else {}, again=again)

    depot = Depot({}, tolerate=None)
    depot.lanes = {0: 4}
    depot.fanout = depot.tracker.open(tolerate=None).id
    depot.post(0, 1, 4, measurements=4)
    depot.tracker.seal(depot.fanout)
    sink = Receiver(act)
    worker = depot.worker(sink)
    await depot.run(worker)
    assert [(parcel.number, parcel.count) for _, parcel in sink.sent] == [
        (1, 4),
        (2, 4),
        (2, 2),
        (2, 1),
        (3, 4),
        (4, 4),
    ]
    assert list(sink.arrived) == sorted(sink.arrived, key=lambda place: place[:2])
    assert len(sink.arrived) == 15
    assert [(one.count, one.measurements[0]["place"]) for one in depot.dead()] == [(1, 0)]
    assert worker.measurements == {"delivered": 15, "refused": 1}
    depot.check_end("complete")
    assert depot.tracker.status(depot.fanout).failed == 1


@pytest.mark.parametrize("in_part", [False, True])
def test_it_is_given_up_after_so_many_attempts_and_not_for_those_that_only_waited(in_part: bool) -> None:
    @virtually
    async def story() -> None:
        def act(_: Receiver, parcels: Sequence[Consignment]) -> None:
            if parcels[0].number == 1:
                raise PartlyDelivered(again={0: "busy", 1: "busy"}) if in_part else Undelivered("busy")

        depot, sink = Depot({0: 3}), Receiver(act)
        worker = depot.worker(sink, give_up_after=3)
        await depot.run(worker)
        depot.check_end("failed")
        assert sink.numbers() == [1, 1, 1, 2, 3]
        (dead,) = depot.dead()
        assert "given up after 3 attempts" in dead.reason
        assert "busy" in dead.reason

    story()


@virtually
async def test_a_parcel_that_was_sent_for_longer_than_half_a_lease_is_given_up_as_well() -> None:
    async def act(*_: Any) -> None:
        await asyncio.sleep(60)
        raise Undelivered("busy")

    def begin(receiver: Receiver, parcels: Sequence[Consignment]) -> Any:
        return act(receiver, parcels)

    depot, sink = Depot({0: 1}), Receiver(begin)
    await depot.run(depot.worker(sink, give_up_after=2))
    depot.check_end("failed")
    assert len(sink.sent) == 2


@virtually
async def test_throttled_it_pauses_and_keeps_the_order() -> None:
    error = Throttled(retry_after=timedelta(seconds=20))
    depot, sink = Depot({0: 4, 1: 4}), Receiver(raising(error, times=2, number=2))
    worker = depot.worker(sink, concurrency=1)
    await depot.run(worker)
    depot.check_end("complete")
    assert sink.numbers() == [1, 2, 2, 2, 3, 4]
    moments = [at_s for at_s, parcel in sink.sent if (parcel.lane, parcel.number) == (0, 2)]
    assert all(later - earlier >= 20 for earlier, later in pairwise(moments))
    assert not [at_s for at_s, _ in sink.sent if moments[0] < at_s < moments[1]]
    assert worker.parcels == {"delivered": 8}


@pytest.mark.parametrize(
    ("cost", "changes"),
    [
        ("measurement", {"measurements": 50}),
        ("field:ru", {"payload": b'[{"ru":1e9}]'}),
        ("field:ru", {"payload": b'[{"ru":Infinity}]'}),
        ("field:ru", {"payload": b"no JSON"}),
        ("field:ru", {"payload": b"[1]"}),
    ],
)
def test_what_costs_more_than_can_ever_be_paid_or_told_is_a_dead_letter(cost: str, changes: dict[str, Any]) -> None:
    @virtually
    async def story() -> None:
        depot, sink = Depot({}), Receiver()
        depot.lanes = {0: 2}
        depot.fanout = depot.tracker.open().id
        depot.post(0, 1, 1, **changes)
        depot.post(0, 2, 2)
        depot.tracker.seal(depot.fanout)
        limiter = ProvisionedResource(10, clock=virtual_seconds)
        await depot.run(depot.worker(sink, cost=cost, limiter=limiter))
        depot.check_end("failed")
        assert sink.numbers() == [2]
        (dead,) = depot.dead()
        assert (dead.number, dead.reason != "") == (1, True)

    story()


@virtually
async def test_what_is_no_parcel_is_a_dead_letter_and_harms_no_lane() -> None:
    depot, sink = Depot({0: 3}), Receiver()
    strays = [NewMessage(b"x", id="{import/0}4"), NewMessage(b"{}\n[]"), NewMessage(b"y", id="taken")]
    strays.append(NewMessage(parcel_of("by hand", 0, 1).as_body()))  # whose id is made
    depot.timeline.create("parcels", strays, producer_group="somebody")
    dead = dead_letters_of("parcels")
    depot.timeline.create(dead, [NewMessage(b"z", id="taken")], producer_group="somebody")
    worker = depot.worker(sink)
    await depot.run(worker)
    depot.check_end("complete")
    found = depot.timeline.lease(dead, "u", limit=10)
    assert {message.body for message in found} >= {b"x", b"y", b"z", b"{}\n[]"}
    assert len(found) == 5
    assert worker.parcels == {"delivered": 3, "strays": 4}
    history = depot.timeline.read(dead, "{import/0}4", producer_group="strays").history
    assert [one.reason.partition(":")[0] for one in history] == ["no parcel"]


@virtually
async def test_forged_parcels_among_true_ones_hold_up_no_lane_and_reach_no_sink() -> None:
    depot, sink = Depot({0: 100, 1: 100}), Receiver()
    forged = [parcel_of("import", lane, number, payload=b"[]") for lane in (0, 1, 2) for number in range(1, 110)]
    depot.timeline.create("parcels", [NewMessage(one.as_body(), 1) for one in forged], producer_group="parcels")
    worker = depot.worker(sink, in_hand=16)
    await depot.run(worker)
    depot.check_end("complete")
    assert sink.numbers() == sink.numbers(1) == list(range(1, 101))
    assert worker.parcels == {"delivered": 200, "strays": len(forged)}
    assert virtual_seconds() < 20


@virtually
async def test_a_copy_of_a_true_parcel_counts_once() -> None:
    depot, sink = Depot({0: 5}), Receiver()
    held = depot.timeline.lease("parcels", "eavesdropper", limit=10)
    depot.timeline.create("parcels", [NewMessage(one.body, 1) for one in held], producer_group="vandals")
    depot.timeline.release([one.lease for one in held])
    await depot.run(depot.worker(sink))
    depot.check_end("complete")
    assert list(dict.fromkeys(sink.numbers())) == [1, 2, 3, 4, 5]
    assert depot.dead() == []


@virtually
async def test_a_true_parcel_that_cannot_be_read_is_a_dead_letter_as_it_is_and_its_lane_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    depot, sink = Depot({}, tolerate=None), Receiver()
    depot.lanes = {0: 3}
    depot.fanout = depot.tracker.open(tolerate=None).id
    depot.post(0, 1, 1)
    damaged = b"broken" + GZIP_FROM.to_bytes(4, "little")
    with monkeypatch.context() as broken:
        broken.setattr("gzip.compress", lambda *_, **__: damaged)
        depot.post(0, 2, 2, payload=b" " * GZIP_FROM)
    depot.post(0, 3, 3)
    depot.tracker.seal(depot.fanout)
    await depot.run(depot.worker(sink))
    depot.check_end("complete")
    assert sink.numbers() == [1, 3]
    (letter,) = depot.timeline.lease(dead_letters_of("parcels"), "u", limit=10)
    assert letter.body.endswith(b"\n" + damaged)
    assert b'"number":2' in letter.body
    (failed,) = depot.tracker.failed_items(depot.fanout)
    assert "expected a parcel" in failed.reason


@virtually
async def test_the_proof_of_a_lane_is_read_once_however_many_parcels_it_has() -> None:
    depot, reads = Depot({0: 64, 1: 64}), list[set[str]]()
    deliveries = Deliveries(depot.store, depot.timeline, "parcels")

    def read(publications: set[str]) -> Mapping[tuple[str, int], LaneProof]:
        reads.append(publications)
        return deliveries.proofs(publications)

    proofs = LaneProofs(read)
    found = depot.timeline.lease("parcels", "w", limit=1_000)
    assert set(await asyncio.gather(*(reason_of(proofs, one) for one in found))) == {""}
    assert {await reason_of(proofs, one) for one in found} == {""}
    assert reads == [{"import"}]


@virtually
async def test_after_a_topic_is_made_anew_its_parcels_are_no_strays_and_those_before_are() -> None:
    depot = Depot({0: 1})
    proofs = LaneProofs(Deliveries(depot.store, depot.timeline, "parcels").proofs)
    (before,) = depot.timeline.lease("parcels", "w", limit=1)
    assert await reason_of(proofs, before) == ""
    depot.timeline.done([before.lease])
    depot.timeline.delete_topic("parcels")
    while Prune(depot.store, clock=virtual_wall_us).run_once():
        pass
    again = Depot({0: 1}, store=depot.store)
    (after,) = again.timeline.lease("parcels", "w", limit=1)
    assert await reason_of(proofs, after) == ""
    assert "signature" in await reason_of(proofs, before)


@virtually
async def test_a_topic_that_gives_messages_up_by_itself_is_refused() -> None:
    depot = Depot({})
    depot.timeline.create_topic("buried", max_attempts=3, dead_letter="grave")
    with pytest.raises(InvalidRules, match="give_up_after"):
        Worker(depot.store, "buried", Receiver(), timeline=depot.timeline)


@pytest.mark.parametrize("in_hand", [1, 2, 8])
def test_a_lane_that_stands_holds_up_no_other(in_hand: int) -> None:
    @virtually
    async def story() -> None:
        depot = Depot({0: 50, 1: 20})
        sink = Receiver(raising(Undelivered("down"), times=5, number=1))
        await depot.run(depot.worker(sink, in_hand=in_hand))
        depot.check_end("complete")
        others = [at_s for at_s, parcel in sink.sent if parcel.lane == 1]
        assert others[-1] < 2

    story()


@pytest.mark.parametrize("in_hand", [2, 8])
def test_a_parcel_that_hangs_in_the_sink_holds_up_no_other_lane(in_hand: int) -> None:
    @virtually
    async def story() -> None:
        async def hang() -> None:
            await asyncio.sleep(100)

        depot = Depot({0: 40, 1: 20})
        sink = Receiver(lambda _, parcels: hang() if (parcels[0].lane, parcels[0].number) == (0, 1) else None)
        await depot.run(depot.worker(sink, in_hand=in_hand))
        depot.check_end("complete")
        assert [at_s for at_s, parcel in sink.sent if parcel.lane == 1][-1] < 30
        assert sink.numbers() == list(range(1, 41))
        assert virtual_seconds() < 140

    story()


@virtually
async def test_in_a_long_pause_with_a_large_backlog_the_store_is_left_alone() -> None:
    depot = Depot({0: 1_000})
    sink = Receiver(raising(Undelivered("down"), times=3))
    store = Severable(depot.store)
    retry = RetryRules(first=timedelta(minutes=1), factor=1, jitter=0)
    await depot.run(depot.worker(sink, store=store, in_hand=64, retry=retry), until=lambda: virtual_seconds() > 150)
    # Two looks in 50 ms for what is new, and the services; and each pause a few for every 64 that are given back.
    assert store.calls / 150 < 60
    assert sink.numbers() == [1, 1, 1]


@virtually
async def test_the_leases_of_one_that_was_killed_come_back_to_its_name_in_the_midst_of_lanes() -> None:
    depot, sink = Depot({0: 30, 1: 30}), Receiver(lambda *_: asyncio.sleep(0.02))
    first = depot.worker(sink, in_hand=20)
    await depot.run(first, until=lambda: len(sink.sent) > 10)
    held = depot.timeline.lease("parcels", "w", limit=25, duration=timedelta(hours=1))
    assert held
    await depot.run(depot.worker(sink))
    depot.check_end("complete")
    assert sink.numbers() == sink.numbers(1) == list(range(1, 31))


@virtually
async def test_stopped_in_a_pause_for_a_failure_or_for_throttling_it_ends_and_gives_everything_back() -> None:
    for error, most_s in ((Undelivered("down"), 1), (Throttled(retry_after=timedelta(hours=1)), 7)):
        depot, sink = Depot({0: 5}), Receiver(raising(error, times=1))
        worker = depot.worker(sink)
        begin_s = virtual_seconds()
        await depot.run(worker, until=lambda sink=sink: bool(sink.sent))  # type: ignore[misc]
        assert virtual_seconds() - begin_s < most_s
        assert depot.timeline.my_leases("w") == []
        await depot.run(depot.worker(sink))
        depot.check_end("complete")


@virtually
async def test_what_a_sink_still_has_when_the_worker_is_stopped_comes_again() -> None:
    async def hang() -> None:
        await asyncio.sleep(3_600)

    depot = Depot({0: 3})
    sink = Receiver(lambda receiver, _: hang() if len(receiver.sent) == 1 else None)
    await depot.run(depot.worker(sink), until=lambda: bool(sink.sent))
    assert depot.left() == 3
    await depot.run(depot.worker(sink))
    depot.check_end("complete")
    assert sink.numbers() == [1, 1, 2, 3]


@virtually
async def test_a_parcel_whose_lease_was_lost_while_it_waits_for_capacity_is_not_sent() -> None:
    depot, sink, other = Depot({0: 1, 1: 1}), Receiver(), Receiver()
    store = Severable(depot.store)
    limiter = ProvisionedResource(1, clock=virtual_seconds)
    slow = depot.worker(sink, "slow", store, limiter=limiter, lease=timedelta(seconds=2), flush_interval=HOUR)
    slow.dispatcher.pause()
    running = asyncio.ensure_future(slow.run())
    await asyncio.sleep(0)
    while not slow.dispatcher.buffered:
        await asyncio.sleep(0.001)
    slow.dispatcher.pause()
    store.severed = True
    await asyncio.sleep(10)
    await depot.run(depot.worker(other, "quick"))
    store.severed = False
    await asyncio.sleep(10)
    slow.stop()
    await running
    sent = [*sink.sent, *other.sent]
    assert sorted(parcel.lane for _, parcel in sent) == [0, 1]
    depot.check_end("complete")


@virtually
async def test_a_worker_names_the_loops_of_all_its_parts_that_fail() -> None:
    worker = Depot({0: 1}).worker(Receiver(), limiter=ProvisionedResource(10))
    assert worker.dispatcher.limiter is not None
    assert worker.consumer._services is not None
    parts = {
        "lanes": worker.supervisor,
        "consume": worker.consumer.supervisor,
        "prune": worker.consumer._services.supervisor,
        "dispatch": worker.dispatcher.supervisor,
        "share": worker.dispatcher.limiter.supervisor,
    }
    for name, supervisor in parts.items():
        supervisor.loop(cast("LoopName", name)).failed(ZeroDivisionError())
    assert {one.loop for one in worker.troubles()} == parts.keys()
    assert {name for name, count in worker.supervisor.failures().items() if count} == parts.keys()
