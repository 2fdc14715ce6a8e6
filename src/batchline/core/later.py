"""What a handler answers when a message is to come again."""

from dataclasses import dataclass
from datetime import timedelta

from batchline.core.moment import check_span

__all__ = ["Later"]


@dataclass(frozen=True, slots=True)
class Later:
    """Give the message back, for so much later."""

    after: timedelta
    reason: str = ""

    def __post_init__(self) -> None:
        check_span("after", self.after, 0)
