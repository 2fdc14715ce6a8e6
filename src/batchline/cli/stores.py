"""The store that a command works on."""

from pathlib import Path

from batchline.errors import InvalidStore
from batchline.stores import Store, open_store
from batchline.stores.address import EXAMPLES, Address, read_address

__all__ = ["lasting_address", "open_existing", "open_or_make"]


def lasting_address(url: str) -> Address:
    """The address of a store that outlives the command; `memory://` does not."""
    address = read_address(url)
    if address.scheme == "memory":
        lasting = EXAMPLES.removeprefix("memory://, ")
        raise InvalidStore(f"memory:// would be gone with this command; expected a store such as {lasting}")
    return address


def open_or_make(url: str) -> Store:
    """The store, made or brought up to date if need be."""
    lasting_address(url)
    return open_store(url)


def open_existing(url: str) -> Store:
    """The store as it is: a command that begins nothing makes no file and changes no schema."""
    address = lasting_address(url)
    if address.scheme == "sqlite" and address.path and not Path(address.path).exists():
        makers = "batchline fanout open, batchline topic create, batchline token create or batchline migrate"
        raise InvalidStore(f"{address.shown} is not there; {makers} makes it")
    return open_store(url, migrate=False)
