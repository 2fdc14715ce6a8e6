"""HTTP and WebSocket connections with limits on what comes before the application sees a request.

The parser is httptools, which has no limits of its own. Bytes are counted until it finds the end of what they belong
to: so neither a head, nor a trailer, nor an extension of a chunk grows without bound.
"""

from collections import deque
from typing import TYPE_CHECKING, Any, Final, cast

from httptools import HttpParserError, HttpParserUpgrade
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from batchline.core.connection_limits import Progress
from batchline.errors import AddressTooLong, BatchlineError, HeadTooLarge, Overloaded, TooSlow, WrongContent
from batchline.service.answer_share import AnswerShare
from batchline.service.connection_gate import ConnectionGate
from batchline.service.read_turns import TURN_BYTES, HeldFlow
from batchline.wire.problems import raw_answer

if TYPE_CHECKING:
    import asyncio

__all__ = ["LimitedHttp", "LimitedSocket"]

#: The parts of a request, as they come in.
BETWEEN, HEAD, BODY = "between", "head", "body"
#: Headers that announce a body, unless their value is 0.
BODY_HEADERS: Final = (b"content-length", b"transfer-encoding")
#: A line of a handshake that the parser of WebSockets still reads.
HANDSHAKE_LINE: Final = 8_000
#: Frames of one message on a WebSocket. An empty one takes no bytes of the largest message, but some memory.
FRAGMENTS: Final = 10_000
#: Pings and pongs of one WebSocket between two looks: each takes the loop's time.
PINGS: Final = 100
#: Bytes of frames that are read at once: many small ones take the loop's time.
PIECE: Final = 8 << 10
#: From how many bytes on an unfinished message counts among those that all sockets together may send.
SMALL: Final = 64 << 10
#: What ends a handshake, besides a close.
ANSWERS: Final = ("websocket.accept", "websocket.http.response.body")


class Watched:
    """A connection that is counted, and whose client must read what it is sent."""

    transport: "asyncio.Transport"

    def admitted(self, gate: ConnectionGate, address: str) -> None:
        """Note by which gate, and from where."""
        self.gate, self.address = gate, address
        self._reader: Progress | None = None
        self._reader_had = 0

    def unread(self) -> tuple[float, int] | None:
        """Return since when its client has not read everything, and the bytes that are left; None if it has."""
        return None if self._reader is None else (self._reader.since_s, self._reader_had - self._reader.moved)

    def drop(self, reason: str) -> None:
        """End it at once."""
        self.gate.count_refused(reason)
        self.transport.abort()

    def pause_writing(self) -> None:
        """Begin to watch a client that does not read as fast as it is answered."""
        super().pause_writing()  # type: ignore[misc]
        self._watch_reader(self.gate.clock())

    def resume_writing(self) -> None:
        """Note that the client has read."""
        super().resume_writing()  # type: ignore[misc]
        self._reader = None

    def _watch_reader(self, now_s: float) -> None:
        self._reader, self._reader_had = Progress(now_s), self.transport.get_write_buffer_size()

    def check_reader(self, now_s: float) -> None:
        """Drop it if its client does not read its answers, or, when it is closed, does not end it."""
        left = self.transport.get_write_buffer_size()
        is_closed_now = self.transport.is_closing() and (self._reader is None or bool(self._reader_had and not left))
        if is_closed_now:
            self._watch_reader(now_s)
        elif self._reader is not None:
            self._reader.moved = self._reader_had - left
            if self._reader.is_too_slow(now_s, self.gate.limits):
                self.drop("unread")


