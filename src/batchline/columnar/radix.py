"""Sorting rows by whole numbers, compiled: digit by digit, so that only the spread of the numbers costs time."""

from typing import Any, Final

import numpy as np

from batchline.columnar.layout import Codes, Ints, compiled, step

__all__ = ["order_by"]

#: The bits of a digit: the counts of all its values stay in the processor's cache.
BITS: Final = 16
VALUES: Final = 2**BITS


@step
def digit(value: int, least: int, shift: int) -> Any:
    """The digit of a number above the least one; unsigned, for the span of two 64-bit numbers may need all bits."""
    above = np.uint64(value) - np.uint64(least)
    return np.int64((above >> np.uint64(shift)) & np.uint64(VALUES - 1))


@compiled
def order_by(order: Codes, column: Ints) -> Codes:
    """The rows sorted by a column, stably: those that tie stay in the order given, which is left as it was."""
    if order.size == 0:
        return order
    least = column.min()
    span = np.uint64(column.max()) - np.uint64(least)
    given, other = order.copy(), np.empty(order.size, np.int32)
    shift = 0
    while shift < 64 and span >> np.uint64(shift):
        begins = np.zeros(VALUES + 1, np.int64)
        for value in column:
            begins[digit(value, least, shift) + 1] += 1
        begins = np.cumsum(begins)
        for row in given:
            place = digit(column[row], least, shift)
            other[begins[place]] = row
            begins[place] += 1
        given, other = other, given
        shift += BITS
    return given
