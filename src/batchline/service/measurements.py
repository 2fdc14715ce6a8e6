"""`POST /v1/measurements`: for whoever has neither files nor a broker. Answered when what came is durable.

    a JSON array, or JSON lines ─► each a measurement, or malformed with a reason ─► landed together ─► 202

A measurement has key, type, event_time and value; what else it has goes along. An event time is asked for, so that a
request that is repeated because its answer was lost brings duplicates, which the batcher removes.
"""

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from batchline.errors import InvalidMeasurement, LandingUnavailable, UnknownRoute
from batchline.service.operation import Call, NoForm, Operation
from batchline.service.reading import check_kind, read_body
from batchline.sources.mapped_json import MeasurementMapping
from batchline.sources.measured import Malformed, Measured
from batchline.sources.payload import json_from
from batchline.wire.measurements import Landed, Rejected

__all__ = ["LARGEST_BODY", "OPERATIONS"]

PATH: Final = "/v1/measurements"
LARGEST_BODY: Final = 8 * 2**20
ARRAY, LINES = "application/json", "application/x-ndjson"
MAPPING: Final = MeasurementMapping(key="key", type="type", value="value", event_time="event_time")


class Numbered(NamedTuple):
    """What stands at a place of a body, counted from 1."""

    line: int
    part: Measured | Malformed


async def land_measurements(call: Call[NoForm]) -> Landed:
    """Take measurements in; when it is answered they are on disk. Those that are none are told, and kept apart."""
    landing = call.parts.landing
    if landing is None:
        raise UnknownRoute("this service takes no measurements: start it by batchline serve --landing DIR")
    kind = check_kind(call.request, ARRAY, LINES)
    body = await read_body(call.request, LARGEST_BODY)
    # In a thread: a large body would keep all others waiting.
    numbered = await call.parts.in_thread(_from_array if kind == ARRAY else _from_lines, body)
    await landing.land(lambda _: [one.part for one in numbered])
    rejected = [Rejected(line, part.reason) for line, part in numbered if isinstance(part, Malformed)]
    return Landed(len(numbered) - len(rejected), rejected)


def _from_array(body: bytes) -> list[Numbered]:
    """The items of a JSON array; an object is an array of one."""
    found = json_from(body)
    return _parts(list(enumerate(found if isinstance(found, list) else [found], 1)))


def _from_lines(body: bytes) -> list[Numbered]:
    """The lines that are not blank; if none of them is JSON, the request is not."""
    lines = [(number, line) for number, line in enumerate(body.split(b"\n"), 1) if line.strip()]
    if lines and not any(_is_json(line) for _, line in lines):
        raise InvalidMeasurement(f"expected JSON lines, and none of the {len(lines):,} lines is JSON")
    return _parts(lines)


def _is_json(line: bytes) -> bool:
    try:
        json_from(line)
    except InvalidMeasurement:
        return False
    return True


def _parts(lines: Sequence[tuple[int, Any]]) -> list[Numbered]:
    return [Numbered(number, _part(line)) for number, line in lines]


def _part(line: Any) -> Measured | Malformed:
    try:
        # The event time is asked for, so nobody needs to know when it was received.
        return MAPPING.measured("", json_from(line) if isinstance(line, bytes) else line, 0)
    except InvalidMeasurement as error:
        return Malformed(f"POST {PATH}", str(error), _text(line))


def _text(line: Any) -> str:
    if isinstance(line, bytes):
        return line.decode("utf-8", "backslashreplace")
    try:
        return json.dumps(line, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return repr(line)


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
