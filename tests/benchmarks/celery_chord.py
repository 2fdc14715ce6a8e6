"""Peer of the tracker: a Celery chord on Redis, with a real worker of two processes.

    chord of N no-op tasks ──▶ Redis, the broker ──▶ worker, 2 processes ──▶ Redis, the results ──▶ callback, once

Celery runs the tasks as well, so what it completes in a second is not its bookkeeping alone. Beside it stand the same
tasks with no chord and no results: the difference is what the chord's own bookkeeping costs.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any

import redis
from celery import Celery, chord, exceptions, group

from tests.benchmarks.measure import once
from tests.servers.ask import ask
from tests.servers.launch import die_with_keeper
from tests.servers.server import REPOSITORY, ServerFailedError

__all__ = ["ChordCost", "measure_chord"]

#: Where the worker is told the address of Redis.
ADDRESS = "BATCHLINE_BENCH_REDIS"
QUEUE = "celery"
LIMIT_S = 120
START_S = 30
STOP_S = 10

app: Any = Celery("tests.benchmarks.celery_chord")
app.conf.update(
    broker_url=os.environ.get(ADDRESS),
    result_backend=os.environ.get(ADDRESS),
    broker_connection_retry_on_startup=True,
    # The default of 4 is for tasks that take long; these take nothing.
    worker_prefetch_multiplier=64,
    worker_hijack_root_logger=False,
)


@app.task  # type: ignore[untyped-decorator] # Celery has no types
def nothing(_number: int) -> None:
    """Do nothing: the header of the chord."""


@app.task  # type: ignore[untyped-decorator] # as above
def finish(_results: Any = None) -> str:
    """Be the callback."""
    return "finished"


@dataclass(frozen=True)
class ChordCost:
    """What a chord of so many tasks cost; bytes are of Redis's keys, for each task."""

    tasks: int
    sent_s: float
    done_s: float
    plain_s: float
    bytes_sent: float
    bytes_done: float


def measure_chord(tasks: int) -> ChordCost:
    """Run a chord, and the same tasks without one; the worker does not begin before all are sent."""
    address = ask("redis")
    app.conf.update(broker_url=address, result_backend=address)
    with contextlib.closing(redis.Redis.from_url(address)) as server, worker(address):
        run_chord(100)  # warms both processes up
        before = memory(server)
        sent_s, sent, done_s = run_chord(tasks, lambda: memory(server))
        done = memory(server)
        plain_s = run_plain(tasks)
        server.flushdb()
    app.close()
    return ChordCost(tasks, sent_s, done_s, plain_s, (sent - before) / tasks, (done - before) / tasks)


def run_chord(tasks: int, look: Callable[[], int] = lambda: 0) -> tuple[float, int, float]:
    """Return the seconds to send all, what `look` saw then, and the seconds from then until the callback has run."""
    waiting: list[Any] = []
    with paused():
        header = group(nothing.s(number) for number in range(tasks))
        sent_s = once(lambda: waiting.append(chord(header)(finish.s())))
        seen = look()
    return sent_s, seen, once(lambda: resume_until(waiting[0]))


def run_plain(tasks: int) -> float:
    """Return the seconds of the tasks alone; one more, the last in the queue, tells the end."""
    with paused():
        for number in range(tasks):
            nothing.apply_async((number,), ignore_result=True)
        last = finish.delay()
    return once(lambda: resume_until(last))


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Keep the worker from taking tasks; it goes on in `resume_until`."""
    app.control.cancel_consumer(QUEUE, reply=True, timeout=STOP_S, limit=1)
    yield


def resume_until(result: Any) -> None:
    """Let the worker work until the result is there."""
    app.control.add_consumer(QUEUE)
    # Not propagating: else this very process asks Redis again and again for each task of the header.
    assert result.get(timeout=LIMIT_S, propagate=False) == "finished"


def memory(server: Any) -> int:
    """Return the bytes of all keys in Redis, without the buffers of its clients, which come and go."""
    return sum(server.memory_usage(key, samples=0) or 0 for key in server.scan_iter(count=1_000))


@contextlib.contextmanager
def worker(address: str) -> Iterator[None]:
    """Run a worker of two processes, in a session of its own, which ends with this process at the latest."""
    command = [sys.executable, "-m", "celery", "--quiet", "-A", "tests.benchmarks.celery_chord", "worker"]
    options = ["--concurrency=2", "--loglevel=ERROR", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*command, *options],
            cwd=REPOSITORY,
            env={**os.environ, ADDRESS: address},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=die_with_keeper(signal.SIGTERM),
        )
        try:
            await_first(process, log)
            yield
        finally:
            stop(process)


def await_first(process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    """Wait until the worker has done a task; raises with its last words if it does not."""
    try:
        finish.delay().get(timeout=START_S)
    except exceptions.TimeoutError:
        log.seek(0)
        said = log.read().decode(errors="replace")[-2_000:]
        raise ServerFailedError(f"the Celery worker did nothing in {START_S} s ({process.poll()}):\n{said}") from None


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask the worker to end, then make its whole session end."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
