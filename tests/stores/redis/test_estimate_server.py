"""The way to the server and back: round trips, forgotten scripts, broken connections, lost answers."""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from redis import Redis

from batchline.errors import (
    MissingExtra,
    StoreError,
    StoreUnavailable,
)
from batchline.runtime.estimated_tracker import EstimatedTracker
from batchline.stores.redis.estimates import KEY, EstimateStore
from tests.doubles import new_id
from tests.stores.cutting_proxy import CuttingProxy
from tests.stores.redis.estimating import opened


def test_a_call_is_one_round_trip(tracker: EstimatedTracker, server: Redis, script_cache: None) -> None:
    fanout = opened(tracker, items=9)
    calls: list[Callable[[], object]] = [
        lambda: tracker.open(fanout),
        lambda: tracker.add(fanout, 1),
        lambda: tracker.ack(fanout),
        lambda: tracker.fail(fanout),
        lambda: tracker.seal(fanout),
        lambda: tracker.status(fanout),
    ]
    for call in calls:
        call()  # its script may have to be loaded
        fanout = opened(tracker, items=9)
        with server.monitor() as monitor:  # type: ignore[no-untyped-call]
            call()
            server.echo(fanout)
            assert [one["command"].split()[0] for one in commands_about(fanout, monitor.listen())] == ["EVALSHA"]


def commands_about(fanout: str, heard: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What clients sent that names the fanout, until it is echoed; not what scripts did."""
    for one in heard:
        if one["command"].startswith("ECHO") and fanout in one["command"]:
            return
        if one["client_type"] != "lua" and fanout in one["command"]:
            yield one


def test_scripts_that_the_server_forgot_are_sent_again(
    tracker: EstimatedTracker, server: Redis, script_cache: None
) -> None:
    fanout = opened(tracker, items=2)
    server.script_flush()
    assert tracker.ack(fanout).pending == 1
    server.script_flush()
    tracker.seal(fanout)
    server.script_flush()
    assert tracker.fail(fanout).failed


def test_a_connection_that_broke_while_idle_is_replaced(redis_url: str, server: Redis) -> None:
    name = new_id()
    with EstimateStore(f"{redis_url}?client_name={name}") as store:
        tracker = EstimatedTracker(store)
        fanout = opened(tracker, items=3)
        (ours,) = [client for client in server.client_list() if client["name"] == name]
        server.client_kill_filter(_id=ours["id"])
        assert tracker.ack(fanout).pending == 2


@pytest.fixture
def proxy(redis_url: str) -> Iterator[CuttingProxy]:
    address = urlsplit(redis_url)
    assert address.hostname
    assert address.port
    with CuttingProxy(address.hostname, address.port) as proxy:
        yield proxy


@pytest.fixture
def far(proxy: CuttingProxy, script_cache: None) -> Iterator[EstimatedTracker]:
    """With an address that asks the driver to send again what was not answered, which it must not."""
    with EstimateStore(f"redis://127.0.0.1:{proxy.port}/0?retry_on_timeout=yes") as store:
        yield EstimatedTracker(store)


@pytest.mark.parametrize(("verb", "pending"), [("add", 10), ("ack", 4), ("fail", 4)])
def test_what_counts_is_sent_once_even_if_its_answer_is_lost(
    far: EstimatedTracker, proxy: CuttingProxy, verb: str, pending: int
) -> None:
    fanout = opened(far, items=7, tolerate=None)
    getattr(far, verb)(opened(far, items=7), 3)  # its script is loaded
    proxy.cut_at(b"EVALSHA", answered=True)
    with pytest.raises(StoreUnavailable, match=f"whether it has counted this {verb} is not known"):
        getattr(far, verb)(fanout, 3)
    assert far.status(fanout).pending == pending


def test_a_seal_whose_answer_is_lost_is_told_all_the_same(far: EstimatedTracker, proxy: CuttingProxy) -> None:
    far.seal(opened(far))
    fanout = opened(far)
    proxy.cut_at(b"EVALSHA", answered=True)
    assert far.seal(fanout).completed
    assert not far.seal(fanout).completed


@pytest.mark.parametrize("verb", ["open", "status"])
def test_what_changes_nothing_is_asked_again_if_its_answer_is_lost(
    far: EstimatedTracker, proxy: CuttingProxy, verb: str
) -> None:
    fanout = opened(far, items=7)
    getattr(far, verb)(fanout)
    proxy.cut_at(b"EVALSHA", answered=True)
    assert getattr(far, verb)(fanout).pending == 7


def test_a_server_that_does_not_answer_is_unavailable(free_port: int) -> None:
    with EstimateStore(f"redis://:hidden@127.0.0.1:{free_port}/0") as store:
        tracker = EstimatedTracker(store)
        for call in (tracker.open, tracker.seal, tracker.ack, tracker.status):
            with pytest.raises(StoreUnavailable, match=f"Redis at 'redis://…@127.0.0.1:{free_port}/0'") as refused:
                call("import")
            assert refused.value.__cause__ is not None


@pytest.fixture
def free_port() -> Iterator[int]:
    """A port that is taken, but on which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def test_a_key_that_is_something_else_is_an_error_of_the_store(tracker: EstimatedTracker, server: Redis) -> None:
    fanout = new_id()
    server.set(KEY + fanout, "a text", ex=60)
    with pytest.raises(StoreError, match="WRONGTYPE"):
        tracker.ack(fanout)


def test_a_wrong_password_is_no_reason_to_try_again(redis_url: str) -> None:
    address = urlsplit(redis_url)
    url = f"redis://nobody:secret@{address.hostname}:{address.port}/0"
    with EstimateStore(url) as store, pytest.raises(StoreError, match="does not let us in") as refused:
        EstimatedTracker(store).open()
    assert not isinstance(refused.value, StoreUnavailable)


def test_without_redis_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(MissingExtra, match=r"pip install 'batchline\[redis\]'"):
        EstimateStore("redis://localhost")


def test_redis_is_loaded_only_when_a_store_is_made() -> None:
    program = "import sys, batchline.runtime.estimated_tracker; print('redis' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
