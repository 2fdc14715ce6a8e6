"""The HTTP sink, against a real receiver."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.core.consignment import Consignment
from batchline.errors import InvalidSink, PartlyDelivered, RefusedParcel, Throttled, Undelivered
from batchline.sinks.http import HttpSink, idempotency_key
from tests.sinks.fault import Fault
from tests.sinks.parcels import measurement, parcel
from tests.sinks.receiver import Receiver, Request


@pytest.fixture(scope="module")
def shared_receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def receiver(shared_receiver: Receiver) -> Iterator[Receiver]:
    shared_receiver.forget()
    yield shared_receiver
    shared_receiver.misbehave()


def send(receiver: Receiver, *parcels: Consignment, **options: Any) -> None:
    async def sending() -> None:
        sink = HttpSink(receiver.url, **options)
        try:
            for one in parcels:
                await sink.send([one])
        finally:
            await sink.close()

    asyncio.run(sending())


def last(receiver: Receiver) -> Request:
    assert receiver.last is not None
    return receiver.last


def test_a_parcel_is_a_request_with_its_id_as_the_idempotency_key(receiver: Receiver) -> None:
    one = parcel("d0@17")
    send(receiver, one)
    request = last(receiver)
    assert (request.method, request.path, request.body) == ("POST", "/measurements", one.as_json())
    assert request.headers["content-type"] == "application/json"
    assert request.headers["idempotency-key"] == "d0@17"
    assert "content-encoding" not in request.headers


def test_method_headers_gzip_and_body_can_be_chosen(receiver: Receiver) -> None:
    one = parcel(count=200)
    options: dict[str, Any] = {"method": "PUT", "gzip": True, "body": "measurements"}
    send(receiver, one, headers={"Authorization": "Bearer s3cret", "X-Site": "a b"}, **options)
    request = last(receiver)
    assert (request.method, request.body) == ("PUT", one.payload)
    assert request.headers["authorization"] == "Bearer s3cret"
    assert request.headers["x-site"] == "a b"
    assert request.headers["content-encoding"] == "gzip"
    assert int(request.headers["content-length"]) < len(one.payload) / 5


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_id_can_stand_in_a_header_and_be_read_again(id: str) -> None:
    key = idempotency_key(id)
    assert unquote(key) == id
    assert key.isascii()
    assert key.isprintable()
    assert " " not in key


def test_an_id_of_any_characters_arrives(receiver: Receiver) -> None:
    send(receiver, parcel(" Gerät 7\r\nX: %41\t🌡@0 "))
    assert [one.key for one in receiver.arrived()] == [" Gerät 7\r\nX: %41\t🌡@0 "]


def cut(**more: Any) -> Fault:
    return Fault(do="cut", **more)


@pytest.mark.parametrize(
    ("fault", "raised", "taken"),
    [
        (Fault(status=429, retry_after="3"), Throttled, 0),
        (Fault(status=503), Throttled, 0),
        (Fault(status=500), Undelivered, 0),
        (Fault(status=400), RefusedParcel, 0),
        (Fault(status=302, headers={"Location": "/elsewhere"}), Undelivered, 0),
        (Fault(status=207, refused=(1,), again=(2,)), PartlyDelivered, 1),
        (Fault(status=207, body="fine"), Undelivered, 1),
        (cut(), Undelivered, 0),
        (cut(taken=True), Undelivered, 1),
        (Fault(do="half", taken=True), Undelivered, 1),
        (Fault(do="hang"), Undelivered, 0),
    ],
    ids=lambda value: f"{value.do}-{value.status}" if isinstance(value, Fault) else None,
)
def test_what_goes_wrong_is_told_and_the_next_attempt_succeeds(
    receiver: Receiver, fault: Fault, raised: type[Exception], taken: int
) -> None:
    receiver.misbehave(fault)
    # One that hangs is not waited for; on a busy machine the others may take their time.
    timeout = timedelta(seconds=0.2 if fault.do == "hang" else 30)
    with pytest.raises(raised) as caught:
        send(receiver, parcel(), timeout=timeout, headers={"X-Api-Key": "s3cret"})
    assert "s3cret" not in str(caught.value)
    assert (receiver.requests, len(receiver.arrived())) == (1, taken)
    receiver.misbehave()
    send(receiver, parcel())
    (arrived,) = receiver.arrived()
    assert arrived.times == 1 + taken
    assert sorted(arrived.measurements, key=json.dumps) == [measurement(place) for place in range(3)]


def test_the_places_of_partly_delivered_measurements_are_told(receiver: Receiver) -> None:
    receiver.misbehave(Fault(status=207, refused=(1,), again=(2,)))
    with pytest.raises(PartlyDelivered) as caught:
        send(receiver, parcel())
    assert (caught.value.refused, caught.value.again) == ({1: "422: not 1"}, {2: "503: not 2"})


def test_a_secret_that_the_receiver_quotes_is_not_told(receiver: Receiver) -> None:
    receiver.misbehave(Fault(status=401, body="no such token: s3cret-token, Bearer s3cret-token"))
    with pytest.raises(Undelivered) as caught:
        send(receiver, parcel(), headers={"Authorization": "Bearer s3cret-token"})
    assert str(caught.value) == "the receiver answered 401: no such token: ***, ***"


def test_nobody_there_is_undelivered() -> None:
    with Receiver() as gone:
        pass
    with pytest.raises(Undelivered, match=r"http://127\.0\.0\.1:\d+/measurements cannot be reached: ConnectError"):
        send(gone, parcel())


def test_connections_are_used_again_and_many_at_once(receiver: Receiver) -> None:
    async def sending() -> None:
        sink = HttpSink(receiver.url)
        await asyncio.gather(*(sink.send([parcel(f"p{number}", number=number)]) for number in range(1, 201)))
        await sink.close()

    asyncio.run(sending())
    assert sorted(one.number or 0 for one in receiver.arrived()) == list(range(1, 201))
    assert receiver.connections <= 100


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def sink(shared_receiver: Receiver, runner: asyncio.Runner) -> Iterator[HttpSink]:
    sink = HttpSink(shared_receiver.url)
    yield sink
    runner.run(sink.close())


@given(st.lists(st.integers(1, 4), max_size=8), st.integers(0, 2**32))
def test_whatever_goes_wrong_on_the_way_each_parcel_has_its_effect_once(
    shared_receiver: Receiver, sink: HttpSink, runner: asyncio.Runner, numbers: list[int], seed: int
) -> None:
    receiver = shared_receiver
    receiver.forget()
    faults = [cut(share=0.2), cut(share=0.2, taken=True), Fault(do="half", taken=True, share=0.2)]

    async def sending() -> None:
        receiver.misbehave(*faults, Fault(status=500, share=0.2), seed=seed)
        for number in numbers:
            with suppress(Undelivered):
                await sink.send([parcel(f"p{number}", number=number)])
        receiver.misbehave()
        for number in numbers:
            await sink.send([parcel(f"p{number}", number=number)])

    runner.run(sending())
    arrived = {one.key: one.measurements for one in receiver.arrived()}
    assert arrived == {f"p{number}": parcel().measurements for number in numbers}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: HttpSink("ftp://host/x"), "expected the URL of a receiver"),
        (lambda: HttpSink("http://"), "expected the URL of a receiver"),
        (lambda: HttpSink("http://user:s3cret@host:port/"), "cannot be read"),
        (lambda: HttpSink("http://h", method="GET"), "method must be one of 'POST'"),  # type: ignore[arg-type]
        (lambda: HttpSink("http://h", body="parcels"), "did you mean 'parcel'"),  # type: ignore[arg-type]
        (lambda: HttpSink("http://h", timeout=timedelta(0)), "timeout must be"),
        (lambda: HttpSink("http://h", headers={"A b": "x"}), "name of a header"),
        (lambda: HttpSink("http://h", headers={"A": "s3cret\r\nB: x"}), "value of the header A"),
        (lambda: HttpSink("http://h", headers={"A": "s3crét"}), "value of the header A"),
        (lambda: HttpSink("http://h", headers={"idempotency-Key": "x"}), "is the sink's own"),
    ],
)
def test_what_cannot_be_a_sink_is_refused_without_its_secrets(make: Callable[[], HttpSink], said: str) -> None:
    with pytest.raises(InvalidSink, match=said) as caught:
        make()
    assert "s3cr" not in str(caught.value)
