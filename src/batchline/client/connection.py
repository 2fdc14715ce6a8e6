"""One socket to the service: frames out, each answered by its number; messages in as they come."""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

import msgspec

from batchline.client.answers import outcomes_of
from batchline.core.message import Outcome
from batchline.errors import (
    BatchlineError,
    ConsumerReplaced,
    MissingExtra,
    ServiceRefused,
    ServiceUnavailable,
    TopicDeleted,
    Unauthorized,
    WrongContent,
)
from batchline.wire.messages import LeasedForm, Outcomes
from batchline.wire.problems import ProblemForm, error_of
from batchline.wire.push import (
    LARGEST_FRAME,
    Asked,
    Close,
    Problem,
    Pushed,
    Said,
    Subscribed,
    Told,
    read_said,
)

try:
    from websockets.asyncio.client import ClientConnection, connect
    from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
    from websockets.http11 import Response
except ModuleNotFoundError as error:
    raise MissingExtra("a consumer over the network needs websockets: pip install 'batchline[client]'") from error

__all__ = ["Connection", "Place", "open_connection"]

encode: Final = msgspec.json.Encoder().encode
OPEN_S: Final = 10.0
#: How long an answer may take; after that the connection counts as lost.
ANSWER_S: Final = 30.0
PING_S: Final = 10.0
#: What no new connection would mend.
ENDINGS: Final[dict[int, type[BatchlineError]]] = {
    Close.POLICY: Unauthorized,
    Close.REPLACED: ConsumerReplaced,
    Close.TOPIC: TopicDeleted,
}
Hear = Callable[[list[Outcome]], None]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a socket leads, and what proves who asks."""

    url: str
    token: str | None = field(repr=False)
    tls: ssl.SSLContext | None = None


@dataclass(slots=True)
class Pending:
    """What was asked and is not answered yet."""

    answer: asyncio.Future[list[Outcome]]
    #: Told of the answer before anything that comes after it is read.
    hear: Hear


class Connection:
    """A socket whose greeting was read."""

    def __init__(self, socket: ClientConnection, greeting: Subscribed, held: list[LeasedForm]) -> None:
        self.greeting, self.held = greeting, held
        #: Why it has ended; None while it lives.
        self.lost: BatchlineError | None = None
        self._socket = socket
        self._numbers = count(1)
        self._pending: dict[int, Pending] = {}
        #: The error of ours that ended it, if one did: a new connection may end in the same way.
        self.broken: Exception | None = None
        self._said: BatchlineError | None = None
        self._reading: asyncio.Task[None] | None = None

    def listen(self, arrived: Callable[[list[LeasedForm]], None], ended: Callable[[], None]) -> None:
        """Tell of messages as they come, and of the end."""
        self._reading = asyncio.ensure_future(self._read(arrived, ended))

    async def ask(self, frame: Asked, hear: Hear) -> list[Outcome]:
        """Ask for something, and wait for what becomes of it."""
        frame.request = next(self._numbers)
        pending = self._pending[frame.request] = Pending(asyncio.get_running_loop().create_future(), hear)
        try:
            await self.say(frame)
            async with asyncio.timeout(ANSWER_S):
                return await pending.answer
        except TimeoutError as error:
            self.abort()
            raise ServiceUnavailable(f"the service did not answer within {ANSWER_S:g} s") from error
        finally:
            self._pending.pop(frame.request, None)

    async def say(self, frame: Asked) -> None:
        """Say something to which there is no answer."""
        if self.lost is not None:
            raise self.lost
        try:
            await self._socket.send(encode(frame).decode())
        except ConnectionClosed as error:
            raise ServiceUnavailable("the connection to the service was lost") from error

    async def ending(self) -> None:
        """Wait until the service has closed it, and all is read."""
        if self._reading is not None:
            await asyncio.wait([self._reading])

    async def close(self) -> None:
        """End it."""
        with suppress(OSError, WebSocketException):
            await self._socket.close()
        await self.ending()

    def abort(self) -> None:
        """End it at once."""
        self._socket.transport.abort()

    # --- inside ---

    async def _read(self, arrived: Callable[[list[LeasedForm]], None], ended: Callable[[], None]) -> None:
        try:
            async for data in self._socket:
                self._heard(read_said(data), arrived)
        except ConnectionClosed:
            pass
        except Exception as error:  # noqa: BLE001 - the consumer's next turn raises it
            self.broken = error
            self.abort()
        finally:
            self.lost = self._ending()
            for pending in self._pending.values():
                if not pending.answer.done():
                    pending.answer.set_exception(self.lost)
            ended()

    def _ending(self) -> BatchlineError:
        kind = ENDINGS.get(self._socket.close_code or 0)
        if kind is None:
            return ServiceUnavailable("the connection to the service was lost")
        return self._said or kind(self._socket.close_reason or "")

    def _heard(self, frame: Said, arrived: Callable[[list[LeasedForm]], None]) -> None:
        if isinstance(frame, Pushed):
            arrived(frame.messages)
        elif isinstance(frame, Told):
            self._answered(frame)
        elif isinstance(frame, Problem):
            self._refused(frame)

    def _answered(self, frame: Told) -> None:
        pending = self._pending.get(frame.request or 0)
        if pending is None:
            return
        outcomes = outcomes_of(Outcomes(frame.outcomes))
        pending.hear(outcomes)
        if not pending.answer.done():
            pending.answer.set_result(outcomes)

    def _refused(self, frame: Problem) -> None:
        error = error_of(frame.problem.type, frame.problem.detail)
        pending = self._pending.get(frame.request or 0)
        if pending is None:
            self._said = error
        elif not pending.answer.done():
            pending.answer.set_exception(error)


async def open_connection(place: Place) -> Connection:
    """A socket that is greeted; raises why there is none."""
    headers = None if place.token is None else {"Authorization": f"Bearer {place.token}"}
    options: dict[str, Any] = {} if place.tls is None else {"ssl": place.tls}
    try:
        socket = await connect(
            place.url,
            additional_headers=headers,
            compression=None,
            max_size=LARGEST_FRAME,
            open_timeout=OPEN_S,
            ping_interval=PING_S,
            ping_timeout=PING_S,
            **options,
        )
    except InvalidStatus as error:
        raise _refusal(error.response) from error
    except (OSError, TimeoutError, WebSocketException) as error:
        raise ServiceUnavailable(f"the service could not be reached: {error}") from error
    try:
        async with asyncio.timeout(ANSWER_S):
            return await _greeted(socket)
    except BaseException as error:
        socket.transport.abort()
        if isinstance(error, TimeoutError | ConnectionClosed):
            raise ServiceUnavailable("the service has not begun to talk") from error
        raise


async def _greeted(socket: ClientConnection) -> Connection:
    greeting = read_said(await socket.recv())
    if isinstance(greeting, Problem):
        raise error_of(greeting.problem.type, greeting.problem.detail)
    if not isinstance(greeting, Subscribed):
        raise WrongContent(f"expected the service's greeting, got a frame {type(greeting).__name__}")
    held: list[LeasedForm] = []
    while len(held) < greeting.resumed:
        frame = read_said(await socket.recv())
        held += frame.messages if isinstance(frame, Pushed) else []
    return Connection(socket, greeting, held)


def _refusal(response: Response) -> BatchlineError:
    try:
        problem = msgspec.json.decode(response.body or b"", type=ProblemForm)
    except msgspec.MsgspecError:
        kind = ServiceUnavailable if response.status_code >= 500 else ServiceRefused
        return kind(f"expected a socket, got status {response.status_code}")
    return error_of(problem.type, problem.detail)
