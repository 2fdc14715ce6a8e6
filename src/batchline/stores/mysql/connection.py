"""A connection to MariaDB or MySQL with deadlines, and with TLS as its address asks for."""

import math
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import pymysql
from pymysql.constants import CR

from batchline.errors import InvalidStore
from batchline.runtime.clock import elapsed_seconds
from batchline.stores.address import Address
from batchline.stores.deadlines import Deadlines

__all__ = ["TLS_OPTIONS", "MysqlConnection", "tls_arguments"]

#: The words of libpq, so that they are the same for every server.
MODES: Final = ("disable", "prefer", "require", "verify-ca", "verify-full")
TLS_OPTIONS: Final = ("sslmode", "sslrootcert", "sslcert", "sslkey")
#: As for PostgreSQL: an idle connection is looked at this often, and again, should the other side not answer.
ALIVE_EVERY_S, ALIVE_AGAIN_S, ALIVE_TIMES = 10, 3, 3
#: The longest that connecting takes, before the server says anything.
CONNECT_S: Final = 10.0
#: After this, MariaDB ends an idle connection whose client may be gone.
IDLE_S: Final = 600


if TYPE_CHECKING:
    Connection = pymysql.connections.Connection[Any]
else:  # it has parameters for mypy only
    Connection = pymysql.connections.Connection


class MysqlConnection(Connection):
    """Ends with an error when an answer takes `read_timeout`, and when an attempt takes longer than it may."""

    deadlines: Deadlines
    server_version: str
    _read_timeout: float | None
    _ends_s: float = math.inf
    _used_s: float = math.inf

    def open_within(self, deadlines: Deadlines, place: tuple[str, int]) -> None:
        """Connect, and have both sides notice that the other is gone."""
        self.deadlines = deadlines
        connected = socket.create_connection(place, min(CONNECT_S, deadlines.timeout_s))
        _keep_watch(connected, deadlines.timeout_s)
        self.connect(connected)
        self.query(_hurried(deadlines))

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Within it, all statements together have the time of one attempt."""
        self._ends_s = elapsed_seconds() + self.deadlines.attempt_s
        try:
            yield
        finally:
            self._used_s = elapsed_seconds()

    @property
    def is_fresh(self) -> bool:
        """Whether it was used a short while ago: the server ends a connection that is idle."""
        most_s = IDLE_S if "MariaDB" in self.server_version else self.deadlines.timeout_s
        return elapsed_seconds() - self._used_s < most_s * 0.8

    @contextmanager
    def unhurried(self) -> Iterator[None]:
        """Within it, wait as long as it takes: for a migration, and for others that migrate."""
        before, self._read_timeout = self._read_timeout, None
        self._ends_s = math.inf
        self.query(_unhurried(self.deadlines))
        try:
            yield
        finally:
            self._read_timeout = before
            with suppress(pymysql.Error):  # it is lost
                self.query(_hurried(self.deadlines))

    def query(self, sql: Any, unbuffered: bool = False) -> int:
        """Run a statement, if there is time left."""
        if elapsed_seconds() > self._ends_s:
            raise pymysql.OperationalError(CR.CR_SERVER_LOST, "its statements took too long together")
        return super().query(sql, unbuffered)


def _keep_watch(connected: socket.socket, timeout_s: float) -> None:
    """Have the kernel notice that the other side is gone."""
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {
        "TCP_KEEPIDLE": ALIVE_EVERY_S,
        "TCP_KEEPINTVL": ALIVE_AGAIN_S,
        "TCP_KEEPCNT": ALIVE_TIMES,
        "TCP_USER_TIMEOUT": int(timeout_s * 1_000),
    }
    for name, value in options.items():
        if hasattr(socket, name):  # not every system has them
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _hurried(deadlines: Deadlines) -> str:
    """The statement that has the server end what a client holds up that is frozen or gone.

    MariaDB reads what is in `/*M!`, MySQL alone what is in `/*!80016`. MySQL has no limit for a transaction
    that, only for a connection: there, one that was idle is not used again (see `is_fresh`).
    """
    whole_s = math.ceil(deadlines.timeout_s)
    return (
        f"SET SESSION innodb_lock_wait_timeout = {math.ceil(deadlines.lock_s)}, "
        f"net_read_timeout = {whole_s}, net_write_timeout = {whole_s} "
        f"/*M! , wait_timeout = {IDLE_S}, idle_transaction_timeout = {whole_s}, "
        f"max_statement_time = {deadlines.statement_s:.3f} */ "
        f"/*!80016 , wait_timeout = {whole_s}, max_execution_time = {int(deadlines.statement_s * 1_000)} */"
    )


def _unhurried(deadlines: Deadlines) -> str:
    """The statement that takes the limits of a session back, but for a client that sends nothing: it may be frozen."""
    whole_s = math.ceil(deadlines.timeout_s)
    return (
        f"SET SESSION innodb_lock_wait_timeout = 300, wait_timeout = {whole_s} "
        "/*M! , max_statement_time = 0 */ /*!80016 , max_execution_time = 0 */"
    )


def tls_arguments(address: Address) -> dict[str, Any]:
    """Return what PyMySQL takes for the TLS options of an address; raise InvalidStore for options that do not fit."""
    given = {name: address.options[name] for name in TLS_OPTIONS if name in address.options}
    mode = given.get("sslmode", "prefer")
    if mode not in MODES:
        raise InvalidStore(f"sslmode in the store's address must be one of {', '.join(MODES)}, got {mode!r}")
    _check_files(mode, given)
    if mode == "disable":
        return {"ssl_disabled": True}
    if mode == "prefer":
        return {}
    return {"ssl": _context(mode, given)}


def _check_files(mode: str, given: dict[str, str]) -> None:
    """A file that would not be used must not look as if it were."""
    if "sslrootcert" in given and not mode.startswith("verify-"):
        raise InvalidStore(
            f"sslrootcert in the store's address needs sslmode=verify-ca or sslmode=verify-full, got sslmode={mode}: "
            "without them no certificate is verified"
        )
    if ("sslcert" in given or "sslkey" in given) and mode in ("disable", "prefer"):
        raise InvalidStore(
            f"sslcert and sslkey in the store's address need sslmode=require, verify-ca or verify-full, got {mode}"
        )
    if "sslkey" in given and "sslcert" not in given:
        raise InvalidStore("sslkey in the store's address needs sslcert, the certificate that it belongs to")


def _context(mode: str, given: dict[str, str]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=given.get("sslrootcert"))
        if "sslcert" in given:
            context.load_cert_chain(given["sslcert"], given.get("sslkey"))
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(f"{name}={value}" for name, value in given.items() if name != "sslmode")
        raise InvalidStore(
            f"the certificates in the store's address cannot be read ({files}): {error}; expected files in PEM format"
        ) from error
    # The certificates that servers make for themselves lack what the strict check of Python 3.13 asks for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = mode == "verify-full"
    context.verify_mode = ssl.CERT_REQUIRED if mode.startswith("verify-") else ssl.CERT_NONE
    return context
