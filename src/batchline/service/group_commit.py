"""Requests that come at the same time share one file: while one lands, the others gather for the next."""

import asyncio
from collections.abc import Callable, Sequence

from batchline.errors import LandingUnavailable
from batchline.runtime.callbacks import call_in
from batchline.runtime.supervisor import Supervised, Supervisor
from batchline.sources.landing import Landing
from batchline.sources.measured import Arrival, Malformed, Measured

__all__ = ["GroupCommit"]


class GroupCommit(Supervised):
    """Lands for many, one file at a time; all of it in one event loop.

    A landing that fails is answered to its requests at once, so there is no pause: the next request is the next try.
    """

    def __init__(self, landing: Landing, now_us: Callable[[], int]) -> None:
        self._landing, self._now_us = landing, now_us
        self.supervisor = Supervisor()
        self._loop = self.supervisor.loop("group_commit", str(landing.directory))
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
            self._landing_now = self._loop.start(self._land_all)
        await durable
        return arrival

    async def _land_all(self) -> None:
        while self._gathered:
            await self._land_gathered()
        self._landing_now = None

    async def _land_gathered(self) -> None:
        taken, self._gathered = self._gathered, []
        arrivals = [arrival for arrival, _ in taken]
        failure: BaseException | None = None
        try:
            await call_in(None, self._landing.land, arrivals)
        except BaseException as error:  # noqa: BLE001 - the requests get it: else they would wait for ever
            failure = error
        else:
            self._count(arrivals)
        self._answer(taken, failure)
        if failure is None:
            self._loop.ran()
        else:
            self._loop.failed(failure)

    def _answer(self, taken: Sequence[tuple[Arrival, asyncio.Future[None]]], failure: BaseException | None) -> None:
        for durable in (durable for _, durable in taken if not durable.done()):  # done: its client has gone away
            if failure is None:
                durable.set_result(None)
            elif isinstance(failure, Exception):
                durable.set_exception(failure)
            else:
                durable.set_exception(LandingUnavailable("the landing was interrupted: send the request again"))

    def _count(self, arrivals: Sequence[Arrival]) -> None:
        for arrival in arrivals:
            malformed = sum(isinstance(part, Malformed) for part in arrival.parts)
            self.malformed += malformed
            self.landed += len(arrival.parts) - malformed
        self.files += 1
