"""Two service processes on one database, consumers at both, one of them killed and started again."""

import asyncio
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from batchline import Consumer, LeasedMessage, NewMessage, Timeline, open_store
from tests.service.serving import Place
from tests.stores.racing import PATIENCE_S

MESSAGES = 300
#: Longer than any test: what came back by itself would be seen.
LEASE = timedelta(hours=1)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store of each kind that processes share."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'batchline.db'}"
    return str(request.getfixturevalue(f"{request.param}_database"))


def free_listen() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def serving(url: str, listen: str) -> Iterator[subprocess.Popen[bytes]]:
    program = [sys.executable, "-m", "batchline", "serve", "--store", url, "--listen", listen]
    process = subprocess.Popen(program, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class Noted:
    """What both consumers have in hand, and have handled."""

    def __init__(self) -> None:
        self.now: set[str] = set()
        self.handled: Counter[str] = Counter()
        self.doubled: list[str] = []

    async def handle(self, message: LeasedMessage) -> None:
        if message.id in self.now:
            self.doubled.append(message.id)
        self.now.add(message.id)
        await asyncio.sleep(0.01)
        self.now.discard(message.id)
        self.handled[message.id] += 1


def test_every_message_is_handled_and_none_twice_at_the_same_time_when_a_service_is_killed(url: str) -> None:
    listens = [free_listen(), free_listen()]
    noted = Noted()
    with open_store(url) as store:
        timeline = Timeline(store)
        timeline.create_topic("jobs", lease=LEASE)
        begin_ms = timeline.now_ms() + 1_500
        messages = [NewMessage(id=f"m{number}", at=begin_ms + 5 * number) for number in range(MESSAGES)]
        timeline.create("jobs", messages, producer_group="p")
        consumers = [
            Consumer(Place(f"http://{listen}"), "jobs", noted.handle, consumer=listen, concurrency=4)
            for listen in listens
        ]

        async def until(count: int) -> None:
            async with asyncio.timeout(PATIENCE_S):
                while sum(noted.handled.values()) < count:
                    await asyncio.sleep(0.01)

        async def story() -> None:
            running = [asyncio.ensure_future(consumer.run()) for consumer in consumers]
            with serving(url, listens[0]):
                with serving(url, listens[1]) as killed:
                    await until(MESSAGES // 3)
                    killed.send_signal(signal.SIGKILL)
                    killed.wait()
                with serving(url, listens[1]):
                    await until(MESSAGES)
                    for consumer in consumers:
                        consumer.stop()
                    await asyncio.wait_for(asyncio.gather(*running), PATIENCE_S)

        asyncio.run(story())
        assert timeline.count("jobs").total == 0
    assert noted.doubled == []
    assert noted.handled == {f"m{number}": 1 for number in range(MESSAGES)}
