"""Where a request comes from: a page of somebody else's must not use what its reader may do."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, urlsplit

from batchline.errors import Forbidden, InvalidInput, shown

__all__ = ["check_origin"]

LOCAL_NAMES: Final = frozenset(("localhost", "127.0.0.1", "::1"))


def check_origin(headers: Mapping[str, str], *, any_host: bool) -> None:
    """A request of a browser comes from our own pages; and, unless any host will do, to a name of this machine.

    Without tokens the address is all that keeps others out: a page could have its name lead to 127.0.0.1.
    InvalidInput if a header is no address at all.
    """
    host, origin = headers.get("host", ""), headers.get("origin")
    if origin is not None and _split("Origin", origin, "https://example.org").netloc != host:
        raise Forbidden(f"requests from pages of {origin[:100]} are not answered")
    name = _split("Host", f"//{host}", "localhost:8080").hostname
    if not any_host and name not in LOCAL_NAMES:
        raise Forbidden(f"without tokens only localhost is answered, got a request to {host[:100]}")


def _split(header: str, text: str, example: str) -> SplitResult:
    try:
        return urlsplit(text)
    except ValueError as error:
        given = shown(text.removeprefix("//")[:100])
        raise InvalidInput(f"the header {header} is no address: {given}; expected one such as {example}") from error
