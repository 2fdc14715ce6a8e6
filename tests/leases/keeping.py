"""What keeps leases in tests: an address of each kind, and managers that share a resource there."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from batchline.core.partitions import Asking
from batchline.leases.lease_manager import LeaseManager, Provisioned
from batchline.leases.opening import open_leases
from batchline.leases.store_leases import StoreLeases
from batchline.stores.store import Store
from tests.doubles import BEGIN_US, new_id

__all__ = ["LONG_MS", "SHORT_MS", "Clock", "Keeper", "Leases", "azure_address", "keeper_of", "wait_until"]

#: What every kind can do, and what a test need not wait for.
LONG_MS: Final = 60_000
SHORT_MS: Final = 250
PAUSE_S: Final = 0.01
PATIENCE_S: Final = 30.0


@dataclass
class Clock:
    """What a kind's clock shows when so many milliseconds pass: for some they have to."""

    real: bool
    us: int = BEGIN_US

    def wait(self, ms: int) -> None:
        """Let time pass."""
        self.us += ms * 1_000
        if self.real:
            threading.Event().wait(ms / 1_000)


@dataclass
class Leases:
    """A manager, and the time at which it is called."""

    manager: LeaseManager
    clock: Clock

    def provision(self, count: int = 4, size: str = "40/10", *, replace: bool = False) -> Provisioned:
        return self.manager.provision(count, size, self.clock.us, replace=replace)

    def ask(self, instance: str, wanted: int, held: Sequence[int] = (), lease_ms: int = LONG_MS) -> list[Asking]:
        return self.manager.ask(Asking(instance, wanted, tuple(held)), lease_ms, self.clock.us)

    def acquire(self, instance: str, partitions: Sequence[int], most: int = 500, lease_ms: int = LONG_MS) -> list[int]:
        return self.manager.acquire(instance, partitions, most, lease_ms, self.clock.us)

    def renew(self, instance: str, partitions: Sequence[int], lease_ms: int = LONG_MS) -> list[int]:
        return self.manager.renew(instance, partitions, lease_ms, self.clock.us)

    def release(self, instance: str, partitions: Sequence[int]) -> None:
        self.manager.release(instance, partitions, self.clock.us)

    def holders(self) -> dict[int, str]:
        return self.manager.holders(self.clock.us)


@dataclass
class Keeper:
    """One that keeps leases, and a resource of a test's own in it."""

    kind: str
    #: Where other processes find it; memory is in none.
    address: str
    store: Store | None
    clock: Clock
    resource: str
    stack: ExitStack

    def leases(self, resource: str | None = None) -> Leases:
        """A manager more, of the same resource."""
        name = resource or self.resource
        manager = StoreLeases(self.store, name) if self.store else open_leases(self.address, name)
        return Leases(self.stack.enter_context(manager), self.clock)


@contextmanager
def keeper_of(kind: str, address: str, store: Store | None) -> Iterator[Keeper]:
    """A keeper whose managers are closed in the end."""
    with ExitStack() as stack:
        yield Keeper(kind, address, store, Clock(real=kind != "memory"), new_id(), stack)


def azure_address(connection: str, container: str) -> str:
    """The address of a container, from a connection string."""
    parts = dict(part.split("=", 1) for part in connection.strip(";").split(";"))
    return f"azblob+{parts['BlobEndpoint']}/{container}?key={parts['AccountKey']}"


def wait_until(clock: Clock, what: Callable[[], object]) -> None:
    """Ask again and again, for a bounded time, until it is so."""
    for _ in range(int(PATIENCE_S / PAUSE_S)):
        if what():
            return
        clock.wait(int(PAUSE_S * 1_000))
    raise AssertionError(f"it did not come to that in {PATIENCE_S:.0f} s")
