"""What the columns of somebody else's table are called."""

from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

__all__ = ["Names"]


@dataclass(frozen=True, slots=True)
class Names:
    """The columns that stage 1 looks at, by the names that the table gives them."""

    key: str = "key"
    type: str = "type"
    event_time: str = "event_time"
    receive_time: str = "receive_time"
    size: str | None = None
    #: What decides between rows received at the same time: an offset, a position.
    order: tuple[str, ...] = ()
    #: What decides between rows that tie in all else, type included: where they stood in a file.
    last: tuple[str, ...] = ()

    def needed(self) -> dict[str, str]:
        """Our names, and the table's, of every column that is looked at."""
        named = {"key": self.key, "type": self.type, "event_time": self.event_time, "receive_time": self.receive_time}
        if self.size is not None:
            named["size"] = self.size
        return named | dict(zip((*self.our_order(), *self.our_last()), (*self.order, *self.last), strict=True))

    def our_order(self) -> tuple[str, ...]:
        """The order columns by our names, which no other column has."""
        return tuple(f"order_{place}" for place in range(len(self.order)))

    def our_last(self) -> tuple[str, ...]:
        """The same of those that decide last."""
        return tuple(f"order_last_{place}" for place in range(len(self.last)))

    def view(self, table: pa.Table) -> pa.Table:
        """The needed columns of the table by our names; nothing is copied."""
        return pa.table({ours: table.column(theirs) for ours, theirs in self.needed().items()})

    def as_data(self) -> dict[str, Any]:
        """The names as plain data."""
        return asdict(self) | {"order": list(self.order), "last": list(self.last)}
