"""Readiness: it fails when the work does, for whatever reason, recovers with it, and names no host to strangers."""

import hashlib
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from batchline import Store, Tracker, open_store
from batchline.core.failure_budget import BURST
from batchline.runtime import tokens as tokens_module
from batchline.runtime.tokens import Tokens
from batchline.service import service as service_module
from batchline.service.service import PUMP_THREADS
from tests.faults.disk import small_disk
from tests.service.serving import Place, placed
from tests.stores.cutting_proxy import CuttingProxy
from tests.stores.newer_program import COMPATIBLE, INCOMPATIBLE, newer_program
from tests.stores.observing import beside
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
THREADS = 2
UNAVAILABLE = "/problems/StoreUnavailable"
#: Holds a fanout's row, or, in SQLite, the file, in a transaction that does not end.
HOLDER = """
import sys
from batchline import Tracker, open_store
from tests.stores.halting import in_flight

with open_store(sys.argv[1]) as store, in_flight(store, lambda one: Tracker(one).seal("a")):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look each time, and do not wait long."""
    monkeypatch.setattr(service_module, "LOOK_S", 0.5)
    monkeypatch.setattr(service_module, "READY_FOR_S", 0.0)
    monkeypatch.setattr(service_module, "GOES_ON_S", 0.5)


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'b.db'}"
    return str(request.getfixturevalue(f"{request.param}_database"))


@contextmanager
def asking(store: Store) -> Iterator[tuple[Place, httpx2.Client]]:
    with placed(store, threads=THREADS) as place, httpx2.Client(base_url=place.url, timeout=120) as client:
        yield place, client


@contextmanager
def frozen_holder(url: str) -> Iterator[None]:
    """A process that is stopped in the middle of a transaction, until the block ends: then it is killed."""
    command = [sys.executable, "-c", HOLDER, url]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            process.send_signal(signal.SIGSTOP)
            yield
        finally:
            process.kill()


def status(client: httpx2.Client) -> int:
    return client.get("/health/ready").status_code


def until_not_ready(client: httpx2.Client) -> str:
    """Wait until it is not ready. Return why."""
    wait_until(lambda: status(client) == 503)
    return str(client.get("/health/ready").json()["detail"])


def until_ready(client: httpx2.Client) -> None:
    wait_until(lambda: status(client) == 200)


def test_it_is_not_ready_while_a_frozen_client_holds_up_all_its_threads(database: str) -> None:
    with open_store(database) as store, asking(store) as (_, client), ThreadPoolExecutor(THREADS) as others:
        Tracker(store).open("a")
        until_ready(client)
        with frozen_holder(database):
            sealing = [others.submit(client.post, "/v1/fanouts/a/seal", json={}) for _ in range(THREADS)]
            assert until_not_ready(client) == "the store does not answer within 0.5 s"
            assert client.get("/health/live").status_code == 200
            assert [one.result() for one in sealing if one.done()] == []
        assert [one.result().status_code for one in sealing] == [200] * THREADS
        until_ready(client)


