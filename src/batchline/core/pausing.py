"""When to stop sending for a while: because somebody asked, or, ever longer, because the receiver throttles."""

import math

from batchline.core.dispatch_rules import DispatchRules

__all__ = ["Pausing"]


class Pausing:
    """Whether a dispatcher is paused, and until when."""

    def __init__(self, rules: DispatchRules):
        #: When the last pause began, and until when it is.
        self._began_s = self.until_s = -math.inf
        self._rules, self._pauses = rules, rules.pauses
        self._times = 0

    def paused(self, now_s: float) -> bool:
        """Whether nothing is sent now."""
        return now_s < self.until_s

    def pause(self, now_s: float) -> float | None:
        """Pause for the pause time; tells for how long, or None if it is paused already."""
        if self.paused(now_s):
            return None
        return self._begin(now_s, self._rules.pause_time.total_seconds())

    def throttle(self, now_s: float, handed_out_s: float, asked_s: float | None, chance: float) -> float | None:
        """The receiver throttles what was handed out then, and may ask for a time; tells how long a new pause is.

        What was handed out before the last pause began is old news: only what the receiver asks for counts.
        """
        if not self.is_news(now_s, handed_out_s):
            return self._extend(now_s, asked_s or 0.0)
        if now_s - self.until_s > self._rules.calm.total_seconds():
            self._times = 0
        self._times += 1
        seconds = self._pauses.pause_ms(self._times, chance) / 1_000
        return self._begin(now_s, max(seconds, asked_s or 0.0))

    def is_news(self, now_s: float, handed_out_s: float) -> bool:
        """Whether throttling of what was handed out then says more than the last pause did."""
        return not self.paused(now_s) and handed_out_s > self._began_s

    def _begin(self, now_s: float, seconds: float) -> float:
        self._began_s, self.until_s = now_s, now_s + seconds
        return seconds

    def _extend(self, now_s: float, asked_s: float) -> float | None:
        if now_s + asked_s <= max(self.until_s, now_s):
            return None
        self.until_s = now_s + asked_s
        return asked_s
