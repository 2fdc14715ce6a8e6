"""What instances say of themselves, and how long that is remembered."""

import pytest

from batchline import open_store
from batchline.core.partitions import Asking
from batchline.stores.capacity_rows import AskingRow
from tests.leases.conftest import SHORT_LEASES
from tests.leases.keeping import SHORT_MS, Keeper, Leases, wait_until


def test_everybody_learns_what_all_have_said_last(leases: Leases, keeper: Keeper) -> None:
    other = keeper.leases()
    assert leases.ask("b", 3) == [Asking("b", 3)]
    assert other.ask("a", 0, [7, 2]) == [Asking("a", 0, (7, 2)), Asking("b", 3)]
    assert leases.ask("b", 1, [0]) == [Asking("a", 0, (7, 2)), Asking("b", 1, (0,))]


def test_who_wants_and_holds_nothing_is_forgotten_at_once(leases: Leases) -> None:
    leases.ask("a", 2, [1])
    leases.ask("b", 1)
    assert leases.ask("a", 0) == [Asking("b", 1)]
    assert leases.ask("a", 0) == [Asking("b", 1)]
    assert leases.ask("c", 0) == [Asking("b", 1)]


@pytest.mark.parametrize("kind", SHORT_LEASES)
def test_who_is_not_heard_of_is_forgotten_after_a_lease(leases: Leases) -> None:
    leases.ask("dies", 2, [1])
    assert len(leases.ask("a", 1, lease_ms=60_000)) == 2
    wait_until(leases.clock, lambda: leases.ask("a", 1, lease_ms=SHORT_MS) == [Asking("a", 1)])
    assert len(leases.ask("a", 1, lease_ms=60_000)) == 2, "by the lease of who asks"


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgresql", "mysql"])
def test_who_was_not_heard_of_for_a_day_is_removed(leases: Leases, keeper: Keeper) -> None:
    leases.ask("a", 1)
    with open_store(keeper.address) if keeper.store is None else keeper.store as store:
        store.transact(lambda rows: rows.write_asking(keeper.resource, AskingRow("died", 2, (1,), 1_000)))
        assert len(store.read(lambda rows: rows.askings(keeper.resource, 0))) == 2
        leases.provision()
        assert [row.instance for row in store.read(lambda rows: rows.askings(keeper.resource, 0))] == ["a"]
