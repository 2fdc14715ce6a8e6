"""Parcels to an HTTP receiver: one request each."""

import asyncio
import gzip as gzipping
import re
import string
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, Literal
from urllib.parse import quote, unquote, urlsplit

from batchline.core.consignment import Consignment
from batchline.errors import InvalidSink, MissingExtra, Undelivered, check_choice, shown
from batchline.sinks.http_answers import Reply, check_reply
from batchline.sinks.sink import Sink

try:
    import httpx2
except ModuleNotFoundError as error:
    raise MissingExtra("https:// needs httpx2: pip install 'batchline[http]'") from error

__all__ = ["BODIES", "METHODS", "HttpSink", "idempotency_key"]

METHODS: Final = ("POST", "PUT", "PATCH")
BODIES: Final = ("parcel", "measurements")
TIMEOUT: Final = timedelta(seconds=30)
#: An answer is not read further than this.
LONGEST_ANSWER: Final = 4 * 1024 * 1024
#: A shorter one is as likely a word of the answer's own.
SHORTEST_SECRET: Final = 6
#: What stands in a header as it is: neither spaces, which may get lost at its ends, nor what encodes the others.
PLAIN: Final = string.punctuation.replace("%", "")
HEADER_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
HEADER_VALUE: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?|")
#: What a request says by itself.
OURS: Final = ("content-type", "content-encoding", "content-length", "transfer-encoding", "idempotency-key", "host")


class HttpSink(Sink):
    """Sends a parcel as JSON, with its id as the Idempotency-Key; redirections are not followed."""

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        method: Literal["POST", "PUT", "PATCH"] = "POST",
        gzip: bool = False,
        timeout: timedelta = TIMEOUT,
        body: Literal["parcel", "measurements"] = "parcel",
        wall: Callable[[], int] | None = None,
    ):
        """Send to a URL; `wall` tells the time in microseconds, for receivers that do not and name a date."""
        check_choice("method", method, METHODS, InvalidSink)
        check_choice("body", body, BODIES, InvalidSink)
        _check_timeout(timeout)
        self._where = _shown_url(url)
        headers = checked_headers(headers or {})
        self._url, self._method, self._gzip, self._body, self._wall = url, method, gzip, body, wall
        self._timeout_s = timeout.total_seconds()
        self._secrets = _secrets(headers, urlsplit(url).password)
        sent = {"Content-Type": "application/json"} | ({"Content-Encoding": "gzip"} if gzip else {})
        self._client = httpx2.AsyncClient(headers=headers | sent, timeout=self._timeout_s)

    async def send(self, parcels: Sequence[Consignment]) -> None:
        """Send each parcel; returns if the receiver has taken it, and else raises why not."""
        for parcel in parcels:
            reply = await self._exchange(parcel)
            check_reply(reply, parcel.count, self._wall() if self._wall else None)

    async def _exchange(self, parcel: Consignment) -> Reply:
        try:
            # The client's own timeout is for each step, and a receiver may take many.
            async with asyncio.timeout(self._timeout_s):
                return await self._request(parcel)
        except (TimeoutError, httpx2.TimeoutException) as error:
            raise Undelivered(f"{self._where} has not answered within {self._timeout_s:g} s") from error
        except httpx2.HTTPError as error:
            raise Undelivered(f"{self._where} cannot be reached: {type(error).__name__}: {error}") from error

    async def _request(self, parcel: Consignment) -> Reply:
        key = {"Idempotency-Key": idempotency_key(parcel.id)}
        async with self._client.stream(self._method, self._url, content=self._content(parcel), headers=key) as answer:
            body = b""
            async for piece in answer.aiter_bytes():
                body += piece
                if len(body) > LONGEST_ANSWER:
                    break
            return Reply(answer.status_code, dict(answer.headers), body, self._secrets)

    def _content(self, parcel: Consignment) -> bytes:
        content = parcel.as_json() if self._body == "parcel" else parcel.payload
        # Without a time in it: the same parcel is the same bytes.
        return gzipping.compress(content, 1, mtime=0) if self._gzip else content

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def idempotency_key(id: str) -> str:
    """A parcel's id as a header's value: what is not visible ASCII is percent-encoded, and so is %."""
    return quote(id, safe=PLAIN)


def checked_headers(headers: Mapping[Any, Any]) -> dict[str, str]:
    """Headers as they can be sent; an error names one, and never its value, which may be a secret."""
    if not isinstance(headers, Mapping):
        raise InvalidSink(f"headers must be names and values, got {type(headers).__name__}")
    for name, value in headers.items():
        if not isinstance(name, str) or not HEADER_NAME.fullmatch(name):
            raise InvalidSink(f"the name of a header must be of letters, digits and -, got {shown(name)}")
        if name.lower() in OURS:
            raise InvalidSink(f"the header {name} is the sink's own and cannot be set")
        if not isinstance(value, str) or not HEADER_VALUE.fullmatch(value):
            raise InvalidSink(f"the value of the header {name} must be a text of visible ASCII")
    return dict(headers)


def _secrets(headers: Mapping[str, str], password: str | None) -> tuple[str, ...]:
    """What may be secret: the values of headers, and what follows a word such as Bearer in them."""
    values = [word for value in headers.values() for word in (value, value.rpartition(" ")[2])]
    found = {word for word in (*values, unquote(password or "")) if len(word) >= SHORTEST_SECRET}
    return tuple(sorted(found, key=len, reverse=True))


def _check_timeout(timeout: object) -> None:
    if not isinstance(timeout, timedelta) or timeout <= timedelta():
        raise InvalidSink(f"timeout must be a timedelta, longer than 0, got {shown(timeout)}")


def _shown_url(url: str) -> str:
    """The URL without what may be a secret: no user, no password, no query."""
    expected = "expected the URL of a receiver, such as https://api.example/measurements"
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
        httpx2.URL(url)
    except (ValueError, TypeError, AttributeError, httpx2.InvalidURL):
        # Without what is said of it, which may quote a piece of a password.
        raise InvalidSink(f"{expected}; this one cannot be read") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidSink(f"{expected}; got none of http:// or https:// with a host")
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"
