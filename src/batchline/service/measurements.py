"""`POST /v1/measurements`: for whoever has neither files nor a broker. Answered when what came is durable.

    a JSON array, or JSON lines ─► each a measurement, or malformed with a reason ─► landed together ─► 202

A measurement has key, type, event_time and value; what else it has goes along. An event time is asked for, so that a
request that is repeated because its answer was lost brings duplicates, which the batcher removes.
"""

import json
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from batchline.errors import InvalidMeasurement, LandingUnavailable, TooLarge, UnknownRoute
from batchline.runtime.timeline import Timeline
from batchline.service.operation import Call, NoForm, Operation
from batchline.service.reading import check_kind, read_body
from batchline.sources.mapped_json import MeasurementMapping
from batchline.sources.measured import Malformed, Measured, kept_text
from batchline.sources.payload import items_from, json_from
from batchline.wire.measurements import Landed, Rejected

__all__ = ["LARGEST_BODY", "OPERATIONS"]

PATH: Final = "/v1/measurements"
LARGEST_BODY: Final = 8 * 2**20
#: Memory that a body takes while it is read, in bytes of an answer for each of its own: both share one budget.
READ_TIMES: Final = 4
#: Malformed lines are kept if they take at most this number of times the body, plus some bytes for a few lines.
MOST_TIMES: Final = 8
ROOM: Final = 16 << 10
#: What the record of a malformed line has beside its reason and its text.
RECORD_BYTES: Final = 120
ARRAY, LINES = "application/json", "application/x-ndjson"
MAPPING: Final = MeasurementMapping(key="key", type="type", value="value", event_time="event_time")


class Request(NamedTuple):
    """What a body holds: all its parts, and of those that are no measurements where they stand, counted from 1."""

    parts: list[Measured | Malformed]
    rejected: list[Rejected]


async def land_measurements(call: Call[NoForm]) -> Landed:
    """Take measurements in; when it is answered they are on disk. Those that are none are told, and kept apart."""
    landing = call.parts.landing
    if landing is None:
        raise UnknownRoute("this service takes no measurements: start it by batchline serve --landing DIR")
    kind = check_kind(call.request, ARRAY, LINES)
    body = await read_body(call.request, call.parts.under_way, call.body_share, LARGEST_BODY)
    await call.share.take(READ_TIMES * len(body))
    # In a thread: a large body would keep all others waiting.
    request = await call.parts.in_thread(_checked, call.parts.timeline, kind, body)
    await landing.land(lambda _: request.parts)
    return Landed(len(request.parts) - len(request.rejected), request.rejected)


def _checked(timeline: Timeline, kind: str, body: bytes) -> Request:
    """Read a body, unless the clock by which it is received is off: a moment ahead would close windows early."""
    timeline.check_clock()
    return _request_of(body, _from_array if kind == ARRAY else _from_lines)


def _request_of(body: bytes, each: Callable[[bytes], Iterator[tuple[int, Measured | Malformed]]]) -> Request:
    """Read a body; raises TooLarge if it holds too much, or would take far more room than it has itself."""
    request, room = Request([], []), MOST_TIMES * len(body) + ROOM
    for number, part in each(body):
        request.parts.append(part)
        if isinstance(part, Malformed):
            request.rejected.append(Rejected(number, part.reason))
            room -= RECORD_BYTES + len(part.reason) + len(json.dumps(part.text))
        if room < 0:
            raise TooLarge(
                f"expected measurements, and {len(request.rejected):,} of the first {len(request.parts):,} lines are "
                f"none, the last because: {request.rejected[-1].reason}; correct them, or send fewer in a request"
            )
    return request


def _from_array(body: bytes) -> Iterator[tuple[int, Measured | Malformed]]:
    """The items of a JSON array; an object is an array of one."""
    for number, (text, item) in enumerate(items_from(body), 1):
        yield number, _part(text, item)


def _from_lines(body: bytes) -> Iterator[tuple[int, Measured | Malformed]]:
    """The lines that are not blank; if none of them is JSON, the request is not."""
    lines, is_json = 0, False
    for number, line in _lines(body):
        item = _item(line)
        is_json |= not isinstance(item, InvalidMeasurement)
        lines += 1
        yield number, _part(line, item)
    if lines and not is_json:
        raise InvalidMeasurement(f"expected JSON lines, and none of the {lines:,} lines is JSON")


def _lines(body: bytes) -> Iterator[tuple[int, bytes]]:
    begin, number = 0, 0
    while begin < len(body):
        end = body.find(b"\n", begin)
        end, number = len(body) if end < 0 else end, number + 1
        line = body[begin:end]
        if line.strip():
            yield number, line
        begin = end + 1


def _item(line: bytes) -> object:
    """The JSON value of a line, or why it is none."""
    try:
        return json_from(line)
    except InvalidMeasurement as error:
        return error


def _part(text: bytes | str, item: object) -> Measured | Malformed:
    try:
        if isinstance(item, InvalidMeasurement):
            raise item
        # The event time is asked for, so nobody needs to know when it was received.
        return MAPPING.measured("", item, 0)
    except InvalidMeasurement as error:
        return Malformed(f"POST {PATH}", str(error), kept_text(text))


OPERATIONS: Final = (
    Operation(
        "POST",
        PATH,
        "produce",
        land_measurements,
        answer=Landed,
        status=202,
        refusals=(InvalidMeasurement, LandingUnavailable, UnknownRoute),
        reads=(ARRAY, LINES),
    ),
)
