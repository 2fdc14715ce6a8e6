"""The servers there are. Everything that makes data survive a power cut is off: it is thrown away with the run."""

from __future__ import annotations

import base64
import os
import re
import signal
import struct
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar

from batchline.spark.java import java_home
from tests.servers.quick_java import quick_java
from tests.servers.server import REPOSITORY, ProgramMissingError, Server, program_path

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class PostgreSQL(Server):
    """PostgreSQL; the superuser `app` needs no password."""

    name = "postgresql"
    programs: ClassVar = {"initdb": "postgresql", "postgres": "postgresql"}
    # A start-up message; "R" begins the answer only once the database is up ("E" before).
    hello = struct.pack("!ii", 36, 3 << 16) + b"user\0app\0database\0postgres\0\0"
    welcome = re.compile(rb"R")
    # Immediate shutdown. Not SIGKILL: only the postmaster itself ends its busy backends and frees its shared memory.
    stop_signal = orphan_signal = signal.SIGQUIT

    def prepare(self, home: Path) -> Sequence[str]:
        """Make the cluster."""
        options = ["--username=app", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
        return [program_path("initdb"), f"--pgdata={home / 'data'}", *options]

    def command(self, home: Path, port: int) -> Sequence[str]:
        """Listen on the port only; no socket file, whose path could be too long."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            "synchronous_commit": "off",
            "full_page_writes": "off",
            "max_connections": "200",
            # In a file of ours, not in /dev/shm, where a kill -9 would leave it.
            "dynamic_shared_memory_type": "mmap",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [program_path("postgres"), "-D", str(home / "data"), "-p", str(port), *options]

    def url(self, port: int) -> str:
        """Return the address of the database that is always there."""
        return f"postgresql://app@127.0.0.1:{port}/postgres"


class MariaDB(Server):
    """MariaDB; `root` needs no password."""

    name = "mariadb"
    programs: ClassVar = {
        "mariadbd": "mariadb-server-core",
        "mariadb-install-db": "mariadb-server-core",
        "my_print_defaults": "mariadb-client-core",
    }
    # The server speaks first: a packet that begins with protocol version 10 (255 would be an error).
    hello = b""
    welcome = re.compile(rb".{3}\0\x0a", re.DOTALL)

    def prepare(self, home: Path) -> Sequence[str]:
        """Make the system tables."""
        options = ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
        return [program_path("mariadb-install-db"), "--no-defaults", f"--datadir={home / 'data'}", *options]

    def command(self, home: Path, port: int) -> Sequence[str]:
        """Listen on the port; socket and pid file are relative to the data directory."""
        address = [f"--port={port}", "--bind-address=127.0.0.1", "--socket=s.sock", "--pid-file=p.pid"]
        speed = ["--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync", "--innodb-fast-shutdown=3"]
        names = ["--skip-name-resolve", "--skip-log-bin", "--character-set-server=utf8mb4"]
        return [program_path("mariadbd"), "--no-defaults", f"--datadir={home / 'data'}", *address, *speed, *names]

    def url(self, port: int) -> str:
        """Return the address of the database that is always there."""
        return f"mysql://root@127.0.0.1:{port}/mysql"


class Redis(Server):
    """Redis, in memory only."""

    name = "redis"
    programs: ClassVar = {"redis-server": "redis-server"}
    hello = b"PING\r\n"
    welcome = re.compile(rb"\+PONG\r\n")

    def command(self, home: Path, port: int) -> Sequence[str]:
        """Listen on the port, save nothing."""
        options = ["--bind", "127.0.0.1", "--dir", str(home), "--save", "", "--appendonly", "no"]
        return [program_path("redis-server"), "--port", str(port), *options]

    def url(self, port: int) -> str:
        """Return the address of database 0."""
        return f"redis://127.0.0.1:{port}/0"


class Mosquitto(Server):
    """Mosquitto, an MQTT broker that takes anyone."""

    name = "mosquitto"
    programs: ClassVar = {"mosquitto": "mosquitto"}
    # CONNECT (MQTT 3.1.1, clean session, client id "?"), and the CONNACK that accepts it.
    hello = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01?"
    welcome = re.compile(rb"\x20\x02\x00\x00")
    settings: ClassVar[Sequence[str]] = ("persistence false", "max_queued_messages 0")

    def command(self, home: Path, port: int) -> Sequence[str]:
        """Write the configuration, which knows the port, and listen on it."""
        configuration = home / "mosquitto.conf"
        lines = [f"listener {port} 127.0.0.1", "allow_anonymous true", f"persistence_location {home}/", *self.settings]
        configuration.write_text("\n".join([*lines, ""]))
        return [program_path("mosquitto"), "-c", str(configuration)]

    def url(self, port: int) -> str:
        """Return the broker's address."""
        return f"mqtt://127.0.0.1:{port}"


class Azurite(Server):
    """Azurite, Azure's blob storage, in memory only."""

    name = "azurite"
    programs: ClassVar = {"node": "nodejs"}
    hello = b"GET / HTTP/1.0\r\n\r\n"
    welcome = re.compile(rb"HTTP/1\.\d \d")
    main = REPOSITORY / "build/azurite/node_modules/azurite/dist/src/blob/main.js"
    account = "batchline"
    key = base64.b64encode(b"not a secret, an account of tests").decode()
    environment: ClassVar = {"AZURITE_ACCOUNTS": f"{account}:{key}"}

    def files(self) -> list[Path]:
        """Return Node.js and the script, which comes from npm."""
        node = super().files()
        if not self.main.exists():
            raise ProgramMissingError("azurite is not installed in build/azurite: run scripts/servers.sh")
        return [*node, self.main]

    def command(self, home: Path, port: int) -> Sequence[str]:  # noqa: ARG002 - it writes nothing
        """Listen on the port; take clients newer than itself, and send no telemetry."""
        options = ["--inMemoryPersistence", "--silent", "--loose", "--skipApiVersionCheck", "--disableTelemetry"]
        return [program_path("node"), str(self.main), "--blobHost", "127.0.0.1", "--blobPort", str(port), *options]

    def url(self, port: int) -> str:
        """Return the connection string."""
        endpoint = f"http://127.0.0.1:{port}/{self.account}"
        account = f"AccountName={self.account};AccountKey={self.key}"
        return f"DefaultEndpointsProtocol=http;{account};BlobEndpoint={endpoint};"


class Kafka(Server):
    """A Kafka broker that is its own controller; times are those at which it was given a record."""

    name = "kafka"
    programs: ClassVar = {}
    # A request for metadata (version 4, correlation id 0, no client id) of no topic, and an answer with one broker.
    hello = struct.pack("!ihhihi?", 15, 3, 4, 0, -1, 0, False)
    welcome = re.compile(rb".{4}\0{8}\0\0\0\x01", re.DOTALL)
    stop_signal = signal.SIGKILL  # kindly takes seconds
    jars = REPOSITORY / "build/kafka/broker"
    #: See `class_archive`.
    archive = REPOSITORY / "build/kafka/broker.jsa"
    settings: ClassVar = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "BROKER",
        "controller.listener.names": "CONTROLLER",
        "log.message.timestamp.type": "LogAppendTime",
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "log.cleaner.enable": "false",
        "num.io.threads": "2",
        "num.network.threads": "1",
        # One that was killed may come back when the controller has missed it for so long.
        "broker.session.timeout.ms": "1000",
        "broker.heartbeat.interval.ms": "200",
        **{f"{topic}.num.partitions": "1" for topic in ("offsets.topic", "transaction.state.log")},
        **{f"{topic}.replication.factor": "1" for topic in ("offsets.topic", "transaction.state.log")},
        "transaction.state.log.min.isr": "1",
    }

    def files(self) -> list[Path]:
        """Return the jars, which come from Maven Central, and Java."""
        jars = sorted(self.jars.glob("*.jar"))
        if not (self.jars.parent / ".installed").exists():
            raise ProgramMissingError("kafka is not installed in build/kafka: run scripts/servers.sh")
        return [*jars, self._java()]

    def prepare(self, home: Path) -> Sequence[str]:
        """Give the data directory its identity; which port it will be is not known yet, and of no matter."""
        cluster = base64.urlsafe_b64encode(b"batchline-tests!").decode().rstrip("=")
        return [*self._run("kafka.tools.StorageTool"), "format", "-t", cluster, "-c", self._configured(home, 9092)]

    def command(self, home: Path, port: int) -> Sequence[str]:
        """Write the configuration, which knows the port, and listen on it; the controller on another address."""
        return [*self._run("kafka.Kafka"), self._configured(home, port)]

    def url(self, port: int) -> str:
        """Return the address without a topic."""
        return f"kafka://127.0.0.1:{port}"

    def _java(self) -> Path:
        return java_home(os.environ) / "bin" / "java"

    def _run(self, main: str) -> list[str]:
        return [str(self._java()), "-Xmx256m", *quick_java(self.archive), "-cp", f"{self.jars.resolve()}/*", main]

    def _configured(self, home: Path, port: int) -> str:
        # Kafka wants another port although the address is another, of which nobody else uses any.
        broker, controller = f"127.0.0.1:{port}", f"127.0.0.2:{port ^ 1}"
        addresses = {
            "listeners": f"BROKER://{broker},CONTROLLER://{controller}",
            "controller.quorum.voters": f"1@{controller}",
            "log.dirs": str(home / "data"),
        }
        configuration = home / "server.properties"
        configuration.write_text("".join(f"{name}={value}\n" for name, value in (self.settings | addresses).items()))
        return str(configuration)