def test_it_is_not_ready_while_the_disk_is_full(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        if not disk.is_own:
            pytest.skip("needs the right to mount a disk in memory")
        with open_store(f"sqlite:///{disk.directory / 'b.db'}") as store, asking(store) as (_, client):
            until_ready(client)
            disk.fill([])
            assert "full" in until_not_ready(client)
            assert client.get("/v1/fanouts").status_code == 200  # reading goes on
            disk.clear([])
            until_ready(client)


def test_it_is_not_ready_while_the_database_only_reads(postgresql_database: str) -> None:
    name = urlsplit(postgresql_database).path.removeprefix("/")
    with (
        open_store(postgresql_database) as store,
        asking(store) as (_, client),
        beside(postgresql_database) as admin,
    ):
        until_ready(client)
        for only_reads, wait in (("on", until_not_ready), ("off", until_ready)):
            admin.run(f'ALTER DATABASE "{name}" SET default_transaction_read_only = {only_reads}')
            for number in admin.connected():
                admin.kill(number)
            assert "read-only" in (wait(client) or "read-only")


@pytest.mark.parametrize("kind", ["service", "pump"])
def test_it_is_not_ready_while_all_threads_of_a_kind_are_stuck_and_nothing_piles_up(kind: str) -> None:
    with open_store("memory://") as store, asking(store) as (place, client):
        service = place.service
        assert service is not None
        threads = service._threads if kind == "service" else service._pump_threads
        until_ready(client)
        go_on = threading.Event()
        try:
            for _ in range(max(THREADS, PUMP_THREADS)):
                threads.submit(go_on.wait)
            until_not_ready(client)
            queued = threads._work_queue.qsize()
            answers = {status(client) for _ in range(100)}
            assert answers == {503}
            assert threads._work_queue.qsize() == queued
        finally:
            go_on.set()
        until_ready(client)


def test_it_stays_ready_behind_much_work_that_goes_on() -> None:
    def work() -> bytes:
        return hashlib.scrypt(b"work", salt=b"salt", n=2**14, r=8, p=1)  # some 50 ms

    with open_store("memory://") as store, asking(store) as (place, client):
        service = place.service
        assert service is not None
        until_ready(client)
        working = [service._threads.submit(work) for _ in range(100)]
        answers = {status(client) for _ in range(5)}
        late = not working[-1].done()
        for one in working:
            one.cancel()
        assert answers == {200}
        assert late


def test_it_stays_ready_after_a_compatible_migration_and_not_after_an_incompatible_one(database: str) -> None:
    with open_store(database) as store, asking(store) as (_, client):
        until_ready(client)
        with newer_program(COMPATIBLE):
            open_store(database).close()
        assert status(client) == 200
        assert client.post("/v1/topics", json={"name": "t"}).status_code == 201
        with newer_program(COMPATIBLE, INCOMPATIBLE):
            open_store(database).close()
        said = until_not_ready(client)
        assert "the store's schema has version 100, this program knows versions up to " in said
        assert said.endswith(": use a Batchline that knows version 100")


# --- names ------------------------------------------------------------------------------------------------------------


def test_only_a_caller_with_a_valid_token_reads_where_the_database_is(
    postgresql_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens_module, "REMEMBERED_FOR", timedelta(minutes=10))
    address = urlsplit(postgresql_database)
    assert address.hostname
    assert address.port
    with CuttingProxy(address.hostname, address.port) as proxy:
        through = address._replace(netloc=f"{address.username}@127.0.0.1:{proxy.port}", query="patience=0s")
        with open_store(through.geturl()) as store, asking(store) as (place, client):
            check_names(store, place, client, lambda: proxy.cut_at(b"", answered=False, times=1_000_000))


def check_names(store: Store, place: Place, client: httpx2.Client, cut: Callable[[], None]) -> None:
    assert place.service is not None
    assert client.get("/health/ready").json()["database"] == store.url  # there are no tokens
    _, text = Tokens(store).create("t", producer_group="g", topics=["*"])
    place.service.parts.tokens._any = None  # as it is a few seconds later
    valid = {"authorization": f"Bearer {text}"}
    unknown = {"authorization": f"Bearer bl_{'0' * 12}_{'0' * 64}"}
    strange: list[dict[str, str]] = [{}, unknown, {"authorization": "Bearer x"}, {"authorization": f"Bearer {text}0"}]
    for headers in strange:
        answer = client.get("/health/ready", headers=headers)
        assert (answer.status_code, answer.json()["database"], named(store, answer)) == (200, None, False)
    assert client.get("/health/ready", headers=valid).json()["database"] == store.url
    cut()
    until_not_ready(client)
    for headers in strange:
        answer = client.get("/health/ready", headers=headers)
        assert (answer.status_code, named(store, answer)) == (503, False), answer.text
    assert named(store, client.get("/health/ready", headers=valid))
    # Nor does a refusal of any other request name it before the token was checked.
    answer = client.get("/v1/topics", headers=unknown)
    assert (answer.status_code, answer.json()["type"], named(store, answer)) == (503, UNAVAILABLE, False), answer.text


def test_wrong_tokens_of_readiness_count_as_those_of_other_requests() -> None:
    with open_store("memory://") as store:
        Tokens(store).create("t", producer_group="g", topics=["*"])
        with asking(store) as (_, client):
            unknown = {"authorization": f"Bearer bl_{'0' * 12}_{'0' * 64}"}
            assert client.get("/v1/caller", headers=unknown).status_code == 401
            answers = {client.get("/health/ready", headers=unknown).status_code for _ in range(BURST)}
            assert answers == {200}
            assert client.get("/v1/caller", headers=unknown).status_code == 429


def named(store: Store, answer: httpx2.Response) -> bool:
    """Return whether an answer names the database's host or user, or this host."""
    where = urlsplit(store.url)
    return any(name in answer.text for name in (str(where.port), f"{where.username}@", socket.gethostname()))
