"""Parcels that publishing has not made: another producer group puts bodies on the topic that look true."""

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any, Final

from batchline.client import Client
from batchline.core.consignment import Consignment, message_id, read_consignment
from batchline.core.message import NewMessage, Outcome
from batchline.core.moment import moment_of
from batchline.errors import BatchlineError, InvalidMessage
from batchline.runtime.clock import now_us
from batchline.runtime.publisher import PRODUCER_GROUP
from batchline.runtime.timeline import Timeline
from batchline.stores import Store
from batchline.stores.topics import known_topic
from tests.faults.pipeline import LANES, NAME, TOPIC

__all__ = ["STRAYS", "mark_of", "post_strays", "stray_in"]

#: Who owns them among the dead letters.
STRAYS: Final = "strays"
#: Whose messages they are.
STRANGERS: Final = "strangers"
#: The name of what tells a stray's only measurement from all others.
MARK: Final = "stray"
ANSWER: Final = timedelta(seconds=2)


def post_strays(store: Store, service: str, how: str, chance: Random) -> list[str]:
    """Post a stray into each of two lanes, by way of the service and past it. Return the marks of those taken."""
    first, second = (_stray(store, lane, how) for lane in chance.sample(range(LANES), 2))
    taken = [*_past_service(store, first), *_by_service(service, second)]
    return [stray_in(message.body) for message in taken]


def stray_in(body: bytes) -> str:
    """The mark of a stray in the body of a message; empty if there is none."""
    with suppress(InvalidMessage, ValueError):
        return mark_of(read_consignment(body).measurements)
    return ""


def mark_of(measurements: Sequence[Mapping[str, Any]]) -> str:
    """The mark of a stray, by its measurements; empty if it is none."""
    return next((str(one[MARK]) for one in measurements if MARK in one), "")


def _stray(store: Store, lane: int, how: str) -> NewMessage:
    mark = secrets.token_hex(8)
    parcel = replace(_like(store, lane, how), id=f"stray-{mark}", count=1, payload=_payload(mark))
    name = message_id(NAME, lane, parcel.number)
    # As publishing would name it, or in the same bucket, so that the worker of the lane gets it.
    return NewMessage(parcel.as_body(), id=name if how == "taken" else f"{name}-{mark}")


def _like(store: Store, lane: int, how: str) -> Consignment:
    """A parcel that is on the timeline, if there is one and a copy is wanted; else what the next may look like."""
    guess = _next(store, lane, 3 if how == "taken" else 1)
    return next(_published(store, lane), guess) if how == "copy" else guess


def _published(store: Store, lane: int) -> Iterator[Consignment]:
    page = Timeline(store).my_messages(PRODUCER_GROUP, limit=1_000)
    parcels = (read_consignment(message.body) for message in page.messages if message.topic == TOPIC)
    return (parcel for parcel in parcels if parcel.lane == lane)


def _next(store: Store, lane: int, ahead: int) -> Consignment:
    rows = store.read(lambda rows: rows.lanes(known_topic(rows, TOPIC).number, NAME))
    published = next((row.published for row in rows if row.lane == lane), 0)
    time = moment_of(now_us()).isoformat()
    return Consignment("", NAME, lane, published + ahead, None, 1, time, time, b"")


def _payload(mark: str) -> bytes:
    time = moment_of(now_us()).isoformat()
    line = {MARK: mark, "sequence": -1, "key": MARK, "type": MARK, "event_time": time, "value": 0}
    return json.dumps([line]).encode()


def _past_service(store: Store, message: NewMessage) -> list[NewMessage]:
    return _taken(message, Timeline(store).create(TOPIC, [message], producer_group=STRANGERS))


def _by_service(url: str, message: NewMessage) -> list[NewMessage]:
    """None if the service does not take it, or is down."""
    with suppress(BatchlineError), Client(url, timeout=ANSWER, retry=None) as client:
        return _taken(message, client.create(TOPIC, [message], producer_group=STRANGERS))
    return []


def _taken(message: NewMessage, outcomes: list[Outcome]) -> list[NewMessage]:
    return [message] if outcomes[0].outcome == "created" else []
