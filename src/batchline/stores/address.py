"""The address of a store: `sqlite:///batchline.db`, `postgresql://user@host/name?connections=4`."""

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from batchline.errors import InvalidStore, did_you_mean

__all__ = ["EXAMPLES", "Address", "check_characters", "read_address"]

EXAMPLES: Final = (
    "memory://, sqlite:///batchline.db, postgresql://user:password@host/name, mysql://user:password@host/name"
)

NOT_ENCODED: Final = (
    "its host and port cannot be read: in a name or password write # as %23, / as %2F, : as %3A, ? as %3F and @ as %40"
)


@dataclass(frozen=True, slots=True)
class Address:
    """A store's address, taken apart."""

    scheme: str
    host: str | None
    port: int | None
    user: str | None
    password: str | None
    #: What follows the host, without the first slash.
    path: str
    options: Mapping[str, str]

    def option(self, name: str, default: Any, read: Callable[[str], Any]) -> Any:
        """An option, read; or its default."""
        if name not in self.options:
            return default
        try:
            return read(self.options[name])
        except ValueError as error:
            raise InvalidStore(f"{name} in the store's address: {error}") from error

    def check_options(self, known: tuple[str, ...]) -> None:
        """Refuse an option that is not known."""
        for name in self.options:
            if name not in known:
                words = ", ".join(known) or "none"
                raise InvalidStore(
                    f"{self.scheme}:// takes the options {words}, got {name!r}{did_you_mean(name, known)}"
                )

    @property
    def shown(self) -> str:
        """The address without its password, as people may see it."""
        who = f"{self.user}@" if self.user else ""
        where = f"{self.host or ''}{f':{self.port}' if self.port else ''}"
        return f"{self.scheme}://{who}{where}/{self.path}"


def check_characters(url: str) -> None:
    """Refuse control characters: Python drops some of them, so that the address of another place would be read."""
    for place, character in enumerate(url):
        if unicodedata.category(character) == "Cc":
            raise InvalidStore(
                f"the address has the control character {character!r} at {place}, expected printable characters: "
                f"remove it, or write it as %{ord(character):02X} where it belongs to a name"
            )


def read_address(url: object) -> Address:
    """Take an address apart; a text that is none is refused."""
    if not isinstance(url, str) or "://" not in url:
        shown = f"a text of {len(url)} characters" if isinstance(url, str) else repr(url)
        raise InvalidStore(f"expected the address of a store, such as {EXAMPLES}; got {shown}")
    check_characters(url)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        # Without what Python says, for it quotes what may be a piece of a password.
        raise InvalidStore(f"expected the address of a store, such as {EXAMPLES}; {NOT_ENCODED}") from None
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if "#" in url or (parts.netloc and any("@" in part for part in (parts.path, *options))):
        raise InvalidStore(f"expected the address of a store, such as {EXAMPLES}; {NOT_ENCODED}")
    return Address(
        scheme=parts.scheme,
        host=parts.hostname,
        port=port,
        user=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        path=unquote(parts.path.removeprefix("/")),
        options=options,
    )
