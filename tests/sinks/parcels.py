"""Parcels for the tests of sinks."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from batchline.core.consignment import Consignment

__all__ = ["NOON", "measurement", "parcel"]

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def measurement(place: int, **more: Any) -> dict[str, Any]:
    at = NOON + timedelta(seconds=place)
    times = {"event_time": at.isoformat(), "receive_time": (at + timedelta(seconds=1)).isoformat()}
    return {"key": f"d{place}", "type": "temperature", **times, "value": 20.5 + place, **more}


def parcel(id: str = "d0@0", count: int = 3, *, number: int = 1, lane: int = 0, **more: Any) -> Consignment:
    return parcel_of([measurement(place, **more) for place in range(count)], id, number=number, lane=lane)


def parcel_of(measurements: list[Any], id: str = "d0@0", *, number: int = 1, lane: int = 0) -> Consignment:
    payload = json.dumps(measurements, separators=(",", ":"), ensure_ascii=False).encode()
    return Consignment(id, "import", lane, number, None, len(measurements), NOON.isoformat(), NOON.isoformat(), payload)
