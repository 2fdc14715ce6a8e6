"""Pack order on Arrow columns: whom a row is about, which group it is in, and where it stands among all rows.

By group time, subject and batch; in a group by event time, type, key, receive time and size. Strings compare by their
UTF-8 bytes, as they do in Python, in Arrow and in Spark. Rows that tie in all of that stay as they came.
"""

import zlib
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from batchline.columnar import columns
from batchline.columnar.layout import Codes, Ints
from batchline.columnar.radix import order_by
from batchline.core.pack_rules import PackRules
from batchline.errors import InvalidInput, InvalidRules, InvalidTable

__all__ = [
    "Taken",
    "check",
    "group_times_of",
    "lanes_of",
    "pack_keys",
    "ranks_of",
    "sorted_rows",
    "subjects_of",
    "take",
]

NEEDED = ("key", "type", "event_time")


class Taken(NamedTuple):
    """The columns of a table that the rule looks at, as numbers, and the strings that they stand for."""

    subject: Codes
    subjects: pa.Array
    #: The group within the subject: its event time, or the code of its batch.
    group: Ints
    batches: pa.Array | None
    event: Ints
    size: Ints


def check(table: Any, rules: Any, added: tuple[str, ...]) -> None:
    """The table has what the rules need, and nothing by the name of what will be added."""
    if not isinstance(rules, PackRules):
        raise InvalidRules(f"expected PackRules, got {rules!r} ({type(rules).__name__})")
    if not isinstance(table, pa.Table):
        raise InvalidTable(f"expected a pyarrow.Table, got {type(table).__name__}")
    if table.num_rows > columns.MOST_ROWS:
        raise InvalidTable(f"expected at most {columns.MOST_ROWS:,} rows in one table, got {table.num_rows:,}")
    columns.check_there(table, (*NEEDED, "batch_id") if rules.together == "batch" else NEEDED)
    names = table.column_names
    taken = [name for name in added if name in names]
    if taken:
        raise InvalidTable(f"the table already has a column {', '.join(taken)}, which the result would add")
    twice = [name for name in (*NEEDED, "batch_id", "receive_time", "size") if names.count(name) > 1]
    if twice:
        raise InvalidTable(f"the table has more than one column {', '.join(twice)}")


def take(table: pa.Table, rules: PackRules) -> Taken:
    """Take the columns out of a table that was checked."""
    subject, subjects = subjects_of(table, rules.split)
    event = columns.times_of(table, "event_time")
    # Also where no rule needs it: what is no size is refused.
    size = columns.sizes_of(table, rules.max_bytes)
    if rules.together == "timestamp":
        return Taken(subject, subjects, event, None, event, size)
    batch, batches = columns.codes_of(table, "batch_id")
    return Taken(subject, subjects, batch.astype(np.int64), batches, event, size)


def subjects_of(table: pa.Table, split: str | None) -> tuple[Codes, pa.Array]:
    """Whom each row is about, as numbers, and the subject that each number stands for."""
    if split is None:
        return columns.codes_of(table, "key")
    codes, types = columns.codes_of(table, "type")
    parts = pc.list_element(pc.split_pattern(types, split, max_splits=1), 0)
    found = pc.if_else(pc.match_substring(types, split), parts, "").dictionary_encode()
    return columns.frozen(found.indices.to_numpy().astype(np.int32)[codes]), found.dictionary


def group_times_of(taken: Taken) -> Ints:
    """The first event time of each row's group."""
    if taken.batches is None:
        return taken.event
    firsts = np.full(len(taken.batches), np.iinfo(np.int64).max)
    np.minimum.at(firsts, taken.group, taken.event)
    return firsts[taken.group]


def pack_keys(table: pa.Table, rules: PackRules) -> pa.Table:
    """The columns that the pack order begins with, `subject` and `group_time`, for somebody else to sort by.

    With `together="batch"` every batch must be whole in the table.
    """
    check(table, rules, ())
    taken = take(table, rules)
    subject = taken.subjects.take(pa.array(taken.subject))
    return pa.table({"subject": subject, "group_time": pa.array(group_times_of(taken)).view(columns.MOMENT)})


def lanes_of(subjects: pa.Array, lanes: Any) -> Codes:
    """The lane of each subject: its CRC-32, which Spark's `crc32` gives too."""
    if not isinstance(lanes, int) or isinstance(lanes, bool) or not 1 <= lanes < 2**31:
        raise InvalidInput(f"lanes must be a whole number from 1 on, got {lanes!r}")
    if lanes == 1:
        return np.zeros(len(subjects), np.int32)
    return np.array([zlib.crc32(subject.encode()) % lanes for subject in subjects.to_pylist()], np.int32)


def sorted_rows(table: pa.Table, rules: PackRules, taken: Taken, lanes: Codes) -> Codes:
    """The rows lane by lane, in pack order within each."""
    first = [lanes.astype(np.int64)[taken.subject], group_times_of(taken), ranks_of(taken.subjects)[taken.subject]]
    if taken.batches is not None:
        first += [ranks_of(taken.batches)[taken.group], taken.event]
    codes, types = columns.codes_of(table, "type")
    first.append(ranks_of(types)[codes])
    order = _lexicographic(first, table.num_rows)
    if _any_tie(first, order):
        return _lexicographic(first + _tie_breakers(table, rules), table.num_rows)
    return order


def ranks_of(words: pa.Array) -> Ints:
    """The place of each word among them all in their order."""
    ranks = np.empty(len(words), np.int64)
    ranks[pc.sort_indices(words).to_numpy()] = np.arange(len(words))
    return ranks


def _lexicographic(keys: list[NDArray[Any]], rows: int) -> Codes:
    order: Codes = np.arange(rows, dtype=np.int32)
    for key in reversed(keys):
        order = order_by(order, columns.frozen(key))
    return order


def _any_tie(keys: list[NDArray[Any]], order: Codes) -> bool:
    tied = np.ones(max(0, order.size - 1), np.bool_)
    for key in keys:
        arranged = key[order]
        tied &= arranged[1:] == arranged[:-1]
        if not tied.any():
            return False
    return True


def _tie_breakers(table: pa.Table, rules: PackRules) -> list[NDArray[Any]]:
    codes, keys = columns.codes_of(table, "key")
    breakers: list[NDArray[Any]] = [ranks_of(keys)[codes]]
    if "receive_time" in table.column_names:
        breakers.append(columns.times_of(table, "receive_time"))
    return [*breakers, columns.sizes_of(table, rules.max_bytes)]
