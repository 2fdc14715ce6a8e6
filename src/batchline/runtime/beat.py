"""Says that this process is there as a broker, and compares its clock with those of the others."""

from batchline.runtime.broker_clock import BrokerClock
from batchline.runtime.timeline import Timeline

__all__ = ["Beat"]


class Beat:
    """To be run every few seconds, in every process that hands out leases to others."""

    def __init__(self, timeline: Timeline, broker: str):
        """A broker's heartbeat; its name must be its own."""
        self._timeline = timeline
        self._broker = broker

    @property
    def clock(self) -> BrokerClock:
        """The clock that is compared."""
        return self._timeline.clock

    def run_once(self) -> bool:
        """One heartbeat; there is never more to do at once."""
        self._timeline.beat(self._broker)
        return False
