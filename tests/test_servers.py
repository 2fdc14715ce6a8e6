"""The servers that tests talk to: each does its work, is started once, and is gone when the run is."""

from __future__ import annotations

import os
import queue
import select
import signal
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.servers.ask import RUN, ask, begin, end, keeper_pid, run
from tests.servers.database import connect_mariadb, fresh_mariadb, fresh_postgresql
from tests.servers.launch import reachable
from tests.servers.server import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from paho.mqtt.client import MQTTMessage

#: Each server with the name of its process.
PROCESSES = {
    "postgresql": "postgres",
    "mariadb": "mariadbd",
    "redis": "redis-server",
    "mosquitto": "mosquitto",
    "azurite": "node",
    "kafka": "java",
}
all_servers = pytest.mark.usefixtures(*(f"{name}_url" for name in PROCESSES))
PATIENCE_S = 60.0


def test_postgresql_stores_a_row(postgresql_database: str) -> None:
    import psycopg

    with psycopg.connect(postgresql_database) as connection:
        connection.execute("CREATE TABLE reading (value integer)")
        connection.execute("INSERT INTO reading VALUES (42)")
        assert connection.execute("SELECT value FROM reading FOR UPDATE SKIP LOCKED").fetchall() == [(42,)]


def test_a_postgresql_database_is_dropped_despite_an_open_transaction(postgresql_url: str) -> None:
    import psycopg

    with fresh_postgresql(postgresql_url) as url:
        forgotten = psycopg.connect(url)
        forgotten.execute("CREATE TABLE reading (value integer)")
    with forgotten, pytest.raises(psycopg.OperationalError):
        forgotten.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)


