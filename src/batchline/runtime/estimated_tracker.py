"""The tracker for those who accept an estimate: the calls of the exact one, on counters in Redis."""

import secrets
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

from batchline.core.estimate import EstimateOutcome, EstimateStatus
from batchline.core.item_group import MOST_ITEMS
from batchline.core.moment import check_span, span_us
from batchline.core.name import check_labels, check_name
from batchline.errors import InvalidCount
from batchline.runtime.clock import now_us
from batchline.stores.redis.estimates import EstimateStore

__all__ = ["EstimatedTracker"]

WEEK: Final = timedelta(days=7)
#: Up to here a script counts exactly.
MOST_TOLERATED: Final = 2**53


class EstimatedTracker:
    """Counts what came out of one event, and what of it is done; see `docs/explanation/estimates.md`.

    `open`, `seal`, `status` and `forget` can be repeated after a lost answer. `add`, `ack` and `fail` count again.
    """

    def __init__(self, store: EstimateStore, *, ttl: timedelta = WEEK, clock: Callable[[], int] = now_us) -> None:
        """Estimates in a store. Moments are by the clock of Redis, unless another than the machine's is given."""
        check_span("ttl", ttl, least_us=1)
        self._store = store
        self._ttl = ttl
        self._now_us: Callable[[], int | None] = (lambda: None) if clock is now_us else clock

    def open(
        self,
        id: str | None = None,
        *,
        tolerate: int | None = 0,
        ttl: timedelta | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> EstimateStatus:
        """Begin a fanout, or find it as it is if one of this id is there; without an id it gets one of its own."""
        fanout = secrets.token_hex(16) if id is None else check_name("the id of a fanout", id)
        if tolerate is not None:
            _check_count("tolerate", tolerate, 0, MOST_TOLERATED)
        kept = check_labels({} if labels is None else labels)
        return self._store.open(fanout, _ms(self._ttl if ttl is None else ttl), tolerate, self._now_us(), kept)

    def add(self, fanout: str, count: int) -> int:
        """Count so many items more, and answer the new total; FanoutSealed if there can be no more."""
        _check_count("count", count, 1, MOST_ITEMS)
        return self._store.add(_checked(fanout), count, self._now_us())

    def seal(self, fanout: str) -> EstimateOutcome:
        """Take no more items. Sealing again changes nothing."""
        return self._store.seal(_checked(fanout), secrets.token_hex(8), self._now_us())

    def ack(self, fanout: str, count: int = 1) -> EstimateOutcome:
        """Count so many items as done, whichever they are."""
        _check_count("count", count, 1, MOST_ITEMS)
        return self._store.ack(_checked(fanout), count, self._now_us())

    def fail(self, fanout: str, count: int = 1) -> EstimateOutcome:
        """Count so many items as failed for good; past what the fanout tolerates it is failed."""
        _check_count("count", count, 1, MOST_ITEMS)
        return self._store.fail(_checked(fanout), count, self._now_us())

    def status(self, fanout: str) -> EstimateStatus:
        """What is known of a fanout. Looking is no activity: it is not kept any longer for it."""
        return self._store.status(_checked(fanout), self._now_us())

    def forget(self, fanout: str) -> bool:
        """Let a fanout be gone, whatever its state; tells whether it was there."""
        return self._store.forget(_checked(fanout), self._now_us())


def _checked(fanout: object) -> str:
    return check_name("the id of a fanout", fanout)


def _check_count(name: str, count: object, least: int, most: int) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or not least <= count <= most:
        raise InvalidCount(f"{name} must be a whole number from {least} to {most:,}, got {count!r}")


def _ms(ttl: timedelta) -> int:
    """Whole milliseconds, as Redis counts them; never none, which would remove the fanout at once."""
    check_span("ttl", ttl, least_us=1)
    return -(-span_us(ttl) // 1_000)
