"""Requests that come at the same time share one file: while one lands, the others gather for the next."""

import asyncio
from collections.abc import Callable, Sequence

from batchline.sources.landing import Landing
from batchline.sources.measured import Arrival, Malformed, Measured

__all__ = ["GroupCommit"]


class GroupCommit:
    """Lands for many, one file at a time; all of it in one event loop."""

    def __init__(self, landing: Landing, now_us: Callable[[], int]) -> None:
        self._landing, self._now_us = landing, now_us
        self._gathered: list[tuple[Arrival, asyncio.Future[None]]] = []
        self._landing_now: asyncio.Task[None] | None = None
        #: Measurements, lines that are none, and files that are durable.
        self.landed = self.malformed = self.files = 0

    async def land(self, parse: Callable[[int], Sequence[Measured | Malformed]]) -> Arrival:
        """Stamp what came, and land it: durable when this returns. Raises LandingUnavailable; then none of it has."""
        arrival = self._landing.arrived(self._now_us(), parse)
        if not arrival.parts:
            return arrival
        durable = asyncio.get_running_loop().create_future()
        self._gathered.append((arrival, durable))
        if self._landing_now is None:
            self._landing_now = asyncio.create_task(self._land_all())
        await durable
        return arrival

    async def _land_all(self) -> None:
        try:
            while self._gathered:
                await self._land_gathered()
        finally:
            self._landing_now = None

    async def _land_gathered(self) -> None:
        taken, self._gathered = self._gathered, []
        arrivals = [arrival for arrival, _ in taken]
        failure: Exception | None = None
        try:
            await asyncio.to_thread(self._landing.land, arrivals)
            self._count(arrivals)
        except Exception as error:  # noqa: BLE001 - the requests are told: else they would wait for ever
            failure = error
        for durable in (durable for _, durable in taken if not durable.done()):  # done: its client has gone away
            if failure is None:
                durable.set_result(None)
            else:
                durable.set_exception(failure)

    def _count(self, arrivals: Sequence[Arrival]) -> None:
        parts = [part for arrival in arrivals for part in arrival.parts]
        malformed = sum(isinstance(part, Malformed) for part in parts)
        self.malformed += malformed
        self.landed += len(parts) - malformed
        self.files += 1
