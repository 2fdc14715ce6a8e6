"""A frozen client and a silent network: each costs the others a bounded time, and all goes on by itself."""

import logging
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from batchline.core.message import NewMessage
from batchline.errors import InvalidStore, StoreError, StoreUnavailable
from batchline.runtime.timeline import Timeline
from batchline.runtime.tracker import Tracker
from batchline.stores.address import read_address
from batchline.stores.mysql import connection as mysql_connection
from batchline.stores.opening import find_store, open_store
from tests.stores.newer_program import COMPATIBLE, newer_program
from tests.stores.observing import beside
from tests.stores.racing import PATIENCE_S
from tests.stores.silent_proxy import SilentProxy
from tests.waiting import wait_until

#: As `timeout` in an address: short, for the tests wait for it; a busy machine may break off more than is frozen.
SHORT = "1500ms"
GROUP = "shop"

# --- frozen -----------------------------------------------------------------------------------------------------------

FROZEN = """
import os, signal, sys
from batchline import Timeline, open_store
from batchline.stores.connections import Connections
from tests.stores.halting import Beforehand, Interrupted

def freeze():
    print("frozen", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)

class BeforeCommit(Beforehand):
    frozen = False

    def transact(self, work):
        def frozen(rows):
            answer = work(rows)
            if not self.frozen:
                self.frozen = True
                freeze()
            return answer
        return self._store.transact(frozen)

address, call, place = sys.argv[1:]
with open_store(address) as store:
    plain = Timeline(store)
    freezing = Timeline(BeforeCommit(store) if place == "commit" else Interrupted(store, place, freeze))
    if call == "lease":
        leased = freezing.lease("orders", "frozen")
    else:
        (outcome,) = freezing.done(plain.lease("orders", "frozen"))
        leased = [outcome.outcome]
    print("went on", len(leased), store.lost_connections(), flush=True)
"""


