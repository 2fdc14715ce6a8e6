"""Shared capacity on any store: partitions are provisioned, leased, and asked for. Each verb is one transaction."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from batchline.core.partitions import Asking
from batchline.errors import ResourceMismatch
from batchline.stores.capacity_rows import AskingRow, CapacityRows

__all__ = [
    "FORGET_MS",
    "Made",
    "acquire_partitions",
    "ask_for_partitions",
    "partition_holders",
    "provision_resource",
    "release_partitions",
    "renew_partitions",
]

#: A lease ends no earlier than it would by a clock that is exact: milliseconds are cut off here, and in SQLite's clock.
CUT_OFF_MS: Final = 2
#: Instances that nobody has heard of for so long are dead: their names are removed.
FORGET_MS: Final = 24 * 3_600_000


class Made(NamedTuple):
    """Whether a resource is new, and the numbers of its partitions that are, and that are not."""

    resource: bool
    created: list[int]
    verified: list[int]


def provision_resource(
    rows: CapacityRows, resource: str, count: int, size: str, now_ms: int, *, replace: bool = False
) -> Made:
    """Create what is missing of a resource; ResourceMismatch if it has another size, unless that is replaced."""
    before = rows.hold_resource(resource)
    made = before is None and rows.insert_resource(resource, size)
    if before is None:
        before = rows.hold_resource(resource)  # ours, or that of somebody who was faster
    if before != size:
        if not replace:
            raise ResourceMismatch(
                f"{resource!r} is provisioned with {before}, got {size}: give every instance the same, or replace it"
            )
        rows.write_resource(resource, size)
    rows.forget_askings(resource, rows.database_ms(now_ms) - FORGET_MS)
    known = {row.number for row in rows.partitions(resource)}
    missing = [number for number in range(count) if number not in known]
    if missing:
        rows.insert_partitions(resource, missing)
    return Made(made, missing, [number for number in range(count) if number in known])


def ask_for_partitions(rows: CapacityRows, resource: str, asking: Asking, lease_ms: int, now_ms: int) -> list[Asking]:
    """Note what an instance says; tells what all have said within a lease."""
    shown_ms = rows.database_ms(now_ms)
    if asking.wanted or asking.held:
        rows.write_asking(resource, AskingRow(asking.instance, asking.wanted, asking.held, shown_ms))
    else:
        rows.delete_asking(resource, asking.instance)
    return [Asking(row.instance, row.wanted, row.held) for row in rows.askings(resource, shown_ms - lease_ms)]


def acquire_partitions(
    rows: CapacityRows, resource: str, instance: str, numbers: Sequence[int], most: int, lease_ms: int, now_ms: int
) -> list[int]:
    """Lease at most so many partitions that no other instance holds, tried in this order."""
    # A moment that is over is early enough: what was free then is free, unless somebody has written it since.
    free = rows.hold_free_partitions(resource, instance, sorted(numbers), rows.database_ms(now_ms))
    taken = _in_order(numbers, (row.number for row in free))[:most]
    if taken:
        # Their time begins now, when they are locked, and not when somebody began to wait for them.
        _lease(rows, resource, instance, taken, rows.database_ms(now_ms) + lease_ms)
    return taken


def renew_partitions(
    rows: CapacityRows, resource: str, instance: str, numbers: Sequence[int], lease_ms: int, now_ms: int
) -> list[int]:
    """Lease once more those of these partitions that an instance still holds."""
    mine = rows.hold_partitions(resource, instance, sorted(numbers))
    shown_ms = rows.database_ms(now_ms)
    still = _in_order(numbers, (row.number for row in mine if row.is_held(shown_ms)))
    if still:
        _lease(rows, resource, instance, still, shown_ms + lease_ms)
    return still


def release_partitions(rows: CapacityRows, resource: str, instance: str, numbers: Sequence[int]) -> None:
    """Give back those of these partitions that an instance holds."""
    mine = [row.number for row in rows.hold_partitions(resource, instance, sorted(numbers))]
    if mine:
        rows.write_partitions(resource, mine, None, 0)


def partition_holders(rows: CapacityRows, resource: str, now_ms: int) -> dict[int, str]:
    """Who holds which partition."""
    shown_ms = rows.database_ms(now_ms)
    found = rows.partitions(resource)
    return {row.number: row.holder for row in found if row.holder is not None and row.is_held(shown_ms)}


def _lease(rows: CapacityRows, resource: str, instance: str, numbers: Sequence[int], until_ms: int) -> None:
    rows.write_partitions(resource, sorted(numbers), instance, until_ms + CUT_OFF_MS)


def _in_order(order: Sequence[int], numbers: Iterable[int]) -> list[int]:
    among = set(numbers)
    return [number for number in order if number in among]
