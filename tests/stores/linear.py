"""Is there an order of calls, each within its time, in which a sequential model gives the answers they were given?

    call A  ├──────────┤
    call B      ├───┤            A, B, C and B, A, C may be the order; C is the last
    call C                ├──┤

The search is that of Wing and Gong, with Lowe's memory of what was tried.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from tests.stores.events import Event

__all__ = ["Found", "find_order"]

State = TypeVar("State")
Next = Callable[[State, Event], State | None]


class Found(NamedTuple):
    """The final state, or the longest order that fits and the events that cannot be next."""

    state: object
    order: tuple[Event, ...]
    stuck: tuple[Event, ...] = ()


def find_order(events: Sequence[Event], state: State, following: Next[State]) -> Found:
    """Find an order that the model can follow; if there is none, `stuck` says where the longest one ends."""
    known = sorted(events, key=lambda event: event.begun)
    tried: set[tuple[int, State]] = set()
    order: list[int] = []
    longest: tuple[int, ...] = ()
    #: For each event of the order: the state and the events left before it, and what else could have been next.
    path: list[tuple[State, int, Iterator[int]]] = []
    left = (1 << len(known)) - 1
    choices = iter(_candidates(known, left))
    while left:
        step = _step(known, state, choices, following)
        if step is not None:
            index, new = step
            if (left ^ 1 << index, new) in tried:
                continue
            tried.add((left ^ 1 << index, new))
            path.append((state, left, choices))
            order.append(index)
            state, left = new, left ^ 1 << index
            choices = iter(_candidates(known, left))
            continue
        longest = max(longest, tuple(order), key=len)
        if not path:
            return _stuck(known, longest)
        state, left, choices = path.pop()
        order.pop()
    return Found(state, tuple(known[index] for index in order))


def _step(
    known: Sequence[Event], state: State, choices: Iterator[int], following: Next[State]
) -> tuple[int, State] | None:
    for index in choices:
        new = following(state, known[index])
        if new is not None:
            return index, new
    return None


def _candidates(known: Sequence[Event], left: int) -> list[int]:
    """The events left that began before any other of them had ended, those first that ended first."""
    found: list[int] = []
    soonest = float("inf")
    while left:
        lowest = left & -left
        index = lowest.bit_length() - 1
        if known[index].begun > soonest:
            break
        found.append(index)
        soonest = min(soonest, known[index].ended)
        left ^= lowest
    return sorted(found, key=lambda index: known[index].ended)


def _stuck(known: Sequence[Event], order: Sequence[int]) -> Found:
    left = (1 << len(known)) - 1
    for index in order:
        left ^= 1 << index
    return Found(
        None, tuple(known[index] for index in order), tuple(known[index] for index in _candidates(known, left))
    )
