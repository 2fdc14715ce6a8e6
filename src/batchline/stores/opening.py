"""From an address to a store."""

from batchline.errors import InvalidStore, did_you_mean
from batchline.stores.address import EXAMPLES, Address, read_address
from batchline.stores.store import Store

__all__ = ["open_store"]

SCHEMES = ("memory", "sqlite", "postgresql", "mysql")


def open_store(url: str, *, migrate: bool = True) -> Store:
    """Open the store of an address, and bring its schema up to date; or, without `migrate`, refuse an older one."""
    store = _store(read_address(url))
    store.address = url
    try:
        if migrate:
            store.migrate()
        else:
            store.check_schema()
    except BaseException:
        store.close()
        raise
    return store


def _store(address: Address) -> Store:
    """Drivers take their time to load, so only the one that is needed is."""
    if address.scheme == "memory":
        from batchline.stores.memory import MemoryStore

        return MemoryStore(address)
    if address.scheme == "sqlite":
        from batchline.stores.sqlite.store import SqliteStore

        return SqliteStore(address)
    if address.scheme in ("postgresql", "postgres"):
        from batchline.stores.postgres.store import PostgresStore

        return PostgresStore(address)
    if address.scheme in ("mysql", "mariadb"):
        from batchline.stores.mysql.store import MysqlStore

        return MysqlStore(address)
    if address.scheme in ("redis", "rediss"):
        raise InvalidStore("Redis keeps estimates only: EstimatedTracker(EstimateStore(url)) takes its address")
    raise InvalidStore(
        f"expected a store such as {EXAMPLES}; got {address.scheme}://{did_you_mean(address.scheme, SCHEMES)}"
    )
