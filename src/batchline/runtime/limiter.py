"""What a rate limiter is: a capacity a second, which may change, and a life of provision, start and stop."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Literal, Self

from batchline.core.adaptive import Adapting, Adaptive
from batchline.core.cost import Amounts, same_names
from batchline.core.ramp import Ramp, Ramping
from batchline.core.trouble import Trouble
from batchline.errors import ImproperOrder, InvalidRules, shown
from batchline.runtime.clock import elapsed_seconds
from batchline.runtime.events import Events
from batchline.runtime.supervisor import Supervisor

__all__ = ["Limiter"]

Phase = Literal["new", "provisioned", "started", "stopped"]


class Limiter(ABC):
    """A rate limiter. One dispatcher uses it, which provisions, starts and stops it, unless somebody else has."""

    def __init__(
        self,
        *,
        ramp: Ramp | None = None,
        adaptive: Adaptive | None = None,
        clock: Callable[[], float] = elapsed_seconds,
    ):
        _check_kind("ramp", ramp, Ramp)
        _check_kind("adaptive", adaptive, Adaptive)
        self.events = Events()
        self.supervisor = Supervisor()
        self.phase: Phase = "new"
        self._clock = clock
        self._ramp = ramp
        self._ramping: Ramping | None = None
        self._adapting = None if adaptive is None else Adapting(adaptive)
        self._told: Any = None
        self._user: object = None

    # --- what it gives ---

    @property
    @abstractmethod
    def max_capacity(self) -> Any:
        """The most it can ever give a second."""

    @abstractmethod
    def configured(self, now_s: float) -> Any:
        """What it has a second now, before ramp and adaptation."""

    def request(self, per_second: Any) -> None:  # noqa: B027 - who has what it has need not know
        """So much a second could be used."""

    @property
    def capacity(self) -> Any:
        """What may be used a second now."""
        return self._look()

    def _look(self) -> Any:
        """What may be used a second now; told as an event if it has changed."""
        now_s = self._clock()
        capacity = self.configured(now_s)
        if self._ramp is not None:
            # Until a dispatcher has started, nothing is sent to the receiver that could let it scale.
            ramping = self._ramping or Ramping(self._ramp, now_s)
            capacity = ramping.allow(capacity, now_s)
        if self._adapting is not None:
            capacity = capacity * self._adapting.share(now_s)
        if capacity != self._told:
            self._told = capacity
            self.events.emit("capacity", capacity)
        return capacity

    def troubles(self) -> list[Trouble]:
        """Return its loops whose last step failed."""
        return self.supervisor.troubles()

    def throttled(self) -> None:
        """The receiver throttles."""
        if self._adapting is not None:
            self._adapting.throttled(self._clock())

    # --- its life ---

    def use(self, dispatcher: object) -> None:
        """A dispatcher uses it from now on: two would use it twice."""
        if self._user not in (None, dispatcher):
            raise ImproperOrder("a limiter belongs to one dispatcher, and this one has one already")
        self._user = dispatcher

    def begin_ramp(self) -> None:
        """Let the ramp, if there is one, grow from now on: the dispatcher has started."""
        if self._ramp is not None:
            self._ramping = Ramping(self._ramp, self._clock())

    async def provision(self) -> None:
        """Make, and look over, what it needs."""
        self._expect("provision", "new", "provisioned")
        await self._provision()
        self.phase = "provisioned"

    async def start(self) -> None:
        """Begin to work."""
        self._expect("start", "provisioned")
        await self._start()
        self.phase = "started"

    async def stop(self) -> None:
        """End, and give back what it holds."""
        self._expect("stop", "started")
        self.phase = "stopped"
        await self._stop()
        self.events.emit("shutdown")

    async def __aenter__(self) -> Self:
        if self.phase == "new":
            await self.provision()
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _provision(self) -> None:  # noqa: B027 - as it says
        """Nothing, for one that needs nothing."""

    async def _start(self) -> None:  # noqa: B027 - as it says
        """Nothing, for one that does nothing by itself."""

    async def _stop(self) -> None:  # noqa: B027 - as it says
        """Nothing, for one that holds nothing."""

    def _check_ramp(self, capacity: Any) -> None:
        """A ramp that names capacities names those that there are."""
        for amount in () if self._ramp is None else (self._ramp.start, self._ramp.step):
            if isinstance(amount, Mapping) and not same_names(Amounts(amount), capacity):
                raise InvalidRules(f"ramp must name the same capacities as {capacity!r}, got {self._ramp!r}")

    def _expect(self, verb: str, *phases: Phase) -> None:
        if self.phase not in phases:
            raise ImproperOrder(f"the order is provision, start, stop; got {verb} when it was {self.phase}")


def _check_kind(name: str, value: object, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        raise InvalidRules(f"{name} must be of the kind {kind.__name__}, got {shown(value)}")
