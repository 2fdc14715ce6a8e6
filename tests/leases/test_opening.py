"""From an address to a lease manager, or to an error that says what is wrong with it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from batchline import open_store
from batchline.errors import InvalidName, InvalidStore, MissingExtra
from batchline.leases.blob_leases import BlobLeases
from batchline.leases.opening import _credential, open_leases
from batchline.leases.store_leases import StoreLeases
from batchline.stores.address import read_address
from tests.doubles import new_id
from tests.leases.keeping import azure_address

KEY = "c2VjcmV0"


@pytest.mark.parametrize(
    ("kind", "manager"),
    [
        ("memory", "StoreLeases"),
        ("sqlite", "StoreLeases"),
        ("postgresql", "StoreLeases"),
        ("mysql", "StoreLeases"),
        ("redis", "RedisLeases"),
        ("azure", "BlobLeases"),
    ],
)
def test_each_scheme_opens_its_manager(kind: str, manager: str, address_of_kind: Callable[[str], str]) -> None:
    with open_leases(address_of_kind(kind), new_id()) as leases:
        assert type(leases).__name__ == manager
        assert leases.provision(1, "s", 1).created_partitions == [0]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (
            "postgress://h/n",
            r"expected the address of leases, such as memory://.*; got postgress://; did you mean 'post",
        ),
        ("azblb://a/c", r"got azblb://; did you mean 'azblob'\?"),
        ("here", r"expected the address of leases, such as memory://.*; got none"),
        (None, "expected the address of leases, such as memory://.*; got none"),
        ("memory://host", "expected memory:// alone"),
        ("redis://h/zero", "expected redis://host:port/database"),
        ("azblob://account", r"expected azblob://account/container\?key=.*; got the options none"),
        (f"azblob://account?key={KEY}", "a container's name must have 3 to 63 lower-case letters.*, got ''"),
        (f"azblob://account/NO?key={KEY}", "a container's name must have 3 to 63 lower-case letters.*, got 'NO'"),
        (f"azblob://account/a--b?key={KEY}", "a container's name must have .*, got 'a--b'"),
        (f"azblob://account/container/more?key={KEY}", "expected azblob://.*; got azblob://account/container/more"),
        (f"azblob+http://h:1/container?key={KEY}", r"expected azblob://.*; got azblob\+http://h:1/container"),
        (f"azblob://account/container?kei={KEY}", "expected azblob://.*; got the options kei"),
        (f"azblob://account/container?key={KEY}&sig={KEY}", "expected azblob://.*; got the options key, sig"),
        (f"azblob://me:{KEY}@account/container", "expected azblob://.*; got a user or a password"),
    ],
)
def test_an_address_that_keeps_no_leases_is_refused(url: str, said: str) -> None:
    with pytest.raises(InvalidStore, match=said) as refused:
        open_leases(url, "orders")
    assert KEY not in str(refused.value)


def test_a_key_may_be_written_as_it_is() -> None:
    address = read_address("azblob://account/container?key=a+b/c%2Bd==")
    assert _credential(address, "account") == {"account_name": "account", "account_key": "a+b/c+d=="}


def test_a_resource_must_have_a_name() -> None:
    with pytest.raises(InvalidName, match="resource must have 1 to 255 characters, got 0"):
        open_leases("memory://", "")


def test_who_opened_a_store_closes_it() -> None:
    with open_store("memory://") as store:
        with StoreLeases(store, "orders") as leases:
            leases.provision(1, "s", 1)
        with StoreLeases(store, "orders") as leases:
            assert leases.provision(1, "s", 1).verified_partitions == [0]


def test_a_sas_token_may_stand_in_place_of_the_key(azurite_url: str) -> None:
    from datetime import UTC, datetime

    from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

    parts = dict(part.split("=", 1) for part in azurite_url.strip(";").split(";"))
    token = generate_account_sas(
        parts["AccountName"],
        parts["AccountKey"],
        ResourceTypes(service=True, container=True, object=True),
        AccountSasPermissions(read=True, write=True, delete=True, list=True, create=True, add=True, update=True),
        datetime(2099, 1, 1, tzinfo=UTC),
    )
    address = azure_address(azurite_url, "sas-tokens").partition("?")[0]
    with open_leases(f"{address}?{token}", new_id()) as leases:
        assert "sig" not in leases.provision(2, "s", 1).where
        assert leases.acquire("a", [0, 1], 2, 15_000, 1) == [0, 1]


@pytest.mark.parametrize(
    ("module", "url", "extra"),
    [("redis", "redis://h/0", "redis"), ("azure.storage.blob", f"azblob://account/container?key={KEY}", "azure")],
)
def test_what_is_not_installed_is_named(module: str, url: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'batchline\[{extra}\]'"):
        open_leases(url, "orders")


def test_drivers_are_loaded_only_when_they_are_needed() -> None:
    program = (
        "import sys, batchline.leases.opening as opening; opening.open_leases('memory://', 'r').close(); "
        "print([name for name in ('redis', 'azure.storage', 'psycopg', 'pymysql') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


@pytest.mark.parametrize("control", ["\t", "\n", "\r", "\0", "\x1b", "\x7f"], ids=ascii)
@pytest.mark.parametrize(
    "url",
    [
        f"azblob://acc*ount/container?key={KEY}",
        f"azblob://account/con*tainer?key={KEY}",
        f"azblob+http://127.0.0.1:1/acc*ount/container?key={KEY}",
        "redis://127.0.0.1:1*/0",
        "sqlite:///{home}/lea*ses.db",
        "postgresql://us*er:secret@127.0.0.1:1/name",
        "memory://*",
    ],
)
def test_an_address_with_a_control_character_is_refused_and_opens_no_other_place(
    url: str, control: str, tmp_path: Path
) -> None:
    with pytest.raises(
        InvalidStore, match=r"the address has the control character .* remove it, or write it as %"
    ) as no:
        open_leases(url.replace("{home}", str(tmp_path)).replace("*", control), "orders")
    assert "secret" not in str(no.value)
    assert KEY not in str(no.value)
    assert list(tmp_path.iterdir()) == []


def test_an_account_with_a_control_character_is_refused() -> None:
    with pytest.raises(InvalidStore, match=r"the address has the control character '\\t' at 11"):
        BlobLeases("https://acc\tount.blob.core.windows.net", "container", "orders", credential=KEY)
    with pytest.raises(InvalidStore, match="a container's name must have"):
        BlobLeases("https://account.blob.core.windows.net", "con\ttainer", "orders", credential=KEY)
