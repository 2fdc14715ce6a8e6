"""The way to a Redis server: its address is checked, and its errors are translated, here."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from batchline.errors import InvalidStore, MissingExtra, StoreError, StoreUnavailable
from batchline.stores.address import check_characters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis

__all__ = ["connect", "translated", "without_secrets"]

EXPECTED: Final = "expected redis://host:port/database, rediss://… with TLS, or unix:///path"
#: The longest that connecting takes, and an answer; a call may make two attempts.
ANSWER_S: Final = 5.0
# The driver takes anything for database 0 that is no number.
ADDRESS: Final = re.compile(r"rediss?://[^/?#]*(/\d*)?([?#].*)?|unix://.*", re.DOTALL)


def connect(url: str) -> Redis:
    """A client that connects when it is first used; it never repeats a call by itself."""
    try:
        # Not on top: whoever does not use Redis neither has it nor waits for it.
        import redis
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "estimates and leases in Redis need redis, which is not installed: pip install 'batchline[redis]'"
        ) from error
    try:
        return _client(_checked(url))
    except (ValueError, TypeError, redis.RedisError) as error:
        raise InvalidStore(f"{EXPECTED}, with options that redis-py knows, got {without_secrets(url)}") from error


def _checked(url: object) -> str:
    if not isinstance(url, str) or not ADDRESS.fullmatch(url):
        raise InvalidStore(f"{EXPECTED}, got {without_secrets(url)}")
    check_characters(url)
    return url


def _client(url: str) -> Redis:
    from redis import Redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    # What the address says of these goes before.
    client = Redis.from_url(url, decode_responses=True, socket_timeout=ANSWER_S, socket_connect_timeout=ANSWER_S)
    # Whatever the address asks for: what was not answered may have been done, and only we know what can be sent again.
    client.set_retry(Retry(NoBackoff(), 0))
    # The driver looks at the options of an address only when it connects.
    client.connection_pool.connection_class(**client.connection_pool.connection_kwargs)
    return client


def without_secrets(url: object) -> str:
    """An address as it may stand in a message: without user and password."""
    without_options = re.sub(r"(password=)[^&']*", r"\1…", repr(url))
    return re.sub(r"//.*@", "//…@", without_options)


@contextmanager
def translated(where: str) -> Iterator[None]:
    """What the driver raises, as an error of ours that names the server."""
    from redis import exceptions

    try:
        yield
    except (exceptions.AuthenticationError, exceptions.AuthorizationError) as error:
        raise StoreError(f"Redis at {where} does not let us in: {error}") from error
    except (exceptions.ConnectionError, exceptions.TimeoutError) as error:
        raise StoreUnavailable(f"Redis at {where} does not answer: {error}") from error
    except exceptions.RedisError as error:
        raise StoreError(f"Redis at {where} could not do it: {error}") from error
