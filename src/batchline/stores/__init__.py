"""Stores: where state is kept. `open_store(url)` finds the one an address names."""

from batchline.stores.opening import open_store
from batchline.stores.store import Store

__all__ = ["Store", "open_store"]
