"""How many of so many a rate allows at once: up to a second's worth, and then as time goes by."""

from typing import Final

__all__ = ["allowed"]

SECOND_US: Final = 1_000_000


def allowed(per_second: float, used_up_to_us: int | None, wanted: int, now_us: int) -> tuple[int, int]:
    """How many are allowed now, and up to when the rate is used up afterwards.

    A rate is used up to the moment at which all that was allowed would have come, one after the other.
    """
    begin_us = now_us if used_up_to_us is None else max(used_up_to_us, now_us)
    room = (now_us + SECOND_US - begin_us) * per_second / SECOND_US
    # At least one fits an unused rate, however low that is.
    count = min(wanted, max(int(room), 1 if begin_us == now_us else 0))
    return count, begin_us + round(count * SECOND_US / per_second)
