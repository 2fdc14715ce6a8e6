"""What a call of the tracker may say, checked before anything is done: by the tracker itself, and by a client of it."""

from datetime import timedelta
from typing import Any, Final

from batchline.core.item_group import MOST_ITEMS
from batchline.core.moment import AFTER_ALL_US
from batchline.core.on_complete import OnComplete
from batchline.errors import InvalidCount, InvalidInput, shown

__all__ = [
    "LONGEST_PAGE",
    "check_age",
    "check_count",
    "check_items",
    "check_limit",
    "check_message",
    "check_page",
    "check_tolerate",
]

LONGEST_PAGE: Final = 100_000


def check_items(items: Any) -> Any:
    """Items are many; a text is one at most."""
    if isinstance(items, str):
        raise InvalidInput(f"expected a list of items, got the text {items[:300]!r}")
    return items


def check_age(older_than: object) -> timedelta:
    """An age is a span, of any length."""
    if not isinstance(older_than, timedelta):
        raise InvalidInput(f"older_than must be a timedelta, got {shown(older_than)} ({type(older_than).__name__})")
    return older_than


def check_count(count: object) -> None:
    """A number of items that one call can add."""
    if not isinstance(count, int) or isinstance(count, bool):
        raise InvalidCount(f"expected a number of items, got {shown(count)} ({type(count).__name__})")
    if not 1 <= count <= MOST_ITEMS:
        raise InvalidCount(f"expected 1 to {MOST_ITEMS:,} items in one call, got {shown(count)}")


def check_page(after: object) -> int:
    """Where a page of fanouts begins."""
    if after is None:
        return 0
    if not isinstance(after, int) or isinstance(after, bool) or not 0 <= after <= AFTER_ALL_US:
        raise InvalidInput(f"after must be the next of the page before, got {shown(after)}")
    return after


def check_limit(limit: object) -> None:
    """How much a page may hold."""
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= LONGEST_PAGE:
        raise InvalidCount(f"limit must be a whole number from 1 to {LONGEST_PAGE:,}, got {shown(limit)}")


def check_message(message: object) -> str | None:
    """The message of a complete fanout, as a text."""
    if message is None:
        return None
    if not isinstance(message, OnComplete):
        raise InvalidInput(f"on_complete must be OnComplete(topic, body=…), got {shown(message)}")
    return message.as_text()


def check_tolerate(tolerate: object) -> int | None:
    """How many items may fail."""
    if tolerate is None:
        return None
    if not isinstance(tolerate, int) or isinstance(tolerate, bool) or not 0 <= tolerate < 2**63:
        raise InvalidCount(f"tolerate must be a whole number from 0 on, or None for any number, got {shown(tolerate)}")
    return tolerate
