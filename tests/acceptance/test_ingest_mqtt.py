"""`batchline ingest mqtt` with a real Mosquitto: whoever is killed on the way, every message is in one batch, once."""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from batchline import BatchRules
from batchline.columnar.assign import assign_batches
from batchline.columnar.order import in_receive_order
from batchline.core.moment import moment_of
from batchline.runtime.clock import now_us
from batchline.sources.files import files_of, read_measurements
from tests.conftest import own_server_of
from tests.servers.own import OwnServer
from tests.waiting import wait_until

PATIENCE_S = 60.0
RULES = BatchRules(
    window=timedelta(minutes=10), max_delay=timedelta(minutes=10), leap_limit=timedelta(minutes=10), anchor="event"
)


@pytest.fixture
def broker() -> Iterator[OwnServer]:
    with own_server_of("mosquitto") as server:
        yield server


class Publisher:
    """A device that sends numbered measurements, and again what it has no acknowledgement of."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.messages: list[tuple[str, str]] = []
        self.sent, self.acknowledged = 0, 0
        self.client = Client(CallbackAPIVersion.VERSION2, client_id="device", clean_session=False)
        self.client.reconnect_delay_set(1, 1)
        self.client.max_inflight_messages_set(100)
        self.client.on_publish = self._published
        self.client.connect(parts.hostname or "", parts.port or 0)
        self.client.loop_start()

    def send(self, count: int) -> None:
        """Send so many more, at moments of their own; without a broker they wait for one."""
        before = len(self.messages)
        for number in range(before, before + count):
            message = {f"type-{number}": number, "time": moment_of(now_us()).isoformat()}
            self.messages.append((f"te/device/d{number % 3}///m/", json.dumps(message)))
        self._publish(self.messages[before:])

    def send_all_again(self) -> None:
        """Send all once more: a broker that was killed may have lost what it has acknowledged."""
        self._publish(self.messages)

    def _publish(self, messages: list[tuple[str, str]]) -> None:
        for topic, message in messages:
            self.client.publish(topic, message, qos=1)
        self.sent += len(messages)

    def _published(self, *_: object) -> None:
        self.acknowledged += 1

    def wait(self) -> None:
        """Until the broker has all."""
        wait_until(lambda: self.acknowledged >= self.sent)

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


@pytest.fixture
def publisher(broker: OwnServer) -> Iterator[Publisher]:
    publisher = Publisher(broker.url)
    yield publisher
    publisher.close()


@pytest.fixture
def start() -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    started: list[subprocess.Popen[str]] = []

    def start(*words: object) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", *map(str, words)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


Start = Callable[..., "subprocess.Popen[str]"]


def ingest(start: Start, broker: OwnServer, into: Path) -> "subprocess.Popen[str]":
    """The command, subscribed."""
    process = start("batchline", "ingest", "mqtt", broker.url, "--into", into, "--json")
    hear(process, "subscribed")
    return process


def hear(process: "subprocess.Popen[str]", word: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if word in line:
            return
    raise AssertionError(f"it ended without saying {word}")


def stop(process: "subprocess.Popen[str]") -> dict[str, int]:
    """Its summary."""
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    summary: dict[str, int] = json.loads(said)
    return summary


def landed(into: Path) -> list[float]:
    lines = [line for file in into.glob("*.jsonl") for line in file.read_text().splitlines()]
    return sorted(json.loads(line)["value"] for line in lines)


def check_once(into: Path, count: int) -> None:
    """Every message has landed; after batching each is there once, and nothing was refused but copies."""
    reading = read_measurements(files_of(into))
    assert reading.malformed.num_rows == 0
    rows = assign_batches(in_receive_order(reading.table, ["sequence"]), RULES)
    found = list(zip(*(rows[name].to_pylist() for name in ("verdict", "value")), strict=True))
    assert {verdict for verdict, _ in found} <= {"batched", "duplicate"}
    assert sorted(value for verdict, value in found if verdict == "batched") == [float(one) for one in range(count)]


def test_an_ingest_that_is_killed_again_and_again_loses_nothing(
    broker: OwnServer, publisher: Publisher, start: Start, tmp_path: Path
) -> None:
    into = tmp_path / "landing"
    for kills in range(3):
        process = ingest(start, broker, into)
        before = len(landed(into))
        publisher.send(150)
        wait_until(lambda before=before, kills=kills: len(landed(into)) > before + 20 * kills)  # type: ignore[misc]
        process.kill()
        publisher.send(50)
    last = ingest(start, broker, into)
    wait_until(lambda: len(set(landed(into))) == 600)
    stop(last)
    check_once(into, 600)


@pytest.mark.parametrize("kindly", [True, False])
def test_a_broker_that_is_restarted_or_killed_is_survived(
    broker: OwnServer, publisher: Publisher, start: Start, tmp_path: Path, kindly: bool
) -> None:
    into = tmp_path / "landing"
    process = ingest(start, broker, into)
    publisher.send(200)
    broker.end(kindly=kindly)
    publisher.send(100)
    broker.start()
    hear(process, "subscribed")
    if not kindly:
        publisher.send_all_again()
    publisher.wait()
    wait_until(lambda: len(set(landed(into))) == 300)
    summary = stop(process)
    assert summary["landed"] == len(landed(into))
    check_once(into, 300)


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_is_durable_and_not_acknowledged_comes_again_and_what_is_not_durable_too(
    broker: OwnServer, publisher: Publisher, start: Start, tmp_path: Path, when: str
) -> None:
    into = tmp_path / "landing"
    assert stop(ingest(start, broker, into))["received"] == 0
    publisher.send(10)
    publisher.wait()
    assert start("tests.acceptance.ingesting", when, broker.url, into).wait(PATIENCE_S) == -signal.SIGKILL
    before = len(landed(into))
    assert (before > 0) == (when == "after")
    process = ingest(start, broker, into)
    wait_until(lambda: len(landed(into)) == 10 + before)
    stop(process)
    check_once(into, 10)


@contextmanager
def small_disk(directory: Path) -> Iterator[bool]:
    """A disk of 256 kB, where one may have one."""
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(directory)]
    mounted = os.geteuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(directory)], check=True)


def fill(filler: Path) -> None:
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass


def test_a_full_disk_is_waited_for_and_then_all_land(
    broker: OwnServer, publisher: Publisher, start: Start, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk") as mounted:
        into = tmp_path / "disk" / "landing"
        process = ingest(start, broker, into)
        if mounted:
            filler = tmp_path / "disk" / "filler"
            fill(filler)
        else:
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (16, resource.RLIM_INFINITY))
        publisher.send(200)
        hear(process, "cannot be written to")
        publisher.wait()
        assert landed(into) == []
        if mounted:
            filler.unlink()
        else:
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        wait_until(lambda: len(landed(into)) == 200)
        assert stop(process)["landed"] == 200
        check_once(into, 200)
        assert not list(into.rglob("*.new"))


def test_what_is_no_measurement_is_kept_and_told(
    broker: OwnServer, publisher: Publisher, start: Start, tmp_path: Path
) -> None:
    into = tmp_path / "landing"
    process = ingest(start, broker, into)
    publisher.client.publish("te/device/main///m/", "warm \0 \n", qos=1).wait_for_publish(PATIENCE_S)
    publisher.client.publish("te/device/main///m/", '{"t": 1}', qos=0)
    wait_until(lambda: landed(into) == [1.0] and bool(list(into.glob("malformed/*.jsonl"))))
    summary = stop(process)
    assert (summary["received"], summary["landed"], summary["malformed"]) == (2, 1, 1)
    (line,) = (json.loads(file.read_text()) for file in into.glob("malformed/*.jsonl"))
    assert (line["file"], line["text"]) == ("te/device/main///m/", "warm \0 \n")
