"""The clients: the verbs of tracker and timeline over HTTP, waiting or awaiting."""

import asyncio
import ssl
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import SplitResult, quote, urlsplit

import httpx2

from batchline.client.asking import RETRY, TRIES
from batchline.client.exchange import Lost, Pause, Reply, Request, Steps
from batchline.client.fanouts import FanoutVerbs
from batchline.client.leases import LeaseVerbs
from batchline.client.messages import MessageVerbs
from batchline.client.subscription import Push
from batchline.client.topics import TopicVerbs
from batchline.core.moment import check_span
from batchline.core.retry import RetryRules
from batchline.errors import ImproperOrder, InvalidInput, InvalidRules, shown
from batchline.runtime.clock import elapsed_seconds, now_us
from batchline.wire.form import GROUP_HEADER

__all__ = ["AsyncClient", "Client"]

T = TypeVar("T")
TIMEOUT: Final = timedelta(seconds=30)
#: Shorter than a topic keeps the ids of done messages by default: a repeated `create` is recognised.
PATIENCE: Final = timedelta(seconds=45)
JSON: Final = {"Content-Type": "application/json"}
#: Shorter than the service keeps a connection open: none is used that it is about to close.
LIMITS: Final = httpx2.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=4.0)


class _Verbs(TopicVerbs, MessageVerbs, LeaseVerbs, FanoutVerbs, ABC):
    """What both clients are: an address, and how patient they are."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: timedelta = TIMEOUT,
        retry: RetryRules | None = RETRY,
        tries: int = TRIES,
        patience: timedelta = PATIENCE,
        tls: ssl.SSLContext | None = None,
        clock: Callable[[], int] = now_us,
        elapsed: Callable[[], float] = elapsed_seconds,
    ) -> None:
        """A client of the service at a URL. A request that fails is repeated after the pauses of `retry`; None: never.

        `timeout` limits the wait for one answer, `tries` and `patience` limit all tries of a request together. `tls`
        is for certificates that this machine does not know by itself.
        """
        self._url = _check_url(url)
        check_span("timeout", timeout, 1_000)
        check_span("patience", patience, 1_000)
        self._timeout_s, self._patience_s = timeout.total_seconds(), patience.total_seconds()
        self._elapsed_s = elapsed
        self._retry, self._tries, self._now_us = _check_retry(retry), _check_tries(tries), clock
        self._shares = {}
        self._token, self._tls = token, tls
        verify = tls or self._url.startswith("https:")
        self._connect(base_url=self._url, headers=_authorization(token), limits=LIMITS, verify=verify)

    @abstractmethod
    def _connect(self, **settings: Any) -> None:
        """Make what sends requests."""

    def subscription(self, topic: str, consumer: str, *, prefetch: int, duration: timedelta | None) -> Push:
        """Messages of a topic for a consumer, pushed: what `Consumer` takes, at most `prefetch` unfinished."""
        how: Any = {"prefetch": prefetch, "duration": duration, "tls": self._tls, "clock": self._now_us}
        return Push(self._url, self._token, topic, consumer, **how)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._url!r})"

    def _options(self, request: Request) -> dict[str, Any]:
        headers = {} if request.body is None else JSON
        if request.group is not None:
            headers = headers | {GROUP_HEADER: quote(request.group, safe="")}
        return {"content": request.body, "headers": headers, "timeout": request.timeout_s}


class Client(_Verbs):
    """The tracker and the timeline of a service, with the methods of both. Threads may share one."""

    def _connect(self, **settings: Any) -> None:
        self._http = httpx2.Client(**settings)
        self._closed = threading.Event()

    def waits(self, steps: Steps[T]) -> T:
        """Take the steps of a verb."""
        answer: Reply | Lost | None = None
        try:
            while True:
                answer = self._do(steps.send(answer))
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    def _do(self, step: Request | Pause) -> Reply | Lost | None:
        if isinstance(step, Pause):
            self._closed.wait(step.seconds)
            return None
        try:
            _check_open(self._http)
            return _reply(self._http.request(step.method, step.target, **self._options(step)))
        except httpx2.RequestError as error:
            return Lost(error)

    def close(self) -> None:
        """Close its connections."""
        self._closed.set()
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(_Verbs):
    """The tracker and the timeline of a service, with the methods of both, which are awaited."""

    def _connect(self, **settings: Any) -> None:
        self._http = httpx2.AsyncClient(**settings)

    async def awaits(self, steps: Steps[T]) -> T:
        """Take the steps of a verb."""
        answer: Reply | Lost | None = None
        try:
            while True:
                answer = await self._do(steps.send(answer))
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    async def _do(self, step: Request | Pause) -> Reply | Lost | None:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        try:
            _check_open(self._http)
            return _reply(await self._http.request(step.method, step.target, **self._options(step)))
        except httpx2.RequestError as error:
            return Lost(error)

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


def _reply(response: httpx2.Response) -> Reply:
    return Reply(response.status_code, response.content, response.headers.get("retry-after"))


def _check_open(http: httpx2.Client | httpx2.AsyncClient) -> None:
    if http.is_closed:
        raise ImproperOrder("the client is closed: make another")


def _check_url(url: object) -> str:
    parts = _parts(url) if isinstance(url, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput(f"expected the address of a service such as http://127.0.0.1:8080, got {shown(url)}")
    if parts.username is not None or parts.password is not None or parts.query:
        raise InvalidInput("the address of a service holds neither a name, a password nor a query: use token=…")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _parts(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        return parts if parts.port != 0 and not set(url) & set(" \\") and url.isprintable() else None
    except ValueError:  # no port, or half an address of IPv6
        return None


def _authorization(token: object) -> dict[str, str]:
    if token is None:
        return {}
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or " " in token or not token:
        raise InvalidInput("expected a token as `batchline token create` prints it: bl_…")
    return {"Authorization": f"Bearer {token}"}


def _check_retry(retry: object) -> RetryRules | None:
    if retry is not None and not isinstance(retry, RetryRules):
        raise InvalidRules(f"retry must be RetryRules, or None to try once, got {shown(retry)}")
    return retry


def _check_tries(tries: object) -> int:
    if not isinstance(tries, int) or isinstance(tries, bool) or tries < 1:
        raise InvalidRules(f"tries must be a whole number from 1 on, got {shown(tries)}")
    return tries
