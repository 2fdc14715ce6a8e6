"""How many failures each address has left: a burst at once, then as time goes by. No I/O.

An address has used its budget up to a moment: that at which all its failures would have come, had they come at the
rate. So one number is kept for each, and those whose moment is past are as good as new.
"""

from typing import Final

__all__ = ["BURST", "MOST_ADDRESSES", "PER_SECOND", "FailureBudget"]

#: Failures an address may have at once, and by the second after that.
BURST: Final = 30
PER_SECOND: Final = 1.0
#: Addresses that are remembered; beyond, the one that failed first is forgotten.
MOST_ADDRESSES: Final = 10_000
LOG_EVERY_S: Final = 60.0
#: How long an address that has failed too often waits for its refusal: so a flood is as slow as it has connections.
DELAY_S: Final = 1.0


class FailureBudget:
    """Failures by address; moments are seconds of a clock that never runs back."""

    def __init__(
        self,
        *,
        burst: int = BURST,
        per_second: float = PER_SECOND,
        most_addresses: int = MOST_ADDRESSES,
        delay_s: float = DELAY_S,
    ) -> None:
        self.delay_s = delay_s
        self._room_s, self._each_s, self._most = burst / per_second, 1.0 / per_second, most_addresses
        self._used_up_to_s: dict[str, float] = {}
        self._logged_s: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._used_up_to_s)

    def wait_s(self, address: str, now_s: float) -> float:
        """Return how long an address must wait before it may fail again; 0 if it may now."""
        used_up_to_s = self._used_up_to_s.get(address)
        return 0.0 if used_up_to_s is None else max(used_up_to_s + self._each_s - now_s - self._room_s, 0.0)

    def spend(self, address: str, now_s: float) -> None:
        """Note a failure."""
        used_up_to_s = max(self._used_up_to_s.pop(address, now_s), now_s) + self._each_s
        _make_room(self._used_up_to_s, self._most)
        self._used_up_to_s[address] = used_up_to_s

    def is_news(self, address: str, now_s: float) -> bool:
        """Whether a refusal of this address is to be logged: the first one in a minute is."""
        if now_s - self._logged_s.get(address, float("-inf")) < LOG_EVERY_S:
            return False
        self._logged_s.pop(address, None)
        _make_room(self._logged_s, self._most)
        self._logged_s[address] = now_s
        return True


def _make_room(noted: dict[str, float], most: int) -> None:
    while len(noted) >= most:
        del noted[next(iter(noted))]  # the one that was noted the longest time ago
