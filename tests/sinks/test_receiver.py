"""The receiver that other tests rely on."""

import json

from tests.sinks.fault import Fault
from tests.sinks.own_receiver import OwnReceiver, exchange, own_receiver
from tests.sinks.parcels import measurement, parcel
from tests.sinks.receiver import Receiver


def post(receiver: Receiver | OwnReceiver, id: str, number: int = 1, count: int = 2) -> int:
    body = parcel(id, count, number=number).as_json()
    status, _ = exchange(receiver.port, "/measurements", body, **{"Idempotency-Key": id})
    return status


def test_it_keeps_each_parcel_once_and_the_order_of_first_arrivals() -> None:
    with Receiver() as receiver:
        for number in (1, 2, 1, 3, 2):
            assert post(receiver, f"p{number}", number) == 200
        assert receiver.lanes() == {("import", 0): [1, 2, 3]}
        assert [(one.times, one.behind) for one in receiver.arrived()] == [(2, 1), (2, 1), (1, 0)]
        assert receiver.requests == 5


def test_a_parcel_in_parts_is_completed_by_what_comes_again() -> None:
    with Receiver() as receiver:
        receiver.misbehave(Fault(status=207, again=(1,), times=1))
        assert post(receiver, "p", count=3) == 207
        (before,) = receiver.arrived()
        assert post(receiver, "p", count=3) == 200
        (after,) = receiver.arrived()
    assert (before.measurements, before.complete) == ([measurement(0), measurement(2)], False)
    assert (sorted(map(json.dumps, after.measurements)), after.complete) == (
        sorted(json.dumps(measurement(place)) for place in range(3)),
        True,
    )


def test_what_arrived_outlives_a_kill() -> None:
    with own_receiver() as receiver:
        receiver.misbehave(Fault(status=201))
        assert post(receiver, "p1") == 201
        receiver.kill()
        receiver.start()
        assert post(receiver, "p1") == 200
        assert [(one.key, one.times) for one in receiver.arrived()] == [("p1", 2)]
