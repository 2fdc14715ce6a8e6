"""From an address to a lease manager."""

from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlencode

from batchline.core.name import check_name
from batchline.errors import InvalidStore, did_you_mean
from batchline.leases.lease_manager import LeaseManager
from batchline.leases.store_leases import StoreLeases
from batchline.stores.address import Address, read_address
from batchline.stores.opening import find_store

__all__ = ["open_leases"]

SCHEMES: Final = ("memory", "sqlite", "postgresql", "mysql", "redis", "rediss", "azblob", "azblob+http", "azblob+https")
STORES: Final = ("memory", "sqlite", "postgresql", "postgres", "mysql", "mariadb")
EXAMPLES: Final = (
    "memory://, sqlite:///batchline.db, postgresql://user:password@host/name, mysql://user:password@host/name, "
    "redis://host:port/0, azblob://account/container?key=…"
)
#: A server that has not answered for a good part of a lease is as good as away.
HURRIED: Final = {
    "postgresql": {"patience": "5s", "timeout": "4s", "connect_timeout": "4"},
    "mysql": {"patience": "5s", "timeout": "4s"},
}
AZURE: Final = (
    "expected azblob://account/container?key=… or azblob+http://host:port/account/container?key=…, "
    "or a SAS token in place of the key"
)


def open_leases(url: str, resource: str) -> LeaseManager:
    """Open what keeps the leases on a resource, by its address; the schema of a store is brought up to date."""
    check_name("resource", resource)
    scheme = _scheme(url)
    if scheme in ("redis", "rediss"):
        from batchline.leases.redis_leases import RedisLeases

        return RedisLeases(url, resource)
    if scheme in STORES:
        return _open_store(url, resource)
    if scheme in ("azblob", "azblob+http", "azblob+https"):
        return _open_container(read_address(url), resource)
    came = f"{scheme}://{did_you_mean(scheme, SCHEMES)}" if scheme else "none"
    raise InvalidStore(f"expected the address of leases, such as {EXAMPLES}; got {came}")


def _scheme(url: object) -> str | None:
    return url.partition("://")[0] if isinstance(url, str) and "://" in url else None


def _open_store(url: str, resource: str) -> LeaseManager:
    address = read_address(url)
    kind = {"postgres": "postgresql", "mariadb": "mysql"}.get(address.scheme, address.scheme)
    store = find_store(replace(address, options=HURRIED.get(kind, {}) | dict(address.options)))
    store.address = url
    try:
        store.migrate()
    except BaseException:
        store.close()
        raise
    return StoreLeases(store, resource, close_store=True)


def _open_container(address: Address, resource: str) -> LeaseManager:
    from batchline.leases.blob_leases import BlobLeases

    if address.user or address.password:
        raise InvalidStore(f"{AZURE}; got a user or a password")
    account, account_url, container = _account(address)
    return BlobLeases(account_url, container, resource, credential=_credential(address, account))


def _account(address: Address) -> tuple[str, str, str]:
    """The account, its address, and the container."""
    if address.scheme == "azblob" and address.host and "/" not in address.path:
        return address.host, f"https://{address.host}.blob.core.windows.net", address.path
    account, slash, container = address.path.partition("/")
    if address.scheme == "azblob" or not (address.host and account and slash):
        raise InvalidStore(f"{AZURE}; got {address.shown}")
    port = f":{address.port}" if address.port else ""
    return account, f"{address.scheme.removeprefix('azblob+')}://{address.host}{port}/{account}", container


def _credential(address: Address, account: str) -> Any:
    if set(address.options) == {"key"}:
        # In an address a plus is a space, and a key has no spaces.
        return {"account_name": account, "account_key": address.options["key"].replace(" ", "+")}
    if "sig" in address.options and "key" not in address.options:
        return urlencode(address.options)
    names = ", ".join(address.options) or "none"
    raise InvalidStore(f"{AZURE}; got the options {names}")
