"""The supervisor of background loops: a step that fails is logged, counted and shown, and the loop goes on.

step ──► clean: the trouble is over
     └─► failed: logged, counted, degraded ──► a pause that grows ──► step
"""

import asyncio
import logging
import random
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from batchline.core.retry import RetryRules
from batchline.core.trouble import BACK_OFF, Logged, LoopName, Trouble, is_news, trouble_after
from batchline.errors import (
    Degraded,
    LandingUnavailable,
    Overloaded,
    ServiceUnavailable,
    StoreError,
    StoreUnavailable,
)
from batchline.runtime.clock import now_us

__all__ = ["AWAY", "Loop", "Supervised", "Supervisor"]

log = logging.getLogger("batchline")
#: Errors that pass by themselves: the store or the service is away, or the clock is off.
AWAY: Final = (StoreUnavailable, LandingUnavailable, Degraded, ServiceUnavailable, Overloaded)
#: Errors that end no loop. A query that the database refuses is among these: the schema may be repaired.
REPEATED: Final = (*AWAY, StoreError)
#: Pause after an error that passes by itself.
AWAY_S: Final = 1.0


class Loop:
    """One supervised loop. Its steps run one after the other, in an event loop or in a thread."""

    def __init__(
        self,
        supervisor: "Supervisor",
        name: LoopName,
        about: str,
        back_off: RetryRules,
        away_s: Callable[[], float],
        ends: tuple[type[BaseException], ...],
    ) -> None:
        self.name, self.about = name, about
        #: Why its last step failed; None after a clean one.
        self.trouble: Trouble | None = None
        self._supervisor, self._back_off, self._away_s, self._ends = supervisor, back_off, away_s, ends
        self._last: Logged | None = None
        self._is_logged = False

    async def turn(self, step: Callable[[], Awaitable[float]]) -> float:
        """Run a step that returns how many seconds it may rest. Return that, or the pause after a failure."""
        try:
            rest_s = await step()
        except BaseException as error:  # noqa: BLE001 - what ends a loop is raised again
            return self.failed(error)
        self.ran()
        return rest_s

    def turn_in_thread(self, step: Callable[[], float]) -> float:
        """Run a step of a loop in a thread, in the same way."""
        try:
            rest_s = step()
        except BaseException as error:  # noqa: BLE001 - as above
            return self.failed(error)
        self.ran()
        return rest_s

    def start(self, run: Callable[[], Coroutine[Any, Any, None]]) -> "asyncio.Task[None]":
        """Start the loop as a task. Should it raise outside its steps, it is started again after a pause."""
        return asyncio.ensure_future(self._keep(run))

    async def _keep(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            try:
                return await run()
            except BaseException as error:  # noqa: BLE001 - as above
                pause_s = self.failed(error)
            await asyncio.sleep(pause_s)

    def failed(self, error: BaseException) -> float:
        """Note a failed step, and return the pause before the next. Raise an error that ends the loop."""
        away = isinstance(error, AWAY)
        if _is_end(error) or (isinstance(error, self._ends) and not isinstance(error, REPEATED)):
            raise error
        self.trouble = trouble_after(self.trouble, self.name, error, self._supervisor.now_ms())
        pause_s = self._away_s() if away else self._pause_s(self.trouble.failures)
        self._supervisor.note(self)
        if away:
            self._log_away(error)
        else:
            self._log(error, self.trouble, pause_s)
        return pause_s

    def _pause_s(self, failures: int) -> float:
        return self._back_off.pause_ms(failures, self._supervisor.chance()) / 1_000

    def _log(self, error: BaseException, trouble: Trouble, pause_s: float) -> None:
        self._supervisor.outage.loops.discard(self)
        if self._is_news(error):
            self._is_logged = True
            text = "%s failed (%d in a row); the next step is in %.1f s"
            log.error(text, self, trouble.failures, pause_s, exc_info=error)

    def _log_away(self, error: BaseException) -> None:
        outage = self._supervisor.outage
        if not outage.loops and self._is_news(error):
            outage.is_logged = True
            log.warning("%s: %s; it is tried again until it succeeds", self, error)
        outage.loops.add(self)

    def _is_news(self, error: BaseException) -> bool:
        now_ms = self._supervisor.now_ms()
        if not is_news(self._last, error, now_ms):
            return False
        self._last = Logged(type(error).__name__, now_ms)
        return True

    def ran(self) -> None:
        """Note a clean step: the trouble, if there was one, is over."""
        trouble, outage = self.trouble, self._supervisor.outage
        if trouble is None:
            return
        self.trouble = None
        self._supervisor.forget(self)
        outage.loops.discard(self)
        if self._is_logged or (outage.is_logged and not outage.loops):
            log.warning("%s runs again; failed steps: %d", self, trouble.failures)
            outage.is_logged = outage.is_logged and bool(outage.loops)
        self._is_logged = False

    def __str__(self) -> str:
        return f"loop {self.name} ({self.about})" if self.about else f"loop {self.name}"


def _is_end(error: BaseException) -> bool:
    """Return whether an error ends this process or task. No supervisor stops such an error.

    Only the main thread can end the process: in another, SystemExit would end the loop alone, and unnoticed. The same
    goes for a cancellation that was not asked of this task.
    """
    if isinstance(error, asyncio.CancelledError):
        return _is_cancelled()
    if isinstance(error, KeyboardInterrupt | SystemExit):
        return threading.current_thread() is threading.main_thread()
    return isinstance(error, GeneratorExit)


def _is_cancelled() -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # in a thread without an event loop
        return False
    return task is not None and task.cancelling() > 0


@dataclass(slots=True)
class Outage:
    """The loops that wait for a store or a service. An outage is one line in the log, however many wait."""

    loops: set[Loop] = field(default_factory=set)
    is_logged: bool = False


class Supervisor:
    """The loops of one part, or of one process. Threads may share it."""

    def __init__(self, *, clock: Callable[[], int] = now_us, chance: Callable[[], float] = random.random) -> None:
        self.chance = chance
        self._clock = clock
        self._failures: Counter[LoopName] = Counter()
        self._troubled: dict[tuple[LoopName, str], Loop] = {}
        self._outage = Outage()
        self._parts: list[Supervisor] = []
        self._whole: Supervisor | None = None

    def loop(
        self,
        name: LoopName,
        about: str = "",
        *,
        back_off: RetryRules = BACK_OFF,
        away_s: Callable[[], float] = lambda: AWAY_S,
        ends: tuple[type[BaseException], ...] = (),
    ) -> Loop:
        """Return a loop of this name, or the one that is in trouble.

        `about` is for the log: a topic, or the name of a process. After an error that passes by itself the pause is
        `away_s`; after any other it grows by `back_off`. Errors of the classes `ends` end the loop.
        """
        self._failures[name] += 0
        known = self._troubled.get((name, about))
        return known or Loop(self, name, about, back_off, away_s, ends)

    def adopt(self, part: "Supervisor") -> None:
        """Show the loops of a part, too."""
        if part is not self and part not in self._parts:
            self._parts.append(part)
            part._whole = self  # noqa: SLF001 - its own class

    def troubles(self) -> list[Trouble]:
        """Return the loops whose last step failed, the oldest trouble first."""
        found = [loop.trouble for loop in list(self._troubled.values())]
        found += [trouble for part in self._parts for trouble in part.troubles()]
        return sorted((one for one in found if one is not None), key=lambda one: one.since_ms)

    def failures(self) -> Mapping[LoopName, int]:
        """Return how many steps have failed, by loop: 0 for a loop that never failed."""
        found = Counter(dict(self._failures))
        for part in self._parts:
            for name, count in part.failures().items():
                found[name] += count
        return found

    # --- for loops ---

    def now_ms(self) -> int:
        """Return the time that troubles are dated with."""
        return self._clock() // 1_000

    def note(self, loop: Loop) -> None:
        """Count a failed step, and show the loop as degraded."""
        self._failures[loop.name] += 1
        self._troubled[loop.name, loop.about] = loop

    def forget(self, loop: Loop) -> None:
        """Show a loop as degraded no longer."""
        self._troubled.pop((loop.name, loop.about), None)

    @property
    def outage(self) -> Outage:
        """Return the outage that all loops share."""
        return self._outage if self._whole is None else self._whole.outage


class Supervised:
    """Something that runs background loops."""

    supervisor: Supervisor

    def troubles(self) -> list[Trouble]:
        """Return its loops whose last step failed: name, since when, how often in a row, the error's class."""
        return self.supervisor.troubles()
