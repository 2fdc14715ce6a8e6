"""TLS to MariaDB: required, and verified, as the address asks for."""

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from batchline.errors import InvalidStore, StoreError, StoreUnavailable
from batchline.stores.address import read_address
from batchline.stores.opening import find_store, open_store
from tests.conftest import IN_CI
from tests.servers.database import fresh_mariadb
from tests.servers.kinds import MariaDB
from tests.servers.launch import common_directory
from tests.servers.own import running
from tests.servers.server import ProgramMissingError
from tests.stores.observing import beside


def _openssl(*words: object) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


def _make_certificates(home: Path) -> None:
    """An authority with certificates for 127.0.0.1 and for a client, and another authority."""
    for authority in ("ca", "other"):
        subject = f"/CN=Test authority {authority}"
        key, made = home / f"{authority}.key", home / f"{authority}.pem"
        _openssl(
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", 2, "-subj", subject, "-keyout", key, "-out", made
        )
    for name in ("server", "client"):
        key, asked, names = home / f"{name}.key", home / f"{name}.csr", home / f"{name}.ext"
        names.write_text("subjectAltName=IP:127.0.0.1\n")
        _openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", asked)
        signed = ("-CA", home / "ca.pem", "-CAkey", home / "ca.key", "-CAcreateserial", "-days", 2, "-extfile", names)
        _openssl("x509", "-req", "-in", asked, *signed, "-out", home / f"{name}.pem")
    for file in home.iterdir():
        file.chmod(0o644)  # the server gives up root's rights


class TlsMariaDB(MariaDB):
    """One that has a certificate for 127.0.0.1."""

    def __init__(self, certificates: Path):
        self.certificates = certificates

    def command(self, home: Path, port: int) -> Sequence[str]:
        """As without, with TLS."""
        files = {"ca": "ca.pem", "cert": "server.pem", "key": "server.key"}
        return [
            *super().command(home, port),
            *(f"--ssl-{word}={self.certificates / name}" for word, name in files.items()),
        ]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=common_directory(), prefix="batchline-tls-") as directory:
        home = Path(directory)
        home.chmod(0o755)
        _make_certificates(home)
        yield home


@pytest.fixture(scope="module")
def tls_server(certificates: Path) -> Iterator[str]:
    try:
        with running(TlsMariaDB(certificates)) as server:
            yield server.url
    except ProgramMissingError as error:
        if IN_CI:
            raise
        pytest.skip(str(error))


@pytest.fixture
def tls_database(tls_server: str) -> Iterator[str]:
    with fresh_mariadb(tls_server) as url:
        yield url


def cipher(address: str) -> str:
    """What the connection of a store at this address is encrypted with; empty without TLS."""
    with open_store(address) as store:
        connections: Any = store.connections  # type: ignore[attr-defined]

        def look(connection: Any) -> str:
            cursor = connection.cursor()
            cursor.execute("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
            return str(cursor.fetchone()[1])

        found: str = connections.transact(look)
        return found


@pytest.mark.parametrize("mode", ["prefer", "require", "verify-ca", "verify-full"])
def test_a_connection_is_encrypted(tls_database: str, certificates: Path, mode: str) -> None:
    authority = f"&sslrootcert={certificates / 'ca.pem'}" if mode.startswith("verify") else ""
    assert cipher(f"{tls_database}?sslmode={mode}{authority}")


def test_without_an_option_a_connection_is_encrypted_if_the_server_can(tls_database: str) -> None:
    assert cipher(tls_database)


def test_disable_does_not_encrypt(tls_database: str) -> None:
    assert not cipher(f"{tls_database}?sslmode=disable")


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
def test_a_server_without_tls_is_refused_when_it_is_required(
    mariadb_database: str, certificates: Path, mode: str
) -> None:
    authority = f"&sslrootcert={certificates / 'ca.pem'}" if mode.startswith("verify") else ""
    with pytest.raises(StoreError, match=r"(?i)ssl is required"):
        cipher(f"{mariadb_database}?sslmode={mode}{authority}")
    assert not cipher(f"{mariadb_database}?sslmode=prefer")


@pytest.mark.parametrize("mode", ["verify-ca", "verify-full"])
@pytest.mark.parametrize("authority", ["other.pem", None])
def test_a_certificate_of_an_unknown_authority_is_refused(
    tls_database: str, certificates: Path, mode: str, authority: str | None
) -> None:
    root = f"&sslrootcert={certificates / authority}" if authority else ""
    with pytest.raises(StoreUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        cipher(f"{tls_database}?sslmode={mode}{root}")


def test_a_certificate_for_another_name_is_refused_by_verify_full_alone(tls_database: str, certificates: Path) -> None:
    named = tls_database.replace("127.0.0.1", "localhost")
    root = f"&sslrootcert={certificates / 'ca.pem'}"
    with pytest.raises(StoreUnavailable, match=r"(?i)hostname mismatch"):
        cipher(f"{named}?sslmode=verify-full{root}")
    assert cipher(f"{named}?sslmode=verify-ca{root}")


def test_a_client_shows_its_certificate_to_a_user_that_needs_one(tls_database: str, certificates: Path) -> None:
    with beside(tls_database) as administrator:
        administrator.run("CREATE OR REPLACE USER shown@'%' REQUIRE X509")
        administrator.run("GRANT ALL ON *.* TO shown@'%'")
    shown = tls_database.replace("root@", "shown@")
    root = f"sslmode=verify-full&sslrootcert={certificates / 'ca.pem'}"
    own = f"&sslcert={certificates / 'client.pem'}&sslkey={certificates / 'client.key'}"
    assert cipher(f"{shown}?{root}{own}")
    with pytest.raises(Exception, match="Access denied"):
        cipher(f"{shown}?{root}")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("sslmode=yes", "sslmode .* must be one of disable, prefer, require, verify-ca, verify-full, got 'yes'"),
        ("ssl_mode=require", "takes the options .*got 'ssl_mode'.*sslmode"),
        ("sslrootcert=ca.pem", "needs sslmode=verify-ca or sslmode=verify-full"),
        ("sslmode=require&sslrootcert=ca.pem", "needs sslmode=verify-ca or sslmode=verify-full"),
        ("sslmode=disable&sslcert=c.pem", "sslcert and sslkey .* need sslmode=require"),
        ("sslmode=require&sslkey=k.pem", "sslkey .* needs sslcert"),
        ("sslmode=verify-ca&sslrootcert=/nowhere/ca.pem", "cannot be read .*sslrootcert=/nowhere/ca.pem"),
    ],
)
def test_options_of_tls_that_do_not_fit_are_refused(options: str, said: str) -> None:
    with pytest.raises(InvalidStore, match=said):
        find_store(read_address(f"mysql://127.0.0.1:1/name?{options}"))
