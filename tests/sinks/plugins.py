"""Sinks as other people write them."""

from collections.abc import Sequence

from batchline.core.consignment import Consignment
from batchline.sinks.sink import Answer, Sink

__all__ = ["AsyncPlugin", "NoSend", "OwnSink", "Plugin"]


class Plugin:
    def __init__(self, site: str, *, password: str = ""):
        if not site:
            raise ValueError(f"no site for {password}")
        self.site = site
        self.sent: list[str] = []
        self.closed = False

    def send(self, parcels: Sequence[Consignment]) -> None:
        self.sent += [parcel.id for parcel in parcels]


class AsyncPlugin:
    most = 7

    def __init__(self) -> None:
        self.closed = False

    async def send(self, parcels: Sequence[Consignment]) -> None:
        assert parcels

    async def close(self) -> None:
        self.closed = True


class Odd(AsyncPlugin):
    most = 0


class OwnSink(Sink):
    def send(self, parcels: Sequence[Consignment]) -> Answer:
        assert parcels
        return None


class NoSend:
    pass
