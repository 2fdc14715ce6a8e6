"""The rules a packer follows, checked when they are built."""

from dataclasses import dataclass
from typing import Any, Final

from batchline.errors import InvalidRules, check_choice

__all__ = ["ORDERS", "TOGETHER", "PackRules"]

ORDERS: Final = ("time", "subject")
TOGETHER: Final = ("timestamp", "batch")
# With these bounds the bytes and items of any pool of groups fit 64 bits in the compiled form.
MOST_ITEMS: Final = 2**31
LARGEST_PARCEL_BYTES: Final = 2**40


@dataclass(frozen=True, slots=True)
class PackRules:
    """How measurements become parcels; see `docs/explanation/packer.md`."""

    #: Most measurements in a parcel.
    max_items: int = 500
    #: Largest parcel in bytes; None for no limit.
    max_bytes: int | None = None
    #: Among which measurements parcels keep the order of time: all ("time") or those of each subject ("subject").
    order: str = "time"
    #: What is not divided: a subject's measurements of one "timestamp", or one "batch" of stage 1.
    together: str = "timestamp"
    #: What parts subject and metric in the type; None where the key is the subject.
    split: str | None = None

    def __post_init__(self) -> None:
        _check_limit("max_items", self.max_items, MOST_ITEMS, "2**31", "a whole number")
        if self.max_bytes is not None:
            _check_limit("max_bytes", self.max_bytes, LARGEST_PARCEL_BYTES, "2**40", "a whole number or None")
        check_choice("order", self.order, ORDERS, InvalidRules)
        check_choice("together", self.together, TOGETHER, InvalidRules)
        _check_split(self.split)
        if self.split is not None and self.together == "batch":
            raise InvalidRules(
                f"split needs together 'timestamp', for the subject of a batch is its key; got split {self.split!r}"
            )

    def as_data(self) -> dict[str, Any]:
        """The rules as plain data, for snapshots and files."""
        return {
            "max_items": self.max_items,
            "max_bytes": self.max_bytes,
            "order": self.order,
            "together": self.together,
            "split": self.split,
        }


def _check_limit(name: str, limit: object, most: int, most_text: str, expected: str) -> None:
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise InvalidRules(f"{name} must be {expected}, got {limit!r} ({type(limit).__name__})")
    if not 1 <= limit <= most:
        raise InvalidRules(f"{name} must lie between 1 and {most_text}, got {limit}")


def _check_split(split: object) -> None:
    if split is not None and (not isinstance(split, str) or not split):
        raise InvalidRules(f"split must be the text between subject and metric, or None, got {split!r}")