@contextmanager
def frozen(address: str, call: str, place: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has stopped within a transaction of a call, in which it has locked a message."""
    command = [sys.executable, "-c", FROZEN, address, call, place]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            assert process.stdout.readline() == "frozen\n"
            yield process
        finally:
            process.kill()
            process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize(("call", "place"), [("lease", "bundles_by_number"), ("lease", "commit"), ("done", "commit")])
def test_a_client_frozen_within_a_transaction_costs_the_others_one_timeout(
    server_database: str, call: str, place: str
) -> None:
    address = f"{server_database}?timeout={SHORT}"
    with open_store(address) as store:
        timeline = Timeline(store)
        timeline.create_topic("orders")
        (created,) = timeline.create("orders", [b"a"], producer_group=GROUP)
        with frozen(address, call, place) as process:
            (outcome,) = timeline.cancel("orders", [created.id], producer_group=GROUP)
            assert outcome.outcome in ("cancelled", "leased")
            process.send_signal(signal.SIGCONT)
            assert process.stdout
            went_on = process.stdout.readline().split()
            # It repeats its call on a new connection.
            assert went_on[:2] == ["went", "on"]
            assert int(went_on[3]) >= 1
        assert store.lost_connections() == 0


def test_a_client_frozen_before_it_asks_for_an_answer_costs_the_others_one_timeout(postgresql_database: str) -> None:
    """The server runs no deadline while it waits for the rest of a message."""
    with open_store(f"{postgresql_database}?timeout=500ms") as store, ThreadPoolExecutor(1) as threads:
        tracker = Tracker(store)
        fanout = tracker.open().id
        number = tracker._store.read(lambda rows: rows.fanouts_by_id([fanout])[fanout].number)
        attempts: list[int] = []
        sent, go_on = threading.Event(), threading.Event()

        def work(rows: Any) -> None:
            attempts.append(number)
            rows._session._execute("hold_fanout", {"number": number})
            sent.set()
            assert go_on.wait(PATIENCE_S)

        holding = threads.submit(store.transact, work)
        try:
            assert sent.wait(PATIENCE_S)
            assert tracker.seal(fanout).completed
        finally:
            go_on.set()
        holding.result(PATIENCE_S)
        assert len(attempts) == 2


def test_a_lock_that_is_never_given_back_ends_the_wait_and_keeps_the_connection(server_database: str) -> None:
    with open_store(f"{server_database}?timeout=500ms&patience=200ms") as store, beside(server_database) as keep:
        tracker = Tracker(store)
        fanout = tracker.open().id
        with keep.holding("batchline_fanouts"), pytest.raises(StoreUnavailable, match=r"(?i)lock|statement|execution"):
            tracker.seal(fanout)
        assert tracker.seal(fanout).completed
        assert store.lost_connections() == 0


def test_a_statement_that_takes_too_long_is_ended_by_the_server_and_keeps_the_connection(server_database: str) -> None:
    with open_store(f"{server_database}?timeout=1s&patience=100ms") as store:
        connections: Any = store.connections  # type: ignore[attr-defined]
        sql = {"p": "SELECT pg_sleep(60)", "m": "SELECT sleep(60) FROM batchline_migrations"}[server_database[0]]
        with pytest.raises(StoreUnavailable, match="raise `timeout` in the store's address"):
            connections.transact(lambda it: it.cursor().execute(sql))
        assert store.version() > 0
        assert store.lost_connections() == 0


def test_a_user_of_postgresql_may_set_a_limit_otherwise(postgresql_database: str) -> None:
    address = f"{postgresql_database}?options=-cstatement_timeout%3D1234%20-csearch_path%3Dpublic&keepalives_idle=77"
    with open_store(address) as store:
        connections: Any = store.connections  # type: ignore[attr-defined]

        def look(connection: Any) -> list[str]:
            names = ("statement_timeout", "search_path", "lock_timeout", "tcp_user_timeout")
            return [connection.execute(f"SHOW {name}").fetchone()[0] for name in names]

        assert connections.transact(look) == ["1234ms", "public", "4s", "8000"]
        assert connections.transact(lambda it: it.info.get_parameters()["keepalives_idle"]) == "77"


def test_a_migration_has_no_deadlines_and_what_follows_has_them_again(server_database: str) -> None:
    with open_store(f"{server_database}?timeout=500ms&patience=100ms") as store:
        sleep = {"p": "SELECT pg_sleep(1)", "m": "SELECT sleep(1) FROM batchline_migrations LIMIT 1"}[
            server_database[0]
        ]

        def slowly(connection: Any) -> str:
            with connection.unhurried():
                connection.cursor().execute(sleep)
            return "done"

        connections: Any = store.connections  # type: ignore[attr-defined]
        assert connections.transact(slowly) == "done"
        long = sleep.replace("(1)", "(60)")
        with pytest.raises(StoreUnavailable, match="timeout"):
            connections.transact(lambda it: it.cursor().execute(long))
        assert store.version() > 0


FROZEN_MIGRATOR = """
import os, signal, sys
from batchline.stores.opening import open_store
from batchline.stores.postgres import store as postgres_store
from batchline.stores.mysql import store as mysql_store
from tests.stores.newer_program import COMPATIBLE, newer_program

def freezing(real):
    def frozen(room, schema):
        missing = real(room, schema)
        print("frozen", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
        return missing
    return frozen

for one in (postgres_store, mysql_store):
    one.missing_migrations = freezing(one.missing_migrations)
with newer_program(COMPATIBLE):
    open_store(sys.argv[1])
"""


def test_a_process_frozen_within_a_migration_makes_room_for_the_next(server_database: str) -> None:
    address = f"{server_database}?timeout={SHORT}"
    open_store(address).close()
    command = [sys.executable, "-c", FROZEN_MIGRATOR, address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            assert process.stdout.readline() == "frozen\n"
            with newer_program(COMPATIBLE), ThreadPoolExecutor(1) as threads:
                opening = threads.submit(open_store, address)
                try:
                    with opening.result(PATIENCE_S / 2) as store:
                        assert store.version() == COMPATIBLE.number
                finally:
                    process.kill()  # or the thread would wait for it
        finally:
            process.kill()


def test_a_connection_to_mariadb_that_was_idle_for_long_is_replaced_before_it_is_used(
    mariadb_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(mariadb_database) as store, beside(mariadb_database) as watch:
        before = watch.connected()
        monkeypatch.setattr(mysql_connection, "IDLE_S", 0)
        assert store.version() > 0
        wait_until(lambda: not set(watch.connected()) & set(before))
        assert store.lost_connections() == 0


# --- a turn -----------------------------------------------------------------------------------------------------------


def test_a_call_that_gets_no_connection_gives_up_when_patience_ends(server_database: str) -> None:
    with open_store(f"{server_database}?connections=1&patience=300ms") as store, ThreadPoolExecutor(1) as threads:
        inside, go_on = threading.Event(), threading.Event()

        def work(_: object) -> None:
            inside.set()
            assert go_on.wait(PATIENCE_S)

        working = threads.submit(store.read, work)
        assert inside.wait(PATIENCE_S)
        with pytest.raises(StoreUnavailable, match=r"all 1 connections .* in use for 0\.3 s"):
            store.version()
        go_on.set()
        working.result(PATIENCE_S)


# --- a silent network -------------------------------------------------------------------------------------------------


@pytest.fixture
def silent(server_database: str) -> Iterator[SilentProxy]:
    with SilentProxy(*_place(server_database)) as proxy:
        yield proxy


def _place(url: str) -> tuple[str, int]:
    host, _, port = url.partition("@")[2].partition("/")[0].partition(":")
    return host, int(port)


def _through(proxy: SilentProxy, url: str) -> str:
    return url.replace(f":{_place(url)[1]}/", f":{proxy.port}/")


def test_calls_that_a_silent_network_swallowed_are_repeated_on_new_connections(
    server_database: str, silent: SilentProxy, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "batchline")
    with open_store(f"{_through(silent, server_database)}?timeout={SHORT}") as store, ThreadPoolExecutor(8) as threads:
        tracker = Tracker(store)
        fanouts = [tracker.open().id for _ in range(8)]
        together = threading.Barrier(8)
        list(threads.map(lambda _: store.read(lambda _: together.wait(PATIENCE_S)), range(8)))
        caplog.clear()
        silent.fall_silent()
        sealing = [threads.submit(tracker.seal, fanout) for fanout in fanouts]
        wait_until(lambda: store.lost_connections() >= 1)
        silent.speak()
        assert all(one.result(PATIENCE_S).completed for one in sealing)
        assert store.lost_connections() >= 8
    said = [record.getMessage() for record in caplog.records if record.name == "batchline"]
    assert [one.partition(":")[0] for one in said if "lost; calls" in one] == [
        "connection to the store lost; calls are repeated for 30 s"
    ]
    assert any("answers again" in one for one in said)


def test_one_lost_connection_is_reason_to_try_none_of_the_idle_ones(server_database: str, silent: SilentProxy) -> None:
    with open_store(f"{_through(silent, server_database)}?timeout={SHORT}") as store, ThreadPoolExecutor(4) as threads:
        together = threading.Barrier(4)
        list(threads.map(lambda _: store.read(lambda _: together.wait(PATIENCE_S)), range(4)))
        silent.fall_silent()
        silent.speak()  # the four stay silent, as they have lost bytes
        assert store.version() > 0
        assert store.lost_connections() == 1


def test_locks_of_a_transaction_that_the_network_swallowed_are_freed(server_database: str, silent: SilentProxy) -> None:
    """Its backend waits for a client that is gone, for nothing has told the server."""
    with open_store(f"{_through(silent, server_database)}?timeout={SHORT}") as store:
        tracker = Tracker(store)
        fanout = tracker.open().id
        number = tracker._store.read(lambda rows: rows.fanouts_by_id([fanout])[fanout].number)
        attempts: list[int] = []

        def work(rows: Any) -> None:
            held = rows.hold_fanout(number)
            attempts.append(number)
            if len(attempts) == 1:
                silent.fall_silent()
                try:
                    rows.hold_fanout(number)
                finally:
                    silent.speak()
            held.total += 1
            rows.write_fanout(held)

        store.transact(work)
        assert len(attempts) == 2
        assert tracker.status(fanout).total == 1
        assert store.lost_connections() >= 1


def test_a_large_answer_on_a_slow_network_may_take_longer_than_one_timeout(
    server_database: str, silent: SilentProxy
) -> None:
    # The server need not be done in time: how much it can send ahead is the kernel's choice.
    more = "&options=-cstatement_timeout%3D0" if server_database.startswith("postgresql") else ""
    with find_store(read_address(f"{_through(silent, server_database)}?timeout=2s{more}")) as store:
        assert store.version() == 0
        silent.piece_s = 0.25  # more than psycopg's interval, so that it sometimes finds nothing to read

        def read(connection: Any) -> int:
            cursor = connection.cursor()
            cursor.execute("SELECT repeat('x', 300000)")
            return len(cursor.fetchone()[0])

        connections: Any = store.connections  # type: ignore[attr-defined]
        assert connections.transact(read) == 300_000
        assert store.lost_connections() == 0


def test_a_large_statement_on_a_slow_network_is_sent_to_its_end(postgresql_database: str) -> None:
    with (
        SilentProxy(*_place(postgresql_database)) as slow,
        open_store(f"{_through(slow, postgresql_database)}?connections=1") as store,
    ):
        timeline = Timeline(store)
        timeline.create_topic("orders")

        def narrow(connection: Any) -> None:
            with socket.socket(fileno=os.dup(connection.fileno())) as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)

        connections: Any = store.connections  # type: ignore[attr-defined]
        connections.transact(narrow)
        slow.piece_s = 0.002
        # The socket does not take a body at once.
        messages = [NewMessage(bytes(1 << 20), id=str(number)) for number in range(4)]
        assert all(one.ok for one in timeline.create("orders", messages, producer_group=GROUP))
        assert store.lost_connections() == 0


@pytest.mark.parametrize("option", ["timeout=fast", "timeout=0s", "timeout=10ms"])
@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_a_timeout_that_no_connection_would_outlive_is_refused(scheme: str, option: str) -> None:
    with pytest.raises(InvalidStore, match=r"timeout in the store's address"):
        open_store(f"{scheme}://127.0.0.1:1/name?{option}")


def test_a_pooler_that_refuses_the_settings_of_a_session_is_named_with_what_to_do() -> None:
    """As PgBouncer does, unless it ignores them."""
    said = b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0"
    with socket.create_server(("127.0.0.1", 0)) as pooler, ThreadPoolExecutor(1) as threads:

        def refuse() -> None:
            client, _ = pooler.accept()
            with client:
                client.recv(65_536)
                client.sendall(b"E" + struct.pack("!i", len(said) + 4) + said)

        refusing = threads.submit(refuse)
        address = f"postgresql://app@127.0.0.1:{pooler.getsockname()[1]}/name?sslmode=disable&gssencmode=disable"
        with pytest.raises(StoreError, match=r"unsupported startup parameter.*have the pooler ignore") as refused:
            open_store(address)
        refusing.result(PATIENCE_S)
    assert not isinstance(refused.value, StoreUnavailable)


# --- the end of a process ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["work --until-empty", "serve"])
def test_a_process_ends_at_sigterm_although_its_store_does_not_answer(
    server_database: str, silent: SilentProxy, tmp_path: Path, command: str
) -> None:
    with open_store(server_database) as store:
        Timeline(store).create_topic("parcels")
        Timeline(store).create("parcels", [NewMessage(after=timedelta(hours=1))], producer_group=GROUP)
    address = f"{_through(silent, server_database)}?timeout=1s&patience=1h"
    more = ["--listen", "127.0.0.1:0"] if command == "serve" else ["--sink", f"files:{tmp_path}"]
    words = ["-m", "batchline", *command.split(), "--store", address, *more]
    _check_ends_in_silence(server_database, silent, words)


CONSUMER = """
import asyncio, sys
from batchline import Consumer, Timeline, open_store

async def main(store):
    await Consumer(Timeline(store), "parcels", print).run(signals=True)

with open_store(sys.argv[1]) as store:
    asyncio.run(main(store))
"""


def test_a_consumer_ends_at_sigterm_although_its_store_does_not_answer(postgresql_database: str) -> None:
    with open_store(postgresql_database) as store, SilentProxy(*_place(postgresql_database)) as silent:
        Timeline(store).create_topic("parcels")
        address = f"{_through(silent, postgresql_database)}?timeout=1s&patience=1h"
        _check_ends_in_silence(postgresql_database, silent, ["-c", CONSUMER, address], "batchline_consumers")


def _check_ends_in_silence(
    database: str, silent: SilentProxy, words: list[str], attended: str = "batchline_brokers"
) -> None:
    """Check that a program ends at SIGTERM while its store is silent. It is at work once it has a row in `attended`."""
    command = [sys.executable, *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr
        try:
            with beside(database) as watch:
                wait_until(lambda: watch.run(f"SELECT 1 FROM {attended}"))
            silent.fall_silent()
            assert any("connection to the store lost" in line for line in process.stderr)
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
