"""A capacity that instances share, by leases on its partitions."""

import asyncio
import random
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from batchline.core.adaptive import Adaptive
from batchline.core.cost import Cost, most
from batchline.core.name import check_name
from batchline.core.partitions import Asking
from batchline.core.ramp import Ramp
from batchline.core.share import Share, ShareRules, Steps
from batchline.core.topic import span_ms
from batchline.core.trouble import SERVING
from batchline.errors import InvalidRules, shown
from batchline.leases.lease_manager import LeaseManager, Provisioned
from batchline.runtime.clock import elapsed_seconds, now_us, wait_for
from batchline.runtime.limiter import Limiter

__all__ = ["SharedResource"]


class SharedResource(Limiter):
    """`reserved`, and as much of `shared` as this instance needs and can get, in pieces of `factor`."""

    def __init__(
        self,
        lease_manager: LeaseManager,
        shared: Cost,
        *,
        factor: Cost = 1,
        reserved: Cost = 0,
        max_interval: timedelta = timedelta(milliseconds=500),
        lease: timedelta = timedelta(seconds=15),
        instance: str | None = None,
        ramp: Ramp | None = None,
        adaptive: Adaptive | None = None,
        clock: Callable[[], float] = elapsed_seconds,
        wall: Callable[[], int] = now_us,
        chance: Callable[[], float] = random.random,
    ):
        """A share of what all instances with a manager of the same resource share.

        `instance` must not be used by two at once; by itself it is one that nobody else has.
        """
        super().__init__(ramp=ramp, adaptive=adaptive, clock=clock)
        if not isinstance(lease_manager, LeaseManager):
            raise InvalidRules(f"lease_manager must be one: open_leases(address, resource), got {shown(lease_manager)}")
        rules = ShareRules(shared, factor, reserved, max_interval, lease)
        self._check_ramp(rules.shared)
        name = str(uuid.uuid4()) if instance is None else check_name("instance", instance)
        self._share = Share(rules, name)
        self._manager = lease_manager
        self._wall, self._chance = wall, chance
        self._max: Any = self._share.max_capacity
        self._wake = asyncio.Event()
        self._turns: asyncio.Task[None] | None = None
        self._loop = self.supervisor.loop("share", f"{lease_manager.resource}, instance {name}", back_off=SERVING)
        self._provision_again = False

    @property
    def instance(self) -> str:
        """What the others know it by."""
        return self._share.instance

    @property
    def partitions(self) -> list[int]:
        """The partitions that it holds now."""
        now_s = self._clock()
        return sorted(partition for partition, until_s in list(self._share.held.items()) if until_s > now_s)

    @property
    def max_capacity(self) -> Any:
        """The most it ever could have had."""
        return self._max

    def configured(self, now_s: float) -> Any:
        """What is reserved, and what is leased for longer than now."""
        return self._share.capacity(now_s)

    def request(self, per_second: Any) -> None:
        """So much a second could be used: partitions are acquired, kept or given back for it."""
        needed = self._share.wanted
        self._share.want(per_second)
        if self._share.wanted != needed:
            self.events.emit("target", per_second)
        if self._share.wanted > max(needed, len(self._share.held)):
            self._wake.set()

    def set_shared(self, shared: Cost) -> None:
        """Another capacity to share, which counts at once; every instance has to be told."""
        self._share.change(shared=shared)
        self._provision_again = True
        self._changed()

    def set_reserved(self, reserved: Cost) -> None:
        """Another capacity of its own, which counts at once."""
        self._share.change(reserved=reserved)
        self._changed()

    def _changed(self) -> None:
        self._max = most(self._max, self._share.max_capacity)
        self._look()
        self._wake.set()

    # --- its life ---

    async def _provision(self, *, replace: bool = False) -> None:
        rules = self._share.rules
        provision = self._manager.provision
        self._tell_provisioned(
            await asyncio.to_thread(provision, rules.count, rules.size, self._wall(), replace=replace)
        )

    def _tell_provisioned(self, found: Provisioned) -> None:
        self.events.emit("created-container" if found.created else "verified-container", message=found.where)
        for partition in found.created_partitions:
            self.events.emit("created-blob", partition)
        for partition in found.verified_partitions:
            self.events.emit("verified-blob", partition)

    async def _start(self) -> None:
        self._look()
        self._turns = self._loop.start(self._take_turns)

    async def _stop(self) -> None:
        self._share.want(0)
        self._wake.set()
        lease_s = self._share.rules.lease.total_seconds()
        if self._turns is not None:
            # A turn under way may be acquiring: what it gets is to be given back, too.
            await asyncio.wait([self._turns], timeout=lease_s)
            self._turns.cancel()
        try:
            await asyncio.wait_for(self._part(), lease_s)
        except Exception as error:  # noqa: BLE001 - a keeper that does not answer lets them run out
            self._tell_error(error)

    async def _part(self) -> None:
        await self._release(list(self._share.held))
        farewell = Asking(self.instance, 0)
        await asyncio.to_thread(self._manager.ask, farewell, self._lease_ms, self._wall())

    async def _take_turns(self) -> None:
        while self.phase != "stopped":
            await self.turn()
            idle = not self._share.held and not self._share.wanted
            await wait_for(self._wake, self._share.rules.lease.total_seconds() if idle else self._rest_s())
            self._wake.clear()

    def _rest_s(self) -> float:
        """Until the next turn, or until a lease runs out here, which is to be told."""
        now_s = self._clock()
        ends = (until_s - now_s for until_s in self._share.held.values() if until_s > now_s)
        return min([self._share.rest_s(self._chance()), *ends])

    async def turn(self) -> None:
        """One turn: ask, give back, renew, acquire. A keeper that does not answer is asked again in the next."""
        try:
            if self._provision_again:
                await self._provision(replace=True)
                self._provision_again = False
            asking = self._share.asking(self._clock())
            if asking is not None:
                askings = await asyncio.to_thread(self._manager.ask, asking, self._lease_ms, self._wall())
                await self._do(self._share.steps(askings, self._clock(), self._wall(), self._chance()))
                self._loop.ran()
        except Exception as error:  # noqa: BLE001 - whatever it is, the next turn may be better
            self._share.refused(1)
            self._tell_error(error)
        self._look()

    def _tell_error(self, error: Exception) -> None:
        self._loop.failed(error)
        self.events.emit("error", message=str(error) or type(error).__name__, metadata=error)

    # --- the steps of a turn ---

    @property
    def _lease_ms(self) -> int:
        return span_ms(self._share.rules.lease)

    async def _do(self, steps: Steps) -> None:
        await self._release(steps.release)
        await self._renew(steps.renew)
        if steps.most:
            await self._acquire(steps.acquire, steps.most)

    async def _release(self, partitions: list[int]) -> None:
        # Here first: nobody else may have what is still used here.
        self._share.lost(partitions)
        if partitions:
            self._look()
            await asyncio.to_thread(self._manager.release, self.instance, partitions, self._wall())
        for partition in partitions:
            self.events.emit("released", partition)

    async def _renew(self, partitions: list[int]) -> None:
        if not partitions:
            return
        sent_s = self._clock()
        renewed = await asyncio.to_thread(self._manager.renew, self.instance, partitions, self._lease_ms, self._wall())
        self._share.granted(renewed, sent_s)
        lost = [partition for partition in partitions if partition not in renewed]
        self._share.lost(lost)
        for partition in lost:
            self.events.emit("failed", partition, "the lease was lost")

    async def _acquire(self, partitions: list[int], most: int) -> None:
        sent_s = self._clock()
        acquired = await asyncio.to_thread(
            self._manager.acquire, self.instance, partitions, most, self._lease_ms, self._wall()
        )
        self._share.granted(acquired, sent_s)
        self._share.refused(most - len(acquired))
        for partition in acquired:
            self.events.emit("allocated", partition)
        if len(acquired) < most:
            refused = next(partition for partition in partitions if partition not in acquired)
            self.events.emit("failed", refused, f"{most - len(acquired)} partitions more were wanted")