def test_mariadb_stores_a_row(mariadb_database: str) -> None:
    with closing(connect_mariadb(mariadb_database)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE reading (value integer)")
        cursor.execute("INSERT INTO reading VALUES (42)")
        cursor.execute("SELECT value FROM reading FOR UPDATE SKIP LOCKED")
        assert cursor.fetchall() == ((42,),)


def test_a_mariadb_database_is_dropped_despite_an_open_transaction(mariadb_url: str) -> None:
    import pymysql

    with fresh_mariadb(mariadb_url) as url:
        forgotten = connect_mariadb(url)
        with forgotten.cursor() as cursor:
            cursor.execute("CREATE TABLE reading (value integer)")
            cursor.execute("INSERT INTO reading VALUES (42)")
    with pytest.raises(pymysql.OperationalError):
        forgotten.ping(reconnect=False)
    with pytest.raises(pymysql.OperationalError, match="Unknown database"):
        connect_mariadb(url)


def test_redis_keeps_a_key_for_the_first_who_sets_it(redis_url: str) -> None:
    import redis

    key = uuid.uuid4().hex
    with redis.Redis.from_url(redis_url) as client:
        assert client.set(key, "first", nx=True, px=60_000)
        assert not client.set(key, "second", nx=True, px=60_000)
        assert client.get(key) == b"first"


def test_mosquitto_delivers_what_was_published_with_qos_1(mosquitto_url: str) -> None:
    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion

    topic = f"test/{uuid.uuid4().hex}"
    subscribed: queue.Queue[object] = queue.Queue()
    received: queue.Queue[MQTTMessage] = queue.Queue()
    client = Client(CallbackAPIVersion.VERSION2)
    client.on_subscribe = lambda *arguments: subscribed.put(arguments)
    client.on_message = lambda _client, _data, message: received.put(message)
    url = urlsplit(mosquitto_url)
    client.connect(str(url.hostname), url.port or 0)
    client.loop_start()
    try:
        client.subscribe(topic, qos=1)
        subscribed.get(timeout=PATIENCE_S)
        client.publish(topic, b"42", qos=1).wait_for_publish(PATIENCE_S)
        message = received.get(timeout=PATIENCE_S)
    finally:
        client.disconnect()
        client.loop_stop()
    assert (message.topic, message.payload, message.qos) == (topic, b"42", 1)


def test_azurite_lets_one_at_a_time_lease_a_blob(azurite_url: str) -> None:
    from azure.core.exceptions import ResourceExistsError
    from azure.storage.blob import BlobServiceClient

    with BlobServiceClient.from_connection_string(azurite_url) as service:
        container = service.create_container(f"test-{uuid.uuid4().hex}")
        blob = container.upload_blob("reading", b"42")
        assert blob.download_blob().readall() == b"42"
        lease = blob.acquire_lease(15)
        with pytest.raises(ResourceExistsError, match="LeaseAlreadyPresent"):
            blob.acquire_lease(15)
        lease.release()
        blob.acquire_lease(15).release()


def test_kafka_keeps_a_record_and_the_moment_it_came(kafka_url: str) -> None:
    from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME

    from tests.servers.topics import new_topic, put_records, records_of

    topic = new_topic(kafka_url)
    put_records(kafka_url, topic, [(b"reading", b"42")])
    (record,) = records_of(kafka_url, topic)
    assert (record.key(), record.value(), record.timestamp()[0]) == (b"reading", b"42", TIMESTAMP_LOG_APPEND_TIME)


@all_servers
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give up")
def test_no_server_runs_as_root() -> None:
    users = {command(pid): Path(f"/proc/{pid}").stat().st_uid for pid in children(keeper_pid())}
    # Azurite and Kafka are part of the checkout, and root's where nobody else may look into that.
    checked = set(PROCESSES.values()) - (set() if reachable(REPOSITORY / "build") else {"node", "java"})
    assert {name for name in checked if users[name] == 0} == set()


@pytest.fixture
def own_run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of a run of this test's own, beside the run that all tests share."""
    monkeypatch.setenv(RUN, "")
    begin()
    yield run()[1]
    end()


ASK_FROM_THREADS = """
from concurrent.futures import ThreadPoolExecutor
from tests.servers.ask import ask
with ThreadPoolExecutor(4) as threads:
    print(*set(threads.map(ask, ["redis"] * 4)))
"""


@pytest.mark.usefixtures("redis_url")
def test_many_who_ask_at_once_get_one_server(own_run: Path) -> None:
    assert not own_run.exists(), "nothing is there before somebody asks"
    with ThreadPoolExecutor(6) as threads:
        processes = [threads.submit(python, ASK_FROM_THREADS) for _ in range(3)]
        urls = {*threads.map(ask, ["redis"] * 3), *(process.result().strip() for process in processes)}
    assert len(urls) == 1
    assert [command(pid) for pid in descendants(keeper_pid())].count("redis-server") == 1


@pytest.mark.usefixtures("redis_url")
def test_after_the_end_of_a_run_nothing_is_left(own_run: Path) -> None:
    ask("redis")
    with watched(keeper_pid()) as ended:
        end()
        ended()
    assert not own_run.exists()


CONTROLLER = f"""
import sys
from concurrent.futures import ThreadPoolExecutor
from tests.servers.ask import ask, begin, keeper_pid, run
begin()
with ThreadPoolExecutor() as threads:
    list(threads.map(ask, {list(PROCESSES)}))
print(keeper_pid(), run()[1], flush=True)
sys.stdin.read()
"""


@all_servers
@pytest.mark.parametrize("victim", ["controller", "keeper"])
def test_nothing_is_left_when_a_process_is_killed(victim: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CONTROLLER], cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as controller:
        assert controller.stdout is not None
        keeper, home = controller.stdout.readline().split()
        with watched(int(keeper)) as ended:
            assert {command(pid) for pid in descendants(int(keeper))} >= set(PROCESSES.values())
            os.kill(controller.pid if victim == "controller" else int(keeper), signal.SIGKILL)
            ended()
        controller.kill()
    assert not Path(home).exists()


LAUNCH = """
import asyncio, os, shutil, tempfile
from pathlib import Path
from tests.servers.kinds import Redis
from tests.servers.launch import Launch, common_directory, hold_port

def launch(server, hold=hold_port):
    home = Path(tempfile.mkdtemp(dir=common_directory()))
    home.chmod(0o711)
    try:
        return asyncio.run(Launch(server, home, os.open(os.devnull, os.O_RDONLY), hold).run())
    finally:
        shutil.rmtree(home)
"""
PORT_TAKEN = """
taken = hold_port()
taken.listen()
offers = iter([taken, hold_port()])
print(taken.getsockname()[1], launch(Redis(), lambda: next(offers)))
"""
BROKEN = """
class Broken(Redis):
    def command(self, home, port):
        return [*super().command(home, port), "--no-such-setting", "1"]

launch(Broken())
"""


@pytest.mark.usefixtures("redis_url")
def test_a_server_whose_port_was_taken_gets_another() -> None:
    taken, url = python(LAUNCH + PORT_TAKEN).split()
    assert url.startswith("redis://127.0.0.1:")
    assert urlsplit(url).port != int(taken)


@pytest.mark.usefixtures("redis_url")
def test_a_server_that_does_not_start_tells_its_log() -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        python(LAUNCH + BROKEN)
    assert "redis ended with 1 before it was ready" in failed.value.stderr
    assert "no-such-setting" in failed.value.stderr


@pytest.mark.parametrize(("ci", "outcome"), [("", "1 skipped"), ("true", "1 error")])
def test_without_its_program_a_test_is_skipped_but_fails_in_ci(ci: str, outcome: str, tmp_path: Path) -> None:
    this = f"{__file__}::{test_redis_keeps_a_key_for_the_first_who_sets_it.__name__}"
    options = ["-p", "no:xdist", "-p", "no:cacheprovider", "--color=no"]
    pytest_run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, this],
        cwd=REPOSITORY,
        env={**os.environ, "PATH": str(tmp_path), "CI": ci},
        capture_output=True,
        text=True,
    )
    assert outcome in pytest_run.stdout
    assert "redis needs redis-server, not installed here: run scripts/servers.sh" in pytest_run.stdout
    assert bool(pytest_run.returncode) == bool(ci)


def python(script: str) -> str:
    """Run a script in a process of its own and return what it prints."""
    command = [sys.executable, "-c", script]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout


def descendants(pid: int) -> list[int]:
    """Return the pids of all processes below `pid`."""
    return [below for child in children(pid) for below in (child, *descendants(child))]


def children(pid: int) -> list[int]:
    """Return the pids of the processes that `pid` has started."""
    return [int(child) for file in Path(f"/proc/{pid}").glob("task/*/children") for child in words(file)]


def command(pid: int) -> str:
    """Return the name a process was started by; servers rewrite the rest ("postgres: checkpointer")."""
    name = next(iter(words(Path(f"/proc/{pid}/cmdline"))), "")
    return Path(name).name.rstrip(":")


def words(file: Path) -> list[str]:
    """Return what a file of /proc says; nothing once the process has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return file.read_text().replace("\0", " ").split()
    return []


@contextmanager
def watched(pid: int) -> Iterator[Callable[[], None]]:
    """Yield what waits until `pid` and all that is below it now have ended, and fails if they do not."""
    with ExitStack() as stack:
        ends = {}
        for watched_pid in (pid, *descendants(pid)):
            with suppress(ProcessLookupError):  # a server's helper that ended just now
                ends[watched_pid] = os.pidfd_open(watched_pid)
                stack.callback(os.close, ends[watched_pid])

        def ended() -> None:
            for watched_pid, descriptor in ends.items():
                assert select.select([descriptor], [], [], PATIENCE_S)[0], f"process {watched_pid} is still there"

        yield ended
