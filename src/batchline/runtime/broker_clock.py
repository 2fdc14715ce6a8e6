"""This process's clock, as a store's other users may rely on it: compared with the database's before it is written.

    checked_us() ──► compared lately, and not set since? ──yes──► right? ──yes──► the moment
                          │ no                                      │ no
                          └──► compare: one read of the store ──────┴──► Degraded

Every moment that is written comes from `checked_us`. Calling the clock reads it without a check, for what only looks.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Final, NamedTuple

from batchline.core.attendance import BrokerHealth
from batchline.core.drift import Reading, stepped_us
from batchline.core.topic import span_ms
from batchline.errors import Degraded
from batchline.runtime.clock import elapsed_seconds, now_us
from batchline.runtime.process_name import machine_name
from batchline.stores.attending import ComparedClock, Comparison, attend_broker, compare_clock
from batchline.stores.store import Store

__all__ = ["LIVE_FOR", "MAX_DRIFT", "BrokerClock", "clock_on"]

#: How long after its last heartbeat a consumer, or a broker, counts as there.
LIVE_FOR: Final = timedelta(seconds=30)
MAX_DRIFT: Final = timedelta(seconds=1)
#: How long a comparison holds: one that found the clock right, and one that found it off. A beat comes before.
RIGHT_FOR_US: Final = 10_000_000
OFF_FOR_US: Final = 1_000_000


class Compared(NamedTuple):
    """A comparison, and the reading of the clock just before it."""

    at: Reading
    found: Comparison


class BrokerClock:
    """The clock of what works on a store in this process. Threads may share it."""

    def __init__(
        self,
        store: Store,
        read: Callable[[], int] = now_us,
        steady: Callable[[], float] | None = None,
    ) -> None:
        """A clock that is not compared yet. A made-up one is trusted until its process beats as a broker.

        `steady` shows when the clock is set: a made-up one is its own, for whoever moves it means to.
        """
        own = elapsed_seconds if read is now_us else lambda: read() / 1e6
        self._store, self._read, self._steady = store, read, steady or own
        self.live_for_ms, self.max_drift_ms = span_ms(LIVE_FOR), span_ms(MAX_DRIFT)
        self._is_compared = read is now_us
        self._last: Compared | None = None
        self._broker: str | None = None

    def __call__(self) -> int:
        """Return the moment it shows, in microseconds since the epoch, right or not."""
        return self._read()

    def checked_us(self) -> int:
        """Return the moment it shows; raise Degraded if that is not right, or if it cannot be known."""
        if not self._is_compared:
            return self._read()
        reading, last = self._reading(), self._last
        if last is None or self._is_over(last, reading):
            last = self._compare(lambda clock: self._store.read(lambda rows: compare_clock(rows, clock)))
            reading = self._reading()
        self._check(last, reading)
        return reading.wall_us

    def checked_ms(self) -> int:
        """Return the last whole millisecond of that."""
        return self.checked_us() // 1_000

    def beat(self, broker: str, host: str | None = None) -> BrokerHealth:
        """Note that this process is there as a broker, and compare the clock."""
        place = machine_name() if host is None else host
        self.require_comparison()
        last = self._compare(lambda clock: self._store.transact(lambda rows: attend_broker(rows, broker, place, clock)))
        self._broker = broker
        return self._health(broker, last.found)

    def require_comparison(self) -> None:
        """Trust the clock no more without a comparison, although it is made up."""
        self._is_compared = True

    def health(self) -> BrokerHealth | None:
        """Return what the last comparison of this broker found; None before its first beat."""
        return None if self._broker is None or self._last is None else self._health(self._broker, self._last.found)

    # --- inside ---

    def _reading(self) -> Reading:
        before = self._steady()
        wall_us = self._read()
        return Reading(wall_us, round(before * 1e6), round((self._steady() - before) * 1e6))

    def _compare(self, ask: Callable[[ComparedClock], Comparison]) -> Compared:
        # Read first: if the clock is set during the comparison, the next reading shows it.
        reading = self._reading()
        clock = ComparedClock(lambda: self._read() // 1_000, self.live_for_ms, self.max_drift_ms)
        self._last = last = Compared(reading, ask(clock))
        return last

    def _is_over(self, last: Compared, now: Reading) -> bool:
        """Tell whether a comparison is old, or from before the clock was set."""
        held_us = OFF_FOR_US if self._is_off(last.found.drift_ms) else RIGHT_FOR_US
        return abs(now.steady_us - last.at.steady_us) > held_us or self._is_off(stepped_us(last.at, now) / 1_000)

    def _check(self, last: Compared, now: Reading) -> None:
        for off_ms in (last.found.drift_ms, stepped_us(last.at, now) / 1_000):
            if self._is_off(off_ms):
                whose = "this process" if self._broker is None else f"broker {self._broker!r}"
                raise Degraded(
                    f"the clock of {whose} is off by {off_ms / 1_000:+.3f} s, expected at most "
                    f"{self.max_drift_ms / 1_000:g} s: it changes nothing until its clock is right; set that clock"
                )

    def _is_off(self, off_ms: float) -> bool:
        return abs(off_ms) > self.max_drift_ms

    def _health(self, broker: str, found: Comparison) -> BrokerHealth:
        drift = timedelta(milliseconds=found.drift_ms)
        return BrokerHealth(broker, drift, self._is_off(found.drift_ms), found.brokers, found.hosts)


def clock_on(store: Store, clock: Callable[[], int] = now_us) -> BrokerClock:
    """Return the clock for what works on a store: one for the machine's clock, and one for each made-up clock."""
    if isinstance(clock, BrokerClock):
        return clock
    if clock is not now_us:
        return BrokerClock(store, clock)
    made: BrokerClock = vars(store).setdefault("broker_clock", BrokerClock(store))
    return made
