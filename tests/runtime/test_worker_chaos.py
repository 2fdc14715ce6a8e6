"""Workers among sinks that do anything, stores that fall silent, and workers that end at any moment.

Whatever happens: what the receiver takes arrives in order, what it does not is a dead letter, and the end is told once.
"""

import asyncio
import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from batchline.core.consignment import Consignment
from batchline.errors import DeliveryError, PartlyDelivered, RefusedParcel, Throttled, Undelivered
from batchline.runtime.worker import Worker
from tests.contract.parcels.posting import parcels_of
from tests.runtime.working import Depot, Receiver, Severable, places_of, virtually

Place = tuple[int, int, int]
LEASE = timedelta(seconds=2)


class Moody:
    """What a sink does with parcels, by dice; which measurements it never takes is decided once."""

    def __init__(self, dice: random.Random, bad: set[Place]):
        self._dice, self._bad = dice, bad
        self.calm = False

    def __call__(self, receiver: Receiver, parcels: Sequence[Consignment]) -> Any:
        return self._act(receiver, parcels)

    async def _act(self, receiver: Receiver, parcels: Sequence[Consignment]) -> dict[str, DeliveryError]:
        mood = 1.0 if self.calm else self._dice.random()
        if mood < 0.1:
            await asyncio.sleep(self._dice.choice((0.01, 0.3, 3, 20)))  # it hangs
        elif mood < 0.2:
            raise Throttled(retry_after=self._dice.choice((None, timedelta(seconds=1))))
        elif mood < 0.3:
            raise self._dice.choice((Undelivered("down"), RuntimeError("a bug"), asyncio.CancelledError(), OSError()))
        answers = {one.id: self._answer(receiver, one) for one in parcels}
        return {id: error for id, error in answers.items() if error is not None}

    def _answer(self, receiver: Receiver, parcel: Consignment) -> DeliveryError | None:
        places = places_of(parcel)
        refused = {index: "bad" for index, place in enumerate(places) if place in self._bad}
        if len(refused) == len(places):
            return RefusedParcel("bad")
        mood = 1.0 if self.calm else self._dice.random()
        if mood < 0.1:
            receiver.take([place for place in places if place not in self._bad])
            return Undelivered("it arrived, but who knows")
        again = {
            index: "busy"
            for index in range(len(places))
            if index not in refused and mood < 0.3 and self._dice.random() < 0.5
        }
        receiver.take([place for index, place in enumerate(places) if index not in refused and index not in again])
        return PartlyDelivered(refused=refused, again=again) if refused or again else None


async def trouble(
    dice: random.Random, depot: Depot, workers: list[tuple[Worker, Severable]], sinks: list[Receiver]
) -> None:
    """For a while: stores fall silent for shorter or longer than a lease, workers stop, and others begin."""
    running = [asyncio.ensure_future(worker.run()) for worker, _ in workers]
    for _ in range(dice.randint(0, 5)):
        await asyncio.sleep(dice.choice((0.0, 0.05, 0.7, 3.0)))
        worker, store = dice.choice(workers)
        what = dice.random()
        if what < 0.6:
            store.severed = True
            await asyncio.sleep(dice.choice((0.5, 1.5, 5.0)))
            store.severed = False
        elif what < 0.8:
            worker.stop()
        else:
            store.severed = True  # as if it had been killed: its store never hears of it again
            worker.stop()
    for worker, _ in workers:
        worker.stop()
    await asyncio.gather(*running)


def make(dice: random.Random, depot: Depot, sinks: list[Receiver], moody: Moody, name: str) -> tuple[Worker, Severable]:
    store, sink = Severable(depot.store), Receiver(moody, most=dice.choice((1, 3)))
    sinks.append(sink)
    worker = depot.worker(
        sink,
        name,
        store,
        lease=LEASE,
        in_hand=dice.choice((1, 3, 64)),
        concurrency=dice.choice((1, 2, 16)),
        drain=timedelta(seconds=dice.choice((0, 1, 5))),
    )
    return worker, store


async def story(seed: int) -> None:
    dice = random.Random(seed)
    lanes = {lane: dice.randint(1, 8) for lane in range(dice.randint(1, 4))}
    depot, sinks, arrived = Depot(lanes), list[Receiver](), dict[Place, float]()
    every = [
        place
        for lane, count in lanes.items()
        for parcel in parcels_of("import", lane, 1, count)
        for place in places_of(parcel)
    ]
    bad = {place for place in every if dice.random() < dice.choice((0, 0.1))}
    moody = Moody(dice, bad)
    workers = [make(dice, depot, sinks, moody, f"w{number}") for number in range(dice.randint(1, 3))]
    for sink in sinks:
        sink.arrived = arrived  # one receiver behind all of them
    await trouble(dice, depot, workers, sinks)
    moody.calm = dice.random() < 0.5
    fresh, _ = make(dice, depot, sinks, moody, dice.choice(("w0", "fresh")))
    sinks[-1].arrived = arrived
    await depot.run(fresh)

    depot.check_end("failed" if bad else "complete")
    assert set(arrived) == set(every) - bad
    assert sorted(place for one in depot.dead() for place in places_of(one)) == sorted(bad)
    for lane in lanes:
        numbers = [place[1] for place in arrived if place[0] == lane]
        assert numbers == sorted(numbers)


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_whatever_happens_each_measurement_arrives_or_is_refused_once_in_order_and_the_end_is_told_once(
    seed: int,
) -> None:
    virtually(story)(seed)
