"""collectd's values: `timestamp:v1:v2…` on `collectd/<host>/<plugin>/<value>`, as its MQTT plugin writes them.

    collectd/pump/cpu/percent-active     1763208000.125:12.5\\0        key pump, type cpu.percent-active
    collectd/pump/interface-eth0/if_octets   1763208000.125:1:2\\0     types interface-eth0.if_octets.1 and .2

The key is the host. One message may hold several values, which are numbered from 1.
"""

from decimal import Decimal, InvalidOperation

from batchline.errors import InvalidMeasurement, shown
from batchline.sources.measured import Measured, collect
from batchline.sources.payload import name_from, number_from, time_from

__all__ = ["parse_collectd"]


def parse_collectd(topic: str, payload: bytes, receive_us: int) -> list[Measured]:  # noqa: ARG001 - a Parser
    """A measurement for each value of a message of collectd."""
    levels = topic.split("/")
    if len(levels) != 4 or levels[0] != "collectd" or not (levels[2] and levels[3]):
        raise InvalidMeasurement(f"expected a topic collectd/host/plugin/value, got {shown(topic)}")
    key, type = name_from("the host", levels[1]), name_from("the type", f"{levels[2]}.{levels[3]}")
    time, *values = _numbers(payload)
    event_us = time_from("the timestamp", time)
    numbers = [number_from(f"value {place}", value) for place, value in enumerate(values, 1)]
    if len(numbers) == 1:
        return [Measured(key, type, event_us, numbers[0])]
    return collect(Measured(key, f"{type}.{place}", event_us, number) for place, number in enumerate(numbers, 1))


def _numbers(payload: bytes) -> list[Decimal]:
    text = payload.removesuffix(b"\0")
    try:
        numbers = [Decimal(part) for part in text.decode("ascii").split(":")]
    except (UnicodeDecodeError, InvalidOperation):
        numbers = []
    if len(numbers) < 2 or not numbers[0].is_finite():
        raise InvalidMeasurement(f"expected timestamp:value, got {shown(text)[:80]}")
    return numbers
