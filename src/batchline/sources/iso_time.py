"""Times as text, ISO-8601 with a zone: which are read, and as which moment."""

import re
from datetime import datetime
from typing import Final

from batchline.core.moment import us_of

__all__ = ["EXPECTED", "us_from_text"]

EXPECTED: Final = "a time with a zone such as 2026-11-15T12:00:00.000Z"
#: All that is read: as Arrow does, minutes, seconds and the minutes of the zone may be left out.
TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\d[T ]([01]\d|2[0-3])(:\d\d(:\d\d(\.\d{1,9})?)?)?(Z|[+-]([01]\d|2[0-3])(:?[0-5]\d)?)", re.ASCII
)


def us_from_text(text: str) -> int | None:
    """The moment that a text tells, None if it is none; what is finer than a microsecond is cut off."""
    if not TIME.fullmatch(text):
        return None
    try:
        return us_of(datetime.fromisoformat(text))
    except (ValueError, OverflowError):  # the 30th of February
        return None