class LimitedSocket(Watched, WebSocketsSansIOProtocol):
    """A WebSocket. A client that does not read is not read from, so that pings cannot pile up answers."""

    def __init__(self, gate: ConnectionGate, address: str, **given: Any) -> None:
        super().__init__(**given)
        self.admitted(gate, address)
        self._pings = 0
        #: What has come and is not parsed yet, and whether it waits for its turn.
        self._rest = b""
        self._is_held = False
        #: What a large message has of the bytes of all sockets.
        self._share = AnswerShare(gate.frames)
        self._share.belong(address)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count it out."""
        self._share.end()
        self.gate.forget(self)
        self.gate.leave(self.address)
        super().connection_lost(exc)

    def look(self, now_s: float) -> None:
        """End what takes too long."""
        self.check_reader(now_s)
        self._pings = 0

    def connection_made(self, transport: Any) -> None:
        """Read nothing until the application accepts it: before that, the client is a stranger."""
        super().connection_made(transport)
        self.read_paused = True
        transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        """Read on, in turns; ValueError if the first data is no handshake."""
        if self.handshake_initiated:
            self._rest += data
            if not self._is_held:
                self._read_piece()
            return
        super().data_received(data)
        if not self.handshake_initiated:
            raise ValueError("a GET without a body")

    def _read_piece(self) -> None:
        self._is_held = False
        if self.transport.is_closing():
            self._rest = b""
            return
        piece, self._rest = self._rest[:PIECE], self._rest[PIECE:]
        super().data_received(piece)
        size = self._unfinished()
        if size > SMALL and not self._share.try_take(size):
            self._fail(1013, "large messages of other sockets take all memory there is for them: try again")
        if self._rest and self.transport.is_reading() and not self.transport.is_closing():
            self.transport.pause_reading()
        self._read_on()

    def _read_on(self) -> None:
        """Read on, if the application has taken all messages and the client has read all answers."""
        if self.read_paused or self._is_held or self.transport.is_closing() or not self.writable.is_set():
            return
        if self._rest:
            self._is_held = True
            self.gate.turns.wait(self._read_piece)
        elif not self.transport.is_reading():
            self.transport.resume_reading()

    def _unfinished(self) -> int:
        """Return the bytes of a message that has not come in whole."""
        return len(self.conn.reader.buffer) + sum(map(len, self.frames))

    async def receive(self) -> Any:
        """Return what came. A caller that asks for more has done what it was given before."""
        if self.queue.empty():
            size = self._unfinished()
            self._share.keep(size if size > SMALL else 0)
        message = await self.queue.get()
        if self.read_paused and self.queue.empty():
            self.read_paused = False
            self._read_on()
        return message

    def handle_cont(self, event: Frame) -> None:
        """Read a part of a message; the number of parts is bounded."""
        if len(self.frames) < FRAGMENTS:
            super().handle_cont(event)
        else:
            self._fail(1009, f"a message has at most {FRAGMENTS:,} frames")

    def handle_ping(self) -> None:
        """Answer a ping, unless there are too many."""
        self._pings += 1
        if self._pings <= PINGS:
            super().handle_ping()
        else:
            self._fail(1008, f"at most {PINGS:,} pings and pongs within {self.gate.limits.every_s:g} s")

    def handle_pong(self, event: Frame) -> None:
        """Note a pong; pings and pongs are counted together."""
        self._pings += 1
        if self._pings <= PINGS:
            super().handle_pong(event)
        else:
            self._fail(1008, f"at most {PINGS:,} pings and pongs within {self.gate.limits.every_s:g} s")

    def _fail(self, code: int, reason: str) -> None:
        if not self.close_sent:
            self.conn.fail(code, reason)
            self.handle_parser_exception()

    async def send(self, message: Any) -> None:
        """Send. After a refusal the handshake is over, and after a close the client has gone: neither is an error."""
        if self.close_sent and message["type"] == "websocket.send":
            raise ClientDisconnected
        await super().send(message)
        if message["type"] in ANSWERS:
            self.handshake_complete = True
        if self.close_sent:  # the client's close may be in what was not read yet
            self._read_on()

    def pause_writing(self) -> None:
        """Read no more until the client does."""
        super().pause_writing()
        if self.transport.is_reading():
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        """Read again."""
        super().resume_writing()
        self._read_on()


class LimitedHttp(Watched, HttpToolsProtocol):
    """A connection of HTTP/1.1."""

    def __init__(self, gate: ConnectionGate, address: str, **given: Any) -> None:
        super().__init__(**given)
        self.admitted(gate, address)
        self._socket: LimitedSocket | None = None
        self.ws_protocol_class = cast("type[asyncio.Protocol]", self._make_socket)
        self._limits = gate.limits
        self._part = BETWEEN
        #: Bytes of the heads of requests that wait for earlier answers.
        self._heads: deque[int] = deque()
        #: Bytes since the parser found the end of something, and what has come in of the present part.
        self._unparsed = 0
        self._input = Progress(gate.clock())
        #: Why nothing more is read; and whether that was answered, so that only the client's end is waited for.
        self._refusal: tuple[str, BatchlineError] | None = None
        self._is_deaf = self._has_refused = False

    # --- what the transport says ---

    def connection_made(self, transport: Any) -> None:
        """Watch it."""
        super().connection_made(transport)
        self.flow = HeldFlow(transport)
        self.gate.watch(self)
        self.gate.rest(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count it out, unless it has become a WebSocket."""
        self.gate.forget(self)
        self.gate.leave(self.address)
        super().connection_lost(exc)
        self.pipeline.clear()  # its requests hold this connection, and nothing answers them any more

    def data_received(self, data: bytes) -> None:
        """Read on, within the limits. A connection that sends much waits for its turn after that."""
        if len(data) >= TURN_BYTES and not self._flow.is_held:
            self._flow.hold()
            self.gate.turns.wait(self._read_on)
        if self._is_deaf:
            return
        if self._is_idle():
            self.gate.wake(self)
            self._input.restart(self.gate.clock())
        self._unparsed += len(data)
        self._input.moved += len(data)
        self._unset_keepalive_if_required()
        self._parse(data)
        if self._unparsed > self._limits.head_bytes and not self._is_deaf:
            self._refuse("head_size", self._too_large())

    @property
    def _flow(self) -> HeldFlow:
        return cast("HeldFlow", self.flow)

    def _read_on(self) -> None:
        if not self.transport.is_closing() and self.transport.get_protocol() is self:
            self._flow.let_go()

    def _parse(self, data: bytes) -> None:
        while data:
            try:
                self.parser.feed_data(data)
            except HttpParserError:
                self.send_400_response("Invalid HTTP request received.")
            except HttpParserUpgrade as upgrade:
                if not self._should_upgrade():  # to what we do not speak: it is a request as others are
                    data = data[upgrade.args[0] :]
                    continue
                self.handle_websocket_upgrade()
            return

    def handle_websocket_upgrade(self) -> None:
        """Let a WebSocket have the connection."""
        try:
            super().handle_websocket_upgrade()
        except (AssertionError, ValueError) as error:  # its parser refuses what ours has read
            self.connections.discard(cast("Any", self._socket))
            self.connections.add(self)
            self.transport.resume_reading()
            self._refuse("malformed", WrongContent(f"expected a handshake of a WebSocket: {error}"))
        else:
            self.gate.forget(self)
            self.gate.watch(cast("LimitedSocket", self._socket))

    def _make_socket(self, **given: Any) -> LimitedSocket:
        self._socket = LimitedSocket(self.gate, self.address, **given)
        return self._socket

    # --- what the parser says ---

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._part = HEAD

    def on_header(self, name: bytes, value: bytes) -> None:
        """Read a header. Drop one that comes after the body: it was not checked."""
        if self._part == HEAD:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Hand a request on, if its head is within the limits."""
        size = self._check_head()
        super().on_headers_complete()
        if len(self.pipeline) > len(self._heads):
            self._heads.append(size)
        self._part, self._unparsed = BODY, 0
        self._input.restart(self.gate.clock())

    def on_body(self, body: bytes) -> None:
        """Hand a piece of a body on."""
        super().on_body(body)
        self._unparsed = 0

    def on_message_complete(self) -> None:
        """End a request."""
        super().on_message_complete()
        self._part, self._unparsed = BETWEEN, 0
        self._rest()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        if len(self._heads) > len(self.pipeline):
            self._heads.popleft()
        if self.pipeline and not self.transport.is_closing():  # read no more until they are answered
            self.flow.pause_reading()
        self._input.restart(self.gate.clock())
        self._rest()

    def _rest(self) -> None:
        if self._is_idle():
            self.gate.rest(self)

    def _check_head(self) -> int:
        """Return the bytes of a head that is within the limits."""
        limits = self._limits
        if len(self.url) > limits.url_bytes:
            self._stop_at_address(limits.url_bytes)
        if len(self.headers) > limits.headers:
            self._stop(
                "head_size", HeadTooLarge(f"expected at most {limits.headers} headers, got {len(self.headers):,}")
            )
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > limits.head_bytes:
            self._stop("head_size", self._too_large())
        waiting = sum(self._heads) + sum(len(cycle.body) for cycle, _ in self.pipeline)
        if len(self.pipeline) >= limits.pipelined or waiting > limits.pipelined_bytes:
            many, much = limits.pipelined, limits.pipelined_bytes
            self._stop("pipelined", Overloaded(f"at most {many} requests, or {much:,} bytes, wait on one connection"))
        if self.parser.should_upgrade():
            self._check_upgrade()
        return size

    def _check_upgrade(self) -> None:
        # The parser leaves the body to the other protocol, so that here it would be read as the next request.
        if any(name in BODY_HEADERS and value != b"0" for name, value in self.headers):
            self._stop("malformed", WrongContent("a request with a body cannot upgrade: send it without Upgrade"))
        if not self._should_upgrade():
            return
        if self._is_busy():
            self._stop("malformed", WrongContent("a handshake of a WebSocket comes after all earlier answers"))
        if not self.url.isascii():
            self._stop("malformed", WrongContent("expected an address in ASCII"))
        if len(self.url) > HANDSHAKE_LINE:
            self._stop_at_address(HANDSHAKE_LINE)
        if any(len(name) + len(value) > HANDSHAKE_LINE for name, value in self.headers):
            self._stop("head_size", HeadTooLarge(f"a header of a handshake has at most {HANDSHAKE_LINE:,} bytes"))

    def _stop_at_address(self, most: int) -> None:
        self._stop("head_size", AddressTooLong(f"an address has at most {most:,} bytes, got {len(self.url):,}"))

    def _stop(self, reason: str, error: BatchlineError) -> None:
        # The parser ends with an error of its own, and then asks for the answer to what is no HTTP.
        self._refusal = reason, error
        raise error

    def _too_large(self) -> HeadTooLarge:
        return HeadTooLarge(f"the head of a request has at most {self._limits.head_bytes:,} bytes: send less")

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request, or one beyond a limit."""
        reason, error = self._refusal or ("malformed", WrongContent(f"expected a request of HTTP/1.1: {msg}"))
        self._refuse(reason, error.with_traceback(None))  # which would keep all that was read

    # --- what takes too long ---

    def look(self, now_s: float) -> None:
        """End what takes too long."""
        self.check_reader(now_s)
        waited_s = now_s - self._input.since_s
        if self.transport.is_closing():
            return
        if self._is_deaf:
            if self._has_refused and waited_s >= self._limits.linger_s:
                self.transport.close()
        elif self._part == BODY:
            self._look_at_body(now_s, waited_s)
        elif not self._is_busy():
            self._look_at_head(waited_s)

    def _look_at_body(self, now_s: float, waited_s: float) -> None:
        if not self._is_busy():  # answered before it has come: it is not read
            if waited_s >= self._limits.linger_s:
                self.transport.close()
        elif self.flow.read_paused or self._flow.is_held or self.cycle.waiting_for_100_continue:
            self._input.restart(now_s)
        elif self._input.is_too_slow(now_s, self._limits):
            rate, grace_s = self._limits.bytes_per_s, self._limits.grace_s
            self._refuse(
                "body_rate", TooSlow(f"expected {rate:,.0f} bytes/s of the body at least, after {grace_s:g} s")
            )

    def _look_at_head(self, waited_s: float) -> None:
        limits, is_idle = self._limits, self._is_idle()
        was_answered = getattr(self.cycle, "response_complete", False)
        if waited_s < (limits.idle_s if is_idle and was_answered else limits.head_s):
            return
        if is_idle:
            self.transport.close()
        else:
            self._refuse("head_time", TooSlow(f"expected the head of a request within {limits.head_s:g} s"))

    def _is_idle(self) -> bool:
        return self._part == BETWEEN and not self._unparsed and not self._is_busy()

    def _is_busy(self) -> bool:
        return not getattr(self.cycle, "response_complete", True)  # there is none before the first request

    def _refuse(self, reason: str, error: BatchlineError) -> None:
        """Read no more; answer why, unless an answer is under way."""
        self.gate.count_refused(reason)
        self.gate.wake(self)
        self._is_deaf = True
        if self._is_busy():
            if self._part != BODY:  # it is answered first, and the connection ends with it
                self.cycle.keep_alive = False
                return
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if self.cycle.response_started or self.pipeline:
                self.transport.close()
                return
        self._answer(error)

    def _answer(self, error: BatchlineError) -> None:
        self._has_refused = True
        self._input.restart(self.gate.clock())
        status, rest = raw_answer(error)
        self.transport.write(STATUS_LINE[status] + rest)
        # Closing at once, with bytes unread, would make the client's kernel drop the answer.
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()
