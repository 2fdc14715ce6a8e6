"""Times: ISO-8601 texts with a zone and Arrow's timestamps, by column; one by one only where Arrow is in doubt."""

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from batchline.columnar.columns import MOMENT, US_PER
from batchline.core.moment import EARLIEST_US, LATEST_US
from batchline.sources.iso_time import EXPECTED, us_from_text

__all__ = ["EXPECTED", "moments_from_texts", "moments_from_timestamps"]

#: A fraction finer than microseconds, which Arrow refuses.
FINER: Final = r"(\.\d{6})\d{1,3}(Z|[+-])"
#: What Arrow reads without fail; for one text that it cannot read it refuses the column.
SURE: Final = (
    r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])[T ]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?"
    r"(Z|[+-]([01]\d|2[0-3]):?[0-5]\d)$"
)


def moments_from_texts(texts: Any) -> Any:
    """The moments that texts tell, null where a text is none; what is finer than a microsecond is cut off."""
    try:
        return texts.cast(MOMENT)
    except pa.ArrowInvalid:
        texts = pc.replace_substring_regex(texts, FINER, r"\1\2")
        sure = pc.fill_null(pc.match_substring_regex(texts, SURE), True)
    doubtful = pc.invert(sure).combine_chunks()
    moments = pc.if_else(sure, texts, pa.scalar(None, texts.type)).cast(MOMENT)
    singly = [us_from_text(text) for text in texts.filter(doubtful).to_pylist()]
    return pc.replace_with_mask(moments, doubtful, pa.array(singly, pa.int64()).cast(MOMENT))


def moments_from_timestamps(column: Any) -> Any:
    """Timestamps with a zone as moments; those that no `datetime` can be stay outside its bounds."""
    unit = column.type.unit
    if unit == "ns":
        return pc.floor_temporal(column.cast(pa.timestamp("ns", "UTC")), unit="microsecond").cast(MOMENT)
    factor = US_PER[unit]
    # Bounded first, so that the multiplication cannot overflow.
    least, most = EARLIEST_US // factor - 1, LATEST_US // factor + 1
    bounded = pc.max_element_wise(column.cast(pa.int64()), least, skip_nulls=False)
    return pc.multiply(pc.min_element_wise(bounded, most, skip_nulls=False), factor).cast(MOMENT)
