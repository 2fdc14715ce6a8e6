"""Background work: each service a class with one step, and one loop for all of them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Protocol

from batchline.core.moment import check_span
from batchline.core.trouble import LoopName
from batchline.runtime.beat import Beat
from batchline.runtime.broker_clock import clock_on
from batchline.runtime.callbacks import call_in
from batchline.runtime.clock import now_us, wait_for
from batchline.runtime.each_part import step_each
from batchline.runtime.expire import Expire
from batchline.runtime.prune import Prune
from batchline.runtime.rescue import Rescue
from batchline.runtime.supervisor import Supervised, Supervisor
from batchline.stores.store import Store

__all__ = ["Service", "Services"]

Wait = Callable[[asyncio.Event, float], Awaitable[None]]


class Service(Protocol):
    """Work that any number of processes may do on one store, a bounded step at a time."""

    def run_once(self) -> bool:
        """One step; tells whether there is more to do at once."""


@dataclass(frozen=True, slots=True)
class Paced:
    """A service, the name of its loop, and how long it rests when there is nothing more to do."""

    name: LoopName
    service: Service
    rest: timedelta


class Services(Supervised):
    """Prunes, expires and rescues, until it is stopped. A step that fails is logged, and tried again after a pause."""

    def __init__(
        self,
        store: Store,
        *,
        every: timedelta = timedelta(seconds=1),
        beat: Beat | None = None,
        clock: Callable[[], int] = now_us,
        wait: Wait = wait_for,
        supervisor: Supervisor | None = None,
    ):
        """Services that rest for `every` between steps.

        With a `beat` its timeline is a broker's, and its clock is that of all services. While that clock is off they
        change nothing: each step fails with Degraded. `troubles()` names the loops that fail; with a `supervisor` they
        are shown there, too.
        """
        check_span("every", every, 1_000)
        self._clock = clock = clock_on(store, clock) if beat is None else beat.clock
        self._paced: Sequence[Paced] = (
            # First: the others go by the clock that it compares.
            *([] if beat is None else [Paced("beat", beat, every)]),
            Paced("prune", Prune(store, clock=clock), every),
            Paced("rescue", Rescue(store, clock=clock), every),
            Paced("expire", Expire(store, clock=clock), 10 * every),
        )
        self._beat, self._wait = beat, wait
        self.supervisor = supervisor or Supervisor()
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Run all services until `stop` is called."""
        self._require_comparison()
        await asyncio.gather(*(self._loop(paced) for paced in self._paced))

    def stop(self) -> None:
        """End after the steps under way."""
        self._stopping.set()

    def compare_clocks(self) -> None:
        """Compare the clock with those of the other brokers, where there is a beat: before anything is leased."""
        if self._beat is not None:
            self._require_comparison()
            self._beat.run_once()

    def run_once(self) -> bool:
        """Take a step of each service. Return whether there is more to do at once. One that fails stops no other."""
        self._require_comparison()
        return step_each(((paced.name, paced.service) for paced in self._paced), lambda service: service.run_once())

    def _require_comparison(self) -> None:
        """Leave no moment, however short, between the start and the first beat in which the clock is only believed."""
        if self._beat is not None:
            self._clock.require_comparison()

    async def _loop(self, paced: Paced) -> None:
        loop = self.supervisor.loop(paced.name, away_s=paced.rest.total_seconds)
        while not self._stopping.is_set():
            await self._wait(self._stopping, await loop.turn(partial(self._step, paced)))

    async def _step(self, paced: Paced) -> float:
        more = await call_in(None, paced.service.run_once)
        return 0 if more else paced.rest.total_seconds()
