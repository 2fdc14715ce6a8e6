"""A time axis in microseconds: round ticks, and moments and durations as short text."""

from collections.abc import Callable, Iterator
from itertools import dropwhile

from batchline.core.moment import moment_of

__all__ = [
    "clock_text",
    "day_text",
    "duration_text",
    "elapsed_text",
    "moment_text",
    "round_steps",
    "tick_step",
    "ticks",
]

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
YEAR = 365 * DAY + DAY // 4

DECIMALS = (1, 2, 5)
#: Between seconds and days the clock is not decimal.
CLOCK_STEPS = (
    *(10 * SECOND, 30 * SECOND),
    *(MINUTE * count for count in (1, 2, 5, 10, 30)),
    *(HOUR * count for count in (1, 2, 6, 12)),
)
#: The longest unit comes first.
UNITS = ((YEAR, "years"), (DAY, "days"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s"), (1_000, "ms"), (1, "µs"))


def round_steps() -> Iterator[int]:
    """All round steps, shortest first: 1, 2, 5, 10 … µs, then the clock's, then days."""
    yield from (count * 10**power for power in range(6) for count in DECIMALS)
    yield from (count * SECOND for count in DECIMALS)
    yield from CLOCK_STEPS
    yield from (count * DAY * 10**power for power in range(10) for count in DECIMALS)


def tick_step(per_us: float, room: Callable[[int], float]) -> int:
    """The smallest round step whose ticks, at this scale, lie as far apart as their labels need."""
    return next(dropwhile(lambda step: step * per_us < room(step), round_steps()))


def ticks(first_us: int, last_us: int, step_us: int) -> range:
    """The multiples of the step from first to last, both included."""
    return range(-(-first_us // step_us) * step_us, last_us + 1, step_us)


def clock_text(us: int, step_us: int = 1) -> str:
    """The UTC time of day, as precise as the step asks for; the day where the step is whole days."""
    if step_us % DAY == 0:
        return day_text(us)
    form = "%H:%M" if step_us % MINUTE == 0 else "%H:%M:%S"
    return _moment_text(us, form) + _fraction_text(us, step_us)


def day_text(us: int) -> str:
    """The UTC day."""
    return _moment_text(us, "%Y-%m-%d")


def moment_text(us: int, step_us: int = 1) -> str:
    """The UTC day and time of day, as precise as the step asks for."""
    return day_text(us) if step_us % DAY == 0 else f"{day_text(us)} {clock_text(us, step_us)}"


def duration_text(us: int) -> str:
    """A duration in its largest unit, short enough for a label: 3.2 s, 400 ms, 59 min, 56 years."""
    size, unit = next((unit for unit in UNITS if abs(us) >= unit[0]), UNITS[-1])
    count = abs(us) / size
    # Below ten of a unit one decimal still tells; above it only takes room.
    return f"{count:.1f}".removesuffix(".0") + f" {unit}" if count < 10 else f"{count:.0f} {unit}"


def elapsed_text(us: int, step_us: int) -> str:
    """How long after the beginning a tick is: 40 s, 1:40 min, 2:05 h; as precise as the step asks for."""
    if step_us < SECOND:
        return f"{us / SECOND:g} s"
    seconds = us // SECOND
    if step_us % MINUTE == 0 and (step_us >= 10 * MINUTE or seconds >= 3_600):
        return f"{seconds // 3_600}:{seconds // 60 % 60:02d} h"
    return f"{seconds} s" if seconds < 120 and step_us < MINUTE else f"{seconds // 60}:{seconds % 60:02d} min"


def _moment_text(us: int, form: str) -> str:
    try:
        return moment_of(us).strftime(form)
    except (OverflowError, ValueError):
        # A broken clock may name a year that Python does not have; the picture is where one wants to see that.
        return f"{us / YEAR + 1970:.0f}" if "%Y" in form else "?"


def _fraction_text(us: int, step_us: int) -> str:
    digits = next(digits for digits in range(7) if step_us % 10 ** (6 - digits) == 0)
    return f".{us % SECOND:06d}"[: digits + 1] if digits else ""
