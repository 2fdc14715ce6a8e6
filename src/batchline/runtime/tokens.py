"""Tokens of the service: made, checked, listed and revoked, on a store that all its processes share."""

import secrets
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Final, NamedTuple

from batchline.core.message import LATEST_MS, moment_ms
from batchline.core.moment import check_span, moment_of
from batchline.core.stray import RESERVED_GROUPS
from batchline.core.token import (
    EVERY_TOPIC,
    ID_BYTES,
    SECRET_BYTES,
    Token,
    TokenText,
    hash_of,
    is_secret,
    read_token_text,
)
from batchline.core.topic import span_ms
from batchline.errors import InvalidInput, Unauthorized, UnknownToken, did_you_mean, shown
from batchline.runtime.broker_clock import clock_on
from batchline.runtime.clock import now_us
from batchline.stores.forks import fork_safe_lock
from batchline.stores.rows import Rows
from batchline.stores.store import Store
from batchline.stores.token_rows import TokenRow

__all__ = ["ENDED", "REMEMBERED_FOR", "Tokens"]

#: How long what was read of a token is believed: so long after it is revoked, another process may still take it.
REMEMBERED_FOR: Final = timedelta(seconds=5)
MOST_REMEMBERED: Final = 1_000
#: Whatever is wrong, this is said: nobody learns which tokens there are.
REFUSED: Final = "expected a valid token, as batchline token create has shown it once, got another or none"
#: What the bearer of a token hears who was let in with it.
ENDED: Final = "the token of this connection was revoked or has expired: connect again with a valid one"


class Remembered(NamedTuple):
    """A token as it was read from the store, and when."""

    token: Token
    secret_hash: str
    read_us: int


