"""How executors, which are processes of their own, are told of a store."""

from batchline.errors import InvalidStore, shown
from batchline.stores import Store, open_store

__all__ = ["store_address"]


def store_address(store: object) -> str:
    """Open the store once, so that a wrong address, or an old schema, is answered before anything runs."""
    address = store.address if isinstance(store, Store) else store
    if not isinstance(address, str):
        raise InvalidStore(f"expected a store or its address, got {shown(store)}")
    if address.startswith("memory:"):
        raise InvalidStore("the executors are processes of their own, which do not see memory://")
    open_store(address).close()
    return address
