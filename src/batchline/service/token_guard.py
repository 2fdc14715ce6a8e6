"""Whose token a connection has: too many wrong ones from one address are refused before the store is asked."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from starlette.requests import HTTPConnection

from batchline.core.connection_limits import address_key
from batchline.core.failure_budget import FailureBudget
from batchline.core.token import Token
from batchline.errors import BatchlineError, TooManyFailures, Unauthorized
from batchline.runtime.clock import elapsed_seconds, wait_for
from batchline.runtime.tokens import Tokens

__all__ = ["BEARER_PROTOCOL", "TokenGuard", "client_address"]

#: A browser cannot set headers on a socket: there the token is one of the subprotocols that it offers.
BEARER_PROTOCOL: Final = "bearer."
#: How often, during a flood, all tokens are read, so that those that this process has not seen yet are told apart.
LEARN_EVERY_S: Final = 5.0
LOG: Final = logging.getLogger("batchline.service")
InThread = Callable[..., Awaitable[Any]]


class TokenGuard:
    """Checks the tokens of connections, in the loop's thread; what takes a look into the store, in another."""

    def __init__(self, tokens: Tokens, in_thread: InThread, failures: FailureBudget | None = None) -> None:
        self._tokens, self._in_thread = tokens, in_thread
        self._failures = FailureBudget() if failures is None else failures
        self._learning = asyncio.Lock()
        self._learned_s = float("-inf")

    async def check(self, connection: HTTPConnection) -> Token:
        """Return the token of a connection; raises TooManyFailures if too many wrong ones came from its address."""
        text = token_text(connection)
        try:
            found = self._tokens.remembered(text)
            if found is not None:
                return found
            if not await self._has_proved(text, connection):
                await self._check_failures(connection)
            token: Token = await self._in_thread(self._tokens.check, text)
        except Unauthorized:
            await self._check_failures(connection)
            self._failures.spend(client_address(connection), elapsed_seconds())
            raise
        return token

    def has_remembered(self, connection: HTTPConnection) -> bool:
        """Whether the token of a connection is valid, without a look into the store. False if it takes one."""
        return self._tokens.remembered(token_text(connection)) is not None

    async def _has_proved(self, text: str, connection: HTTPConnection) -> bool:
        """Return whether a token is known. While its address has failed too often, read all tokens every 5 s."""
        known = self._tokens.has_proved(text)
        if not known and self._failures.wait_s(client_address(connection), elapsed_seconds()):
            await self._learn()
            known = self._tokens.has_proved(text)
        return known

    async def _learn(self) -> None:
        async with self._learning:  # the others wait for what it finds
            if elapsed_seconds() - self._learned_s >= LEARN_EVERY_S:
                self._learned_s = elapsed_seconds()
                with suppress(BatchlineError):  # the store is away: it is asked again after the pause
                    await self._in_thread(self._tokens.learn)

    async def _check_failures(self, connection: HTTPConnection) -> None:
        address, now_s = client_address(connection), elapsed_seconds()
        wait_s = self._failures.wait_s(address, now_s)
        if not wait_s:
            return
        if self._failures.is_news(address, now_s):
            LOG.warning("too many wrong tokens from %s: its unknown tokens are refused with 429", address)
        await wait_for(asyncio.Event(), self._failures.delay_s)
        raise TooManyFailures(
            f"too many wrong tokens came from {address}: expected a valid one, after {math.ceil(wait_s)} s",
            retry_after=timedelta(seconds=wait_s),
        )


def token_text(connection: HTTPConnection) -> str:
    """Return the text that proves the caller: in a header, or, of a socket, among the subprotocols that it offers."""
    kind, _, text = connection.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and text.strip():
        return text.strip()
    for offered in connection.scope.get("subprotocols", ()):
        if offered.startswith(BEARER_PROTOCOL):
            return str(offered.removeprefix(BEARER_PROTOCOL))
    raise Unauthorized("expected a token: Authorization: Bearer bl_…")


def client_address(connection: HTTPConnection) -> str:
    """Return the key of the client's address, as a trusted proxy has noted it."""
    client = connection.scope.get("client")
    return address_key(client[0]) if client else "an unknown address"
