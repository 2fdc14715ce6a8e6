"""From an address to a store."""

from batchline.errors import InvalidStore, did_you_mean
from batchline.stores.address import EXAMPLES, Address, read_address
from batchline.stores.store import Store

__all__ = ["find_store", "open_store"]

SCHEMES = ("memory", "sqlite", "postgresql", "mysql")


def open_store(url: str, *, migrate: bool = True) -> Store:
    """Open the store of an address, and bring its schema up to date; or, without `migrate`, refuse an older one."""
    store = find_store(read_address(url))
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


def find_store(address: Address) -> Store:
    """The store of an address, whatever its schema. Drivers take their time to load: only the one needed is."""
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
        raise InvalidStore("Redis keeps estimates and leases only: EstimateStore and open_leases take its address")
    raise InvalidStore(
        f"expected a store such as {EXAMPLES}; got {address.scheme}://{did_you_mean(address.scheme, SCHEMES)}"
    )
