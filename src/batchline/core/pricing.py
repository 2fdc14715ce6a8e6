"""What a parcel costs its receiver."""

from collections.abc import Callable
from typing import Final

from batchline.core.consignment import Consignment
from batchline.errors import InvalidRules, did_you_mean

__all__ = ["price_of"]

PRICES: Final[dict[str, Callable[[Consignment], int | float]]] = {
    "parcel": lambda _: 1,
    "measurement": lambda parcel: parcel.count,
    "byte": lambda parcel: parcel.size,
}
FIELD: Final = "field:"


def price_of(cost: str) -> Callable[[Consignment], int | float]:
    """A price by its name: for each parcel, measurement or byte 1, or the sum of a field of the measurements."""
    if cost.startswith(FIELD) and len(cost) > len(FIELD):
        name = cost.removeprefix(FIELD)
        return lambda parcel: sum(_number(one.get(name)) for one in parcel.measurements)
    if cost not in PRICES:
        words = ", ".join(map(repr, (*PRICES, "field:NAME")))
        raise InvalidRules(f"cost must be one of {words}, got {cost!r}{did_you_mean(cost, PRICES)}")
    return PRICES[cost]


def _number(value: object) -> int | float:
    """What a field adds: nothing, if it holds no number."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0
