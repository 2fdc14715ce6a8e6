"""One step on each of several parts of the background work, so that a part that fails stops no other."""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from batchline.errors import Degraded, StoreUnavailable

__all__ = ["step_each"]

T = TypeVar("T")
#: Steps on each part before a failure is raised: the loop pauses after it, and the other parts wait with it.
MOST_STEPS: Final = 100


def step_each(parts: Iterable[tuple[str, T]], step: Callable[[T], bool]) -> bool:
    """Take a step on each named part. Return whether there is more to do at once.

    If a part fails, take up to 100 steps on the others first. Then raise the first failure, with the part's name.
    """
    failures: list[Exception] = []
    left = list(parts)
    for _ in range(MOST_STEPS):
        left = [part for part in left if _has_more(part, step, failures)]
        if not failures or not left:
            break
    if failures:
        raise failures[0]
    return bool(left)


def _has_more(part: tuple[str, T], step: Callable[[T], bool], failures: list[Exception]) -> bool:
    name, work = part
    try:
        return step(work)
    except (StoreUnavailable, Degraded):
        raise
    except Exception as error:  # noqa: BLE001 - it is raised after the other parts
        error.add_note(f"in {name}; the other parts of this step were processed")
        failures.append(error)
        return False
