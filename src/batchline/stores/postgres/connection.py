"""A connection to PostgreSQL with deadlines: psycopg and libpq would wait for an answer for ever."""

import math
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import psycopg
from psycopg.generators import send

from batchline.runtime.clock import elapsed_seconds

__all__ = ["PostgresConnection"]

T = TypeVar("T")
#: What a migration is not limited by. A client that is frozen within it is: its locks stop everybody.
LIMITS: Final = ("lock_timeout", "statement_timeout")
Waiting = Generator[Any, Any, T]


class SyncedPipeline(psycopg.Pipeline):
    """Sends each statement in one piece with a Sync.

    After a statement without Sync, the server's backend waits within a message. There no deadline runs, not even
    `idle_in_transaction_session_timeout`: the locks of a client that is frozen at that moment would stay.
    """

    def _enqueue_sync(self) -> None:
        """Do nothing: whatever was sent has its Sync."""

    def _communicate_gen(self) -> Waiting[None]:
        commands = self.command_queue
        if commands:
            super()._enqueue_sync()
            together = tuple(commands)
            commands.clear()
            # psycopg would send what there is before it calls the next.
            commands.append(lambda: _call_all(together))
        yield from super()._communicate_gen()
        # psycopg leaves here what the socket does not take at once. The server would wait for the rest of a large
        # statement, and the client for its answer.
        yield from send(self.pgconn)


def _call_all(commands: Iterable[Callable[[], None]]) -> None:
    for command in commands:
        command()


class PostgresConnection(psycopg.Connection[Any]):
    """Closes itself when nothing arrives and nothing can be sent for `timeout_s`, and at the end of an attempt."""

    timeout_s: float = math.inf
    _ends_s: float = math.inf

    def end_within(self, seconds: float) -> None:
        """Set the deadline of all that is done until this is called again."""
        self._ends_s = elapsed_seconds() + seconds

    @contextmanager
    def unhurried(self) -> Iterator[None]:
        """Within it, wait as long as it takes: for a migration, and for others that migrate."""
        timeout_s = self.timeout_s
        self.timeout_s = self._ends_s = math.inf
        for name in LIMITS:
            self.execute(f"SET {name} = 0".encode())
        try:
            yield
        finally:
            with suppress(psycopg.Error):  # it is lost
                if self.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                    self.execute("ROLLBACK")
                for name in LIMITS:
                    self.execute(f"RESET {name}".encode())
            self.timeout_s = timeout_s

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Within it, statements need not be answered before the next is sent."""
        failed: BaseException | None = None
        pid = os.getpid()
        try:
            # Otherwise psycopg makes a pipeline of its own kind.
            self._pipeline = SyncedPipeline(self)
            with self.pipeline():
                try:
                    yield
                except BaseException as error:  # noqa: BLE001 - raised below: psycopg would log what follows from it
                    failed = error
                finally:
                    if os.getpid() != pid:
                        self._let_go()
        except psycopg.Error:
            if failed is None:
                raise
        if failed is not None:
            raise failed

    def _let_go(self) -> None:
        """In a child that was forked within, say nothing to the parent's server, which psycopg would."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, self.fileno(), inheritable=False)
        os.close(nowhere)

    def receive(self) -> None:
        """Receive the answers to all that was sent."""
        if self._pipeline is not None:
            self._pipeline.sync()

    def wait(self, gen: Waiting[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """Run what psycopg waits for, within the deadlines."""
        return super().wait(self._within_deadlines(gen), interval, timeout)

    def _within_deadlines(self, gen: Waiting[T]) -> Waiting[T]:
        """Pass on what a generator waits for. psycopg resumes it every 0.1 s, whether or not the socket is ready."""
        # The clock is read only when nothing has arrived for that long: most answers come sooner.
        ends_s: float | None = None
        ready: Any = None
        try:
            while True:
                ready = yield gen.send(ready)
                if ready:  # a large answer on a slow network takes longer than one timeout
                    ends_s = None
                elif ends_s is None:
                    ends_s = min(elapsed_seconds() + self.timeout_s, self._ends_s)
                elif elapsed_seconds() > ends_s:
                    gen.close()
                    self.pgconn.finish()
                    raise psycopg.OperationalError("the server has not answered in time")
        except StopIteration as end:
            answer: T = end.value
            return answer