class SparkCluster(Server):
    """A Spark master and two workers of one core each, as processes of their own; see `spark_cluster`."""

    name = "spark_cluster"
    programs: ClassVar = {"bash": "bash"}
    hello = b""
    welcome = re.compile(rb"ready\n")
    orphan_signal = signal.SIGTERM  # it stops its processes
    gives_up_rights = False
    environment: ClassVar = {"PYTHONPATH": str(REPOSITORY)}

    def files(self) -> list[Path]:
        """Return the shell of Spark's scripts; PySpark itself is an extra."""
        if find_spec("pyspark") is None:
            raise ProgramMissingError("spark_cluster needs pyspark: pip install 'batchline[spark]'")
        return super().files()

    def command(self, home: Path, port: int) -> Sequence[str]:
        """Start what starts the three; Java is found here, where the whole environment is."""
        java = java_home(os.environ)
        return [sys.executable, "-m", "tests.servers.spark_cluster", str(home), str(port), str(java)]

    def url(self, port: int) -> str:
        """Return the master's address."""
        return f"spark://127.0.0.2:{port}"


ALL = (PostgreSQL(), MariaDB(), Redis(), Mosquitto(), Azurite(), Kafka(), SparkCluster())
KINDS: dict[str, Server] = {kind.name: kind for kind in ALL}
