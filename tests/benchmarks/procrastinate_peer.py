"""Peer of the timeline: procrastinate, by the calls that its own worker and its users make.

It creates in bulk, but leases and finishes one by one: a call for 500 is 500 calls of it. They are coroutines only, so
each thread has an event loop, an app and a connection of its own.
"""

import asyncio
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from queue import LifoQueue
from typing import Any

import psycopg
from procrastinate import App, PsycopgConnector
from procrastinate.jobs import Job, Status

from tests.benchmarks.timeline_tables import CONNECTIONS, HOUR_MS, YEAR_MS, settle

__all__ = ["Procrastinate"]


class Worker:
    """One thread's share: an app with one connection, registered as a worker."""

    def __init__(self, url: str):
        # Without autocommit it begins and commits around its one statement: two more round trips.
        connector = PsycopgConnector(conninfo=url, min_size=1, max_size=1, kwargs={"autocommit": True})
        self.app = App(connector=connector)
        self._handle = self.app.task(name="handle", queue="bench")(_handle)
        self._id = 0

    async def open(self) -> None:
        """Connect and register."""
        await self.app.open_async()
        self._id = await self.app.job_manager.register_worker()

    async def create(self, bodies: Sequence[bytes]) -> None:
        """Defer a batch; arguments are JSON, which has no bytes."""
        arguments: list[dict[str, Any]] = [{"body": b64encode(body).decode()} for body in bodies]
        await self._handle.batch_defer_async(*arguments)

    async def create_at(self, moments_ms: Sequence[int]) -> None:
        """Defer one by one, each with a moment."""
        for ms in moments_ms:
            due = datetime.fromtimestamp(ms / 1000, UTC)
            await self._handle.configure(schedule_at=due).defer_async(body="x" * 100)

    async def lease(self, limit: int) -> list[Job]:
        """Fetch jobs until there are so many, or none is left."""
        jobs: list[Job] = []
        while len(jobs) < limit and (job := await self.app.job_manager.fetch_job(["bench"], self._id)):
            jobs.append(job)
        return jobs

    async def done(self, jobs: Sequence[Job]) -> int:
        """Finish jobs and have them deleted; raises if one was not there."""
        for job in jobs:
            await self.app.job_manager.finish_job(job, Status.SUCCEEDED, delete_job=True)
        return len(jobs)


def _handle(body: str) -> None:
    """Be the task; nobody runs it here."""


def _close(runner: asyncio.Runner, worker: Worker) -> None:
    runner.run(worker.app.close_async())


class Procrastinate:
    """procrastinate. Every call has a worker to itself; the one that was used last, if it can."""

    def __init__(self, url: str):
        self._url = url
        self._open = ExitStack()
        self._workers: LifoQueue[tuple[asyncio.Runner, Worker]] = LifoQueue()
        with psycopg.connect(url) as connection:
            connection.execute(App(connector=PsycopgConnector()).schema_manager.get_schema())
        for _ in range(CONNECTIONS):
            runner, worker = self._open.enter_context(asyncio.Runner()), Worker(url)
            runner.run(worker.open())
            self._open.callback(_close, runner, worker)
            self._workers.put((runner, worker))

    def create(self, bodies: Sequence[bytes]) -> None:
        """Defer a batch."""
        with self._worker() as (runner, worker):
            runner.run(worker.create(bodies))

    def create_at(self, moments_ms: Sequence[int]) -> None:
        """Defer one by one."""
        with self._worker() as (runner, worker):
            runner.run(worker.create_at(moments_ms))

    def preload(self, count: int) -> None:
        """Insert into its table without its triggers: two notifications and two events a row, of no use to a lease."""
        due = f"now() + interval '{HOUR_MS} ms' + random() * interval '{YEAR_MS - HOUR_MS} ms'"
        body = "jsonb_build_object('body', repeat('x', 100))"
        rows = f"SELECT 'bench', 'handle', {body}, {due} FROM generate_series(1, {count})"
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute("SET session_replication_role = replica")
            insert = f"INSERT INTO procrastinate_jobs (queue_name, task_name, args, scheduled_at) {rows}"
            connection.execute(insert.encode())
        settle(self._url)

    def lease(self, limit: int) -> Sequence[Job]:
        """Fetch jobs, one by one."""
        with self._worker() as (runner, worker):
            return runner.run(worker.lease(limit))

    def done(self, tokens: Sequence[Job]) -> int:
        """Finish jobs, one by one."""
        with self._worker() as (runner, worker):
            return runner.run(worker.done(tokens))

    def close(self) -> None:
        """Close the connections of all threads."""
        self._open.close()

    @contextmanager
    def _worker(self) -> Iterator[tuple[asyncio.Runner, Worker]]:
        worker = self._workers.get()
        try:
            yield worker
        finally:
            self._workers.put(worker)
