"""An instance that shares a capacity, as a process of its own: always busy, it says what it has and what it sends.

Each line is `capacity moment amount` or `sent moment cost`; moments are of the one clock that all processes share.
"""

import asyncio
import signal
import sys
from datetime import timedelta
from typing import Final, NamedTuple, TextIO

from batchline import Dispatcher, Operation, SharedResource, Watcher
from batchline.leases import open_leases
from batchline.runtime.clock import elapsed_seconds

__all__ = ["COST", "FLUSH_S", "Terms", "main"]

COST: Final = 10
FLUSH_S: Final = 0.05
#: Enough to wait for more, whatever there is to get.
ALWAYS: Final = 5_000


class Terms(NamedTuple):
    """What instances agree on."""

    shared: int
    factor: int
    reserved: int
    lease_ms: int

    @property
    def lease_s(self) -> float:
        """How long a lease is."""
        return self.lease_ms / 1_000


class Speaking:
    """What is said of an instance, with the moment at which it was decided."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._now_s = elapsed_seconds()

    def clock(self) -> float:
        """The dispatcher's clock: what it reads is when it decides."""
        self._now_s = elapsed_seconds()
        return self._now_s

    def on_dispatcher(self, name: str, value: int, _message: object, _metadata: object) -> None:
        """What is handed out."""
        if name == "batch":
            print(f"sent {self._now_s} {value * COST}", file=self._out, flush=True)

    def on_limiter(self, name: str, value: float, _message: object, _metadata: object) -> None:
        """What it has."""
        if name == "capacity":
            print(f"capacity {elapsed_seconds()} {value}", file=self._out, flush=True)


async def share(url: str, resource: str, terms: Terms, out: TextIO) -> None:
    """Be busy until SIGTERM."""
    done = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, done.set)
    speaking, leases = Speaking(out), await asyncio.to_thread(open_leases, url, resource)
    limiter = SharedResource(
        leases,
        terms.shared,
        factor=terms.factor,
        reserved=terms.reserved,
        lease=timedelta(milliseconds=terms.lease_ms),
    )
    limiter.events.add_listener(speaking.on_limiter)
    flush = timedelta(seconds=FLUSH_S)
    dispatcher = Dispatcher(limiter, buffer=ALWAYS, flush_interval=flush, emit_batch=True, clock=speaking.clock)
    dispatcher.events.add_listener(speaking.on_dispatcher)
    await dispatcher.start()
    busy = asyncio.ensure_future(_be_busy(dispatcher))
    await done.wait()
    busy.cancel()
    await dispatcher.stop(timedelta(0))
    leases.close()


async def _be_busy(dispatcher: Dispatcher) -> None:
    watcher = Watcher(lambda _: asyncio.sleep(0))
    while True:
        await dispatcher.enqueue_many([Operation(watcher, COST, batchable=True) for _ in range(100)])


def main(url: str, resource: str, *terms: str) -> None:
    """Be an instance."""
    asyncio.run(share(url, resource, Terms(*map(int, terms)), sys.stdout))


if __name__ == "__main__":
    main(*sys.argv[1:])
