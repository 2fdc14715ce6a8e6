"""`/v1/pipeline`: the keys of a pipeline's tables, and the windows of one of them."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, field

from batchline.core.moment import EARLIEST_US, LATEST_US, moment_of
from batchline.errors import UnknownKey
from batchline.service.operation import Call, Operation
from batchline.wire.form import Form, moment_text
from batchline.wire.windows import KeyForm, Keys, MemberForm, RejectedForm, WindowForm, Windows

if TYPE_CHECKING:
    from batchline.sources.results import KeyRows, Results

__all__ = ["OPERATIONS"]

#: Members of a window, and rejected measurements for each window, that are shown.
MOST_MEMBERS: Final = 200
MOST_REJECTED: Final = 20
Rows = Sequence[dict[str, Any]]


class KeysQuery(Form):
    """What is in the keys, and how many are wanted."""

    like: str = ""
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 20


class WindowsQuery(Form):
    """Of which key, and of which types; `skip` windows from the newest back, then `limit` of them."""

    key: str
    type: list[str] = field(default_factory=list)
    limit: Annotated[int, Meta(ge=1, le=100)] = 8
    skip: Annotated[int, Meta(ge=0)] = 0


def list_keys(call: Call[KeysQuery]) -> Keys:
    """Keys of the pipeline's tables with a text in them; those of which most was rejected first."""
    tables = call.parts.tables
    _check_topics(call)
    if tables is None:
        return Keys([], tables=False)
    found = tables.keys(call.form.like, call.form.limit)
    return Keys([KeyForm(one.key, one.batches, one.rejected) for one in found], tables=True)


def read_windows(call: Call[WindowsQuery]) -> Windows:
    """Windows of a key, the newest of them unless you skip some, with members and what was rejected meanwhile."""
    form, tables = call.form, call.parts.tables
    _check_topics(call)
    if tables is None:
        raise UnknownKey("there are no tables to read windows from: batchline serve --tables DIR")
    rows = tables.of(form.key)
    if not rows.batches and not rows.rejected:
        raise UnknownKey(f"no measurement of key {form.key[:300]!r} in the tables")
    end = max(len(rows.batches) - form.skip, 0)
    begin = max(end - form.limit, 0)
    shown = rows.batches[begin:end]
    return _windows(form, rows, shown, _members(tables, form, shown), _meanwhile(rows, shown, begin, end, form.type))


def _check_topics(call: Call[Any]) -> None:
    """Tables have the keys of all topics, so whoever reads them may know of all."""
    call.caller.check_topic("*")


def _members(tables: "Results", form: WindowsQuery, shown: Rows) -> dict[str, list[MemberForm]]:
    found: dict[str, list[MemberForm]] = defaultdict(list)
    for row in tables.members(form.key, [batch["batch_id"] for batch in shown]) if shown else ():
        if not form.type or row["type"] in form.type:
            found[row["batch_id"]].append(MemberForm(row["type"], _text(row["event_time"]), _text(row["receive_time"])))
    return found


def _meanwhile(rows: "KeyRows", shown: Rows, begin: int, end: int, types: Sequence[str]) -> list[RejectedForm]:
    """What was rejected from the first window shown until the next one that is not; by its receipt, for a broken
    clock may tell any event time."""
    first_us = shown[0]["batch_start"] if begin else None
    last_us = rows.batches[end]["batch_start"] if end < len(rows.batches) else None
    found = [
        row
        for row in rows.rejected
        if (first_us is None or row["receive_time"] >= first_us)
        and (last_us is None or row["receive_time"] < last_us)
        and (not types or row["type"] in types)
    ]
    return [
        RejectedForm(row["type"], _text(row["event_time"]), _text(row["receive_time"]), row["verdict"])
        for row in found[-MOST_REJECTED * max(len(shown), 1) :]
    ]


def _windows(
    form: WindowsQuery, rows: "KeyRows", shown: Rows, members: dict[str, list[MemberForm]], rejected: list[RejectedForm]
) -> Windows:
    end = max(len(rows.batches) - form.skip, 0)
    return Windows(
        key=form.key,
        windows=[_window(row, members[row["batch_id"]]) for row in shown],
        rejected=rejected,
        types=sorted({one.type for of_one in members.values() for one in of_one} | {one.type for one in rejected}),
        batches=len(rows.batches),
        batched=sum(row["messages"] for row in rows.batches),
        rejected_by_reason=dict(Counter(row["verdict"] for row in rows.rejected).most_common()),
        earlier=end - len(shown),
        later=len(rows.batches) - end,
    )


def _window(row: dict[str, Any], members: list[MemberForm]) -> WindowForm:
    begin, end, closed = (_text(row[name]) for name in ("batch_start", "batch_end", "closed_at"))
    return WindowForm(row["batch_id"], begin, end, closed, row["close_reason"], row["messages"], members[:MOST_MEMBERS])


def _text(us: int) -> str:
    # A broken clock may name a year that Python does not have.
    return moment_text(moment_of(min(max(us, EARLIEST_US), LATEST_US)))


PIPELINE: Final = "/v1/pipeline"
OPERATIONS: Final = (
    Operation("GET", f"{PIPELINE}/keys", "read", list_keys, KeysQuery, Keys),
    Operation("GET", f"{PIPELINE}/windows", "read", read_windows, WindowsQuery, Windows, refusals=(UnknownKey,)),
)
