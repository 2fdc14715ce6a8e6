"""A Spark cluster of three processes: `python -m tests.servers.spark_cluster HOME PORT JAVA_HOME`.

    keeper ──starts──▶ this ──starts──▶ master on 127.0.0.2:PORT ◀──register── two workers ──start──▶ executors

Who connects to 127.0.0.1:PORT is told "ready", and nobody can before both workers have registered: the master itself
answers before it has any. So the master, whose port must be known beforehand too, has another address of loopback.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pyspark

from tests.servers.launch import die_with_keeper
from tests.servers.quick_java import quick_spark
from tests.servers.server import ServerFailedError

WORKERS = 2
CORES = "1"
MEMORY = "1g"
MASTER_HOST = "127.0.0.2"
READY = b"ready\n"
STOP_S = 3.0
#: What each says, in its log, when it has come so far.
LEADS, REGISTERED = b"New state: ALIVE", b"Successfully registered with master"
SPARK_HOME = Path(pyspark.__file__).parent
#: Daemons that only pass messages: small, and quick to start. A port that is taken is an error, not the next port; the
#: port of the REST server is a fixed one, so there is none.
DAEMON = {
    "SPARK_DAEMON_MEMORY": "192m",
    "SPARK_DAEMON_JAVA_OPTS": f"{quick_spark()} -Dspark.port.maxRetries=0 -Dspark.master.rest.enabled=false",
}


class Cluster:
    """The processes, and where they write."""

    def __init__(self, home: Path, port: int, java_home: str):
        self.url = f"spark://{MASTER_HOST}:{port}"
        self._home = home
        self._port = str(port)
        own = {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_DIRS": str(home), "JAVA_HOME": java_home}
        self._environment = {**os.environ, **DAEMON, **own}
        self._processes: list[asyncio.subprocess.Process] = []
        self._logs: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start the master, then the workers; returns when they have found each other."""
        address = ["--host", MASTER_HOST, "--port", self._port, "--webui-port", "0"]
        await self._spawn(LEADS, "org.apache.spark.deploy.master.Master", *address)
        await asyncio.gather(*(self._start_worker(number) for number in range(WORKERS)))

    async def _start_worker(self, number: int) -> None:
        size = ["--cores", CORES, "--memory", MEMORY, "--work-dir", str(self._home / f"worker-{number}")]
        address = ["--host", "127.0.0.1", "--webui-port", "0"]
        await self._spawn(REGISTERED, "org.apache.spark.deploy.worker.Worker", *address, *size, self.url)

    async def _spawn(self, sign: bytes, *command: str) -> None:
        """Start one; returns when its log has the sign. The log goes on into ours."""
        process = await asyncio.create_subprocess_exec(
            str(SPARK_HOME / "bin" / "spark-class"),
            *command,
            env=self._environment,
            cwd=self._home,
            stderr=asyncio.subprocess.PIPE,
            preexec_fn=die_with_keeper(signal.SIGKILL),
        )
        seen = asyncio.Event()
        log = asyncio.create_task(copy_log(process, sign, seen))
        self._processes.append(process)
        self._logs.append(log)
        await first_of(log, seen)
        if not seen.is_set():
            raise ServerFailedError(f"{command[0]} ended before it said {sign.decode()!r}")

    async def ended(self) -> None:
        """Wait until one of the processes has ended: then the cluster is none any more."""
        await asyncio.wait(self._logs, return_when=asyncio.FIRST_COMPLETED)

    async def stop(self) -> None:
        """Stop the processes; a worker stops its executors."""
        for process in self._processes:
            with suppress(ProcessLookupError):
                process.terminate()
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*(process.wait() for process in self._processes)), STOP_S)


async def copy_log(process: asyncio.subprocess.Process, sign: bytes, seen: asyncio.Event) -> None:
    """Copy a log until its end, and tell when the sign has come."""
    assert process.stderr is not None
    async for line in process.stderr:
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()
        if sign in line:
            seen.set()


async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Tell whoever connects that the cluster is there."""
    writer.write(READY)
    writer.close()


async def serve(cluster: Cluster, port: int, over: asyncio.Event) -> None:
    """Start the cluster and say so to who asks, until it is over or a process ends."""
    try:
        starting = asyncio.create_task(cluster.start())
        await first_of(starting, over)
        if starting.done():
            starting.result()
            async with await asyncio.start_server(answer, "127.0.0.1", port):
                await first_of(asyncio.create_task(cluster.ended()), over)
    finally:
        await cluster.stop()


async def first_of(task: asyncio.Task[None], event: asyncio.Event) -> None:
    """Wait until the task is done or the event has come."""
    came = asyncio.create_task(event.wait())
    await asyncio.wait([task, came], return_when=asyncio.FIRST_COMPLETED)
    came.cancel()


async def run(home: Path, port: int, java_home: str) -> None:
    """Be the cluster until a signal comes."""
    over = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    await serve(Cluster(home, port, java_home), port, over)


if __name__ == "__main__":
    try:
        asyncio.run(run(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
    except ServerFailedError as error:
        sys.exit(str(error))
    finally:
        # Executors that their worker did not stop are in our process group, and so are we.
        sys.stderr.flush()
        os.killpg(os.getpgrp(), signal.SIGKILL)
