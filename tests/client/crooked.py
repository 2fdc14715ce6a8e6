"""A server before the service that does not do as it should: it cuts, it is late, it says that it cannot."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, Literal
from urllib.parse import urlsplit

__all__ = ["Crooked", "How", "crooked"]

#: Not done, and no answer; done, and no answer; done, and only half of the answer; done when the client has gone;
#: refused with a status.
How = Literal["cut", "done and cut", "half", "late", "503", "429", "502"]
PATIENCE_S = 30.0


class Crooked:
    """Passes requests on, and answers back; but the next ones as it was told."""

    def __init__(self, upstream: str) -> None:
        self._host, self._port = urlsplit(upstream).hostname, urlsplit(upstream).port
        self.plan: list[How] = []
        self.requests = 0
        self.url = ""
        #: Those of connections; when the client is gone nobody else holds them, and they would vanish half-way.
        self._tasks: set[asyncio.Task[Any]] = set()

    def next(self, *how: How, times: int = 1) -> None:
        """How the next requests are treated; those after them as they should be."""
        self.plan, self.requests = list(how) * times, 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with closing(writer), suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                asked = await _message(reader)
                self.requests += 1
                answer = await self._answer(asked, reader)
                writer.write(answer)
                await writer.drain()
                if not answer.endswith(b"}") and b"204" not in answer[:20]:
                    break

    async def _answer(self, asked: bytes, reader: asyncio.StreamReader) -> bytes:
        how = self.plan.pop(0) if self.plan else "well"
        if how.isdecimal():
            body = b'{"type":"/problems/Overloaded","title":"","status":503,"detail":"not now"}'
            return b"HTTP/1.1 %b No\r\nretry-after: 0\r\ncontent-length: %d\r\n\r\n%b" % (how.encode(), len(body), body)
        if how == "cut":
            return b""
        if how == "late":
            await reader.read(1)  # the client has had enough, and is gone
        answer = await self._pass_on(asked)
        return {"done and cut": b"", "late": b"", "half": answer[: len(answer) // 2]}.get(how, answer)

    async def _pass_on(self, asked: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        with closing(writer):
            writer.write(asked)
            return await _message(reader)


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [line.partition(b":")[2] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return head + await reader.readexactly(int(lengths[0]) if lengths else 0)


@contextmanager
def crooked(upstream: str) -> Iterator[Crooked]:
    """Such a server, in a thread."""
    server, listens, loop = Crooked(upstream), threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listener:
            server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
            listens.set()
            await stop.wait()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)  # what was closed closes

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert listens.wait(PATIENCE_S)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(PATIENCE_S)
        loop.close()