class Tokens:
    """The tokens in a store. Any number of processes work on one; threads may share this."""

    def __init__(self, store: Store, clock: Callable[[], int] = now_us):
        self._store = store
        self._clock = clock_on(store, clock)
        self._remembered: dict[str, Remembered] = {}
        self._any: tuple[bool, int] | None = None
        self._lock = fork_safe_lock()

    def create(
        self,
        name: str = "",
        *,
        producer_group: str | None = None,
        consumers: Iterable[str] = (),
        topics: Iterable[str] | None = None,
        admin: bool = False,
        expires: timedelta | None = None,
    ) -> tuple[Token, str]:
        """Make a token; the text, which proves it, is shown here and kept nowhere.

        A token that produces or consumes names its topics. An admin, or one that only reads, is for every topic if it
        names none.
        """
        given: dict[str, Any] = {
            "name": name,
            "producer_group": producer_group,
            "consumers": _patterns("consumers", consumers),
            "topics": EVERY_TOPIC if topics is None else _patterns("topics", topics),
            "admin": bool(admin),
        }
        made = Token("", **given)  # refuses what cannot be
        _check_reserved(made)
        if topics is None and not (made.admin or made.only_reads):
            raise InvalidInput(
                "a token that produces or consumes names its topics, got none: give --topic 'orders*', any number "
                "(in Python topics=['orders*']); '*' is every topic but internal ones"
            )
        now_ms = self._clock.checked_ms()
        given |= {"created_ms": now_ms, "expires_ms": _expires_ms(expires, now_ms), "revoked_ms": None}
        while True:
            text = TokenText(secrets.token_hex(ID_BYTES), secrets.token_hex(SECRET_BYTES))
            row = TokenRow(id=text.id, secret_hash=hash_of(text.secret), **given)
            if self._store.transact(lambda rows, row=row: _is_kept(rows, row)):  # type: ignore[misc]
                self._any = None
                return _token(row), text.text

    def check(self, text: str | None) -> Token:
        """The token that a text proves; Unauthorized, whatever is wrong with it.

        What was read from the store is believed for `REMEMBERED_FOR`, so that most checks read nothing.
        """
        found = self.remembered(text)
        if found is None:
            given = _read(text)
            known = self._look(given.id)
            if known is None:
                raise Unauthorized(REFUSED)
            found = self._checked(given, known)
        return found

    def remembered(self, text: str | None) -> Token | None:
        """As `check`, but without a look into the store; None if it takes one."""
        given = _read(text)
        known = self._remembered.get(given.id)
        if known is None or not self._is_fresh(known.read_us):
            return None
        return self._checked(given, known)

    def has_ended(self, id: str | None) -> bool | None:
        """Tell whether a token that was valid is so no longer, without a look into the store; None if it takes one.

        None in place of an id means a caller that was let in before there were tokens.
        """
        if id is None:
            return self.remembered_any()
        known = self._remembered.get(id)
        return None if known is None or not self._is_fresh(known.read_us) else not self._is_valid(known)

    def ended(self, ids: Iterable[str | None]) -> set[str | None]:
        """Return those of these tokens that were valid and are so no longer: see `has_ended`."""
        found = {id: self.has_ended(id) for id in ids}
        return {id for id, ended in found.items() if ended or (ended is None and self._has_ended_by_now(id))}

    def _has_ended_by_now(self, id: str | None) -> bool:
        if id is None:
            return self.any()
        known = self._look(id)
        return known is None or not self._is_valid(known)

    def has_proved(self, text: str | None) -> bool:
        """Whether a text was that of a token when it was read last, however long ago. No look into the store."""
        given = read_token_text(text)
        known = None if given is None else self._remembered.get(given.id)
        return given is not None and known is not None and is_secret(given.secret, known.secret_hash)

    def learn(self) -> None:
        """Read all valid tokens, so that `has_proved` knows them. Drop none that is known for them."""
        read_us = self._clock()
        for row in reversed(self._store.read(lambda rows: rows.tokens())):  # the newest first
            if len(self._remembered) >= MOST_REMEMBERED:
                return
            if row.id not in self._remembered and _token(row).is_valid(moment_of(read_us)):
                self._remember(row, read_us)

    def any(self) -> bool:
        """Whether there is a token, revoked or not: then everybody is asked for one. Believed as a token is."""
        known = self.remembered_any()
        if known is None:
            read_us = self._clock()
            known = self._store.read(lambda rows: rows.any_token())
            self._any = (known, read_us)
        return known

    def remembered_any(self) -> bool | None:
        """As `any`, but without a look into the store; None if it takes one. Once there is one, there always is."""
        known = self._any
        return known[0] if known is not None and (known[0] or self._is_fresh(known[1])) else None

    def revoke(self, id: str) -> Token:
        """End a token; again changes nothing. UnknownToken if there is none of this id."""
        # By the database's clock: a token can be revoked whatever this process's clock shows.
        row = self._store.transact(lambda rows: _revoke(rows, id, rows.database_ms(self._clock() // 1_000)))
        with self._lock:
            self._remembered.pop(row.id, None)
        return _token(row)

    def list(self) -> list[Token]:
        """All tokens, revoked or not, the oldest first."""
        return [_token(row) for row in self._store.read(lambda rows: rows.tokens())]

    def _checked(self, given: TokenText, known: Remembered) -> Token:
        if not (is_secret(given.secret, known.secret_hash) and self._is_valid(known)):
            raise Unauthorized(REFUSED)
        return known.token

    def _is_valid(self, known: Remembered) -> bool:
        return known.token.is_valid(moment_of(self._clock()))

    def _look(self, id: str) -> Remembered | None:
        read_us = self._clock()  # before it is read: what is read may change from then on
        row = self._store.read(lambda rows: rows.token(id))
        return None if row is None else self._remember(row, read_us)

    def _remember(self, row: TokenRow, read_us: int) -> Remembered:
        known = Remembered(_token(row), row.secret_hash, read_us)
        with self._lock:
            self._remembered.pop(row.id, None)
            while len(self._remembered) >= MOST_REMEMBERED:
                del self._remembered[next(iter(self._remembered))]  # read the longest time ago
            self._remembered[row.id] = known
        return known

    def _is_fresh(self, read_us: int) -> bool:
        # A clock that was put back makes nothing fresh for long.
        return timedelta(0) <= timedelta(microseconds=self._clock() - read_us) < REMEMBERED_FOR


def _read(text: str | None) -> TokenText:
    given = read_token_text(text)
    if given is None:
        raise Unauthorized(REFUSED)
    return given


def _patterns(what: str, patterns: Iterable[str]) -> tuple[str, ...]:
    if isinstance(patterns, str):
        raise InvalidInput(f"{what} must be several patterns, got the text {shown(patterns)}: put it into a list")
    return tuple(patterns)


def _check_reserved(token: Token) -> None:
    if token.producer_group in RESERVED_GROUPS:
        raise InvalidInput(
            f"the producer group {token.producer_group!r} is what workers call themselves: expected one of yours, "
            "choose another name"
        )


def _expires_ms(expires: timedelta | None, now_ms: int) -> int | None:
    if expires is None:
        return None
    check_span("expires", expires, 1)
    return min(now_ms + span_ms(expires), LATEST_MS)


def _is_kept(rows: Rows, row: TokenRow) -> bool:
    """Keep a new token, unless another has its id; the same again is kept."""
    rows.insert_token(row)
    found = rows.token(row.id)
    return found is not None and found.secret_hash == row.secret_hash


def _revoke(rows: Rows, id: str, now_ms: int) -> TokenRow:
    rows.revoke_token(id, now_ms)
    found = rows.token(id)
    if found is None:
        raise UnknownToken(f"there is no token {shown(id)}{did_you_mean(id, (row.id for row in rows.tokens()))}")
    return found


def _token(row: TokenRow) -> Token:
    moments = {
        f"{what}_at": None if (ms := getattr(row, f"{what}_ms")) is None else moment_ms(ms)
        for what in ("created", "expires", "revoked")
    }
    return Token(row.id, row.name, row.producer_group, row.consumers, row.topics, row.admin, **moments)
