"""The options in the address of a server."""

import pytest

from batchline import open_store
from batchline.errors import InvalidStore
from batchline.stores.address import read_address


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
@pytest.mark.parametrize("count", ["0", "-1", "many", ""])
def test_a_pool_without_connections_is_refused(scheme: str, count: str) -> None:
    with pytest.raises(InvalidStore, match="connections in the store's address"):
        open_store(f"{scheme}://127.0.0.1:1/name?connections={count}")


def test_an_option_of_libpq_goes_before_the_same_part_of_the_address(postgresql_database: str) -> None:
    address = read_address(postgresql_database)
    place = f"host={address.host}&port={address.port}&user={address.user}&dbname={address.path}"
    with open_store(f"postgresql://nobody@nowhere.invalid:1/nothing?{place}") as store:
        assert store.version() > 0
