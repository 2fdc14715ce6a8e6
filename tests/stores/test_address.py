"""Addresses of stores: taken apart, shown without their password, refused with what is wrong."""

import re
import traceback
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.errors import BatchlineError, InvalidStore
from batchline.stores.address import Address, read_address
from batchline.stores.opening import open_store

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("memory://", Address("memory", None, None, None, None, "", {})),
        ("sqlite:///batchline.db", Address("sqlite", None, None, None, None, "batchline.db", {})),
        ("sqlite:////var/lib/b.db", Address("sqlite", None, None, None, None, "/var/lib/b.db", {})),
        ("sqlite:///with%20space%23.db", Address("sqlite", None, None, None, None, "with space#.db", {})),
        ("postgresql://h/n", Address("postgresql", "h", None, None, None, "n", {})),
        (
            "mysql://me:s%40c%2Fret@db.example:3307/name?connections=4&patience=5s",
            Address("mysql", "db.example", 3307, "me", "s@c/ret", "name", {"connections": "4", "patience": "5s"}),
        ),
        ("postgresql://me@[::1]:5432/n?sslmode=", Address("postgresql", "::1", 5432, "me", None, "n", {"sslmode": ""})),
        ("postgresql:///n?user=me@server", Address("postgresql", None, None, None, None, "n", {"user": "me@server"})),
    ],
)
def test_an_address_is_taken_apart(url: str, address: Address) -> None:
    assert read_address(url) == address


@given(TEXTS, TEXTS, TEXTS)
def test_names_and_passwords_of_any_characters_come_back(user: str, password: str, name: str) -> None:
    who = ":".join(quote(part, safe="") for part in (user, password))
    address = read_address(f"postgresql://{who}@host:5432/{quote(name, safe='')}?connect_timeout=5")
    assert (address.user, address.password, address.path) == (user, password, name)
    assert (address.host, address.port, address.options) == ("host", 5432, {"connect_timeout": "5"})


def test_it_is_shown_without_its_password_and_options() -> None:
    address = read_address("postgresql://me:secret@host:5432/name?sslpassword=secret&passfile=secret")
    assert address.shown == "postgresql://me@host:5432/name"
    assert read_address("mysql://host/name").shown == "mysql://host/name"
    assert read_address("sqlite:////a/b.db").shown == "sqlite:////a/b.db"


@pytest.mark.parametrize(
    "url", ["", "nonsense", "user:secret@host/name", "/var/lib/batchline.db", None, 5, b"memory://"]
)
def test_what_is_no_address_is_refused(url: Any) -> None:
    with pytest.raises(InvalidStore, match=r"expected the address of a store, such as memory://.*; got ") as raised:
        read_address(url)
    assert "secret" not in str(raised.value)


#: Passwords that were not encoded, so that a piece of them looks like something else.
PASSWORDS = [
    "secret",
    "sec/ret",
    "sec#ret",
    "sec?ret",
    "4711#ret",
    "4711/ret",
    "4711?ret",
    "sec:ret",
    "sec@ret",
    "[secret",
    "99999",
]
SCHEMES = ["postgresql", "postgres", "mysql", "mariadb", "postgresqll", "redis", "sqlite", "memory"]
#: Nobody listens on port 1, so that addresses that are well formed fail, too.
HOSTS = ["127.0.0.1:x/n", "127.0.0.1:1/n?connectoins=1", "127.0.0.1:1/n?connections=x", "127.0.0.1:1/n", "127.0.0.1:1"]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize("host", HOSTS)
def test_no_error_shows_a_password(scheme: str, password: str, host: str) -> None:
    with pytest.raises(BatchlineError) as raised:
        open_store(f"{scheme}://me:{password}@{host}")
    said = "".join(traceback.format_exception(raised.value))
    # The last line of each error: what stands above it is our own program.
    messages = "\n".join(re.findall(r"^[\w.]+: .*", said, re.MULTILINE))
    assert not any(piece in messages for piece in ("secret", "'sec", "ret@", "ret'", "4711", "99999"))


@pytest.mark.parametrize(
    "url", ["postgresql://me:se#cret@host/n", "postgresql://me:se/cret@host/n", "sqlite:///a#b.db"]
)
def test_what_must_be_encoded_is_told(url: str) -> None:
    with pytest.raises(InvalidStore, match=r"in a name or password write # as %23, / as %2F"):
        read_address(url)


def test_an_option_is_read_or_has_its_default() -> None:
    address = read_address("mysql://h/n?connections=4&patience=x")
    assert address.option("connections", 10, int) == 4
    assert address.option("other", 10, int) == 10
    with pytest.raises(InvalidStore, match=r"patience in the store's address: .*'x'"):
        address.option("patience", 10, int)


def test_an_option_that_is_not_known_is_refused_with_the_one_it_looks_like() -> None:
    address = read_address("mysql://h/n?conections=4")
    with pytest.raises(InvalidStore) as raised:
        address.check_options(("connections", "patience"))
    assert str(raised.value) == (
        "mysql:// takes the options connections, patience, got 'conections'; did you mean 'connections'?"
    )
    with pytest.raises(InvalidStore, match=r"mysql:// takes the options none, got 'conections'$"):
        address.check_options(())
    address.check_options(("conections",))
