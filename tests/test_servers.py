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
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.servers.ask import RUN, ask, begin, end, keeper_pid, run
from tests.servers.server import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator

ALL = ("postgresql", "mariadb", "redis", "mosquitto", "azurite")
PATIENCE_S = 60


def test_postgresql_gives_each_test_a_database_of_its_own(postgresql_url: str, postgresql_database: str) -> None:
    import psycopg

    assert postgresql_database.rpartition("/")[0] == postgresql_url.rpartition("/")[0]
    with psycopg.connect(postgresql_database) as connection:
        connection.execute("CREATE TABLE reading (value integer)")
        connection.execute("INSERT INTO reading VALUES (42)")
        assert connection.execute("SELECT value FROM reading FOR UPDATE SKIP LOCKED").fetchall() == [(42,)]


def test_a_postgresql_database_is_dropped_though_a_connection_stays(
    request: pytest.FixtureRequest, postgresql_url: str
) -> None:
    import psycopg

    with psycopg.connect(postgresql_url) as connection:
        before = connection.execute("SELECT count(*) FROM pg_database").fetchone()
        assert before is not None
    url = request.getfixturevalue("postgresql_database")
    # Its end is the fixture's to bring about; what stays open here is closed by the server.
    lingering = psycopg.connect(url)
    request.addfinalizer(lingering.close)
    lingering.execute("SELECT 1")


def test_mariadb_gives_each_test_a_database_of_its_own(mariadb_database: str) -> None:
    import pymysql

    url = urlsplit(mariadb_database)
    assert (url.scheme, url.username) == ("mysql", "root")
    with (
        closing(pymysql.connect(host=url.hostname, port=url.port or 0, user="root", database=url.path[1:])) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("CREATE TABLE reading (value integer)")
        cursor.execute("INSERT INTO reading VALUES (42)")
        cursor.execute("SELECT value FROM reading FOR UPDATE SKIP LOCKED")
        assert cursor.fetchall() == ((42,),)


def test_redis_keeps_a_key_for_the_first_who_sets_it(redis_url: str) -> None:
    import redis

    key = uuid.uuid4().hex
    with redis.Redis.from_url(redis_url) as client:
        assert client.set(key, "first", nx=True, px=60_000)
        assert not client.set(key, "second", nx=True, px=60_000)
        assert client.get(key) == b"first"


def test_mosquitto_delivers_what_was_published_with_qos_1(mosquitto_url: str) -> None:
    from paho.mqtt.client import Client, MQTTMessage
    from paho.mqtt.enums import CallbackAPIVersion

    topic = f"test/{uuid.uuid4().hex}"
    subscribed: queue.Queue[None] = queue.Queue()
    received: queue.Queue[MQTTMessage] = queue.Queue()
    client = Client(CallbackAPIVersion.VERSION2)
    client.on_subscribe = lambda *_: subscribed.put(None)
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


@pytest.fixture
def fresh_run(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A run of this test's own, beside the one that the whole test session shares."""
    monkeypatch.setenv(RUN, "")
    begin()
    yield
    end()


ASK_FROM_THREADS = """
from concurrent.futures import ThreadPoolExecutor
from tests.servers.ask import ask
with ThreadPoolExecutor(4) as threads:
    print(*set(threads.map(ask, ["redis"] * 4)))
"""


@pytest.mark.usefixtures("redis_url", "fresh_run")
def test_many_who_ask_at_once_get_one_server() -> None:
    _, home = run()
    assert not home.exists(), "nothing is there before somebody asks"
    with ThreadPoolExecutor(6) as threads:
        scripts = [threads.submit(script, ASK_FROM_THREADS) for _ in range(3)]
        urls = {*threads.map(ask, ["redis"] * 3), *(asked.result().strip() for asked in scripts)}
    assert len(urls) == 1
    assert [command(pid) for pid in descendants(keeper_pid())].count("redis-server") == 1
    assert len([pid for pid in processes() if str(home) in arguments(pid) and "tests.servers.keeper" in arguments(pid)]) == 1


@pytest.mark.usefixtures("redis_url", "fresh_run")
def test_after_the_end_of_a_run_nothing_is_left() -> None:
    ask("redis")
    with watched(keeper_pid()) as ended:
        end()
        ended()
    assert not run()[1].exists()


CONTROLLER = """
import sys
from concurrent.futures import ThreadPoolExecutor
from tests.servers.ask import ask, begin, keeper_pid, run
begin()
with ThreadPoolExecutor() as threads:
    list(threads.map(ask, sys.argv[1:]))
print(keeper_pid(), run()[1], flush=True)
sys.stdin.read()
"""


@pytest.mark.usefixtures("postgresql_url", "mariadb_url", "redis_url", "mosquitto_url", "azurite_url")
@pytest.mark.parametrize("killed", ["controller", "keeper"])
def test_nothing_is_left_when_a_process_is_killed(killed: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, *ALL], cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as controller:
        assert controller.stdout is not None
        keeper, home = controller.stdout.readline().split()
        with watched(int(keeper)) as ended:
            assert {command(pid) for pid in descendants(int(keeper))} >= {"postgres", "mariadbd", "redis-server", "mosquitto"}
            os.kill(controller.pid if killed == "controller" else int(keeper), signal.SIGKILL)
            ended()
        controller.kill()
    assert not Path(home).exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give up")
@pytest.mark.usefixtures("postgresql_url", "mariadb_url", "redis_url", "mosquitto_url")
def test_no_server_runs_as_root() -> None:
    servers = [pid for pid in descendants(keeper_pid()) if command(pid) in {"postgres", "mariadbd", "redis-server", "mosquitto"}]
    assert {Path(f"/proc/{pid}").stat().st_uid for pid in servers} == {65534}


ANOTHER_PORT = """
import asyncio, os, socket, tempfile
from pathlib import Path
from tests.servers.kinds import KINDS
from tests.servers.launch import Launch, hold_port

home = Path(tempfile.mkdtemp())
home.chmod(0o711)
taken = hold_port()
taken.listen()
print(taken.getsockname()[1])
offers = iter([taken, hold_port()])
launch = Launch(KINDS["redis"], home, os.open(os.devnull, os.O_RDONLY), hold=lambda: next(offers))
print(asyncio.run(launch.run()))
"""
