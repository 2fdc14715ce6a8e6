"""A network that drops every packet for a while, between a client and a real server: both sides go on by themselves."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from batchline.runtime.tracker import Tracker
from batchline.stores.opening import open_store
from tests.conftest import IN_CI
from tests.servers.database import fresh_mariadb, fresh_postgresql
from tests.servers.kinds import MariaDB, PostgreSQL
from tests.servers.own import running
from tests.servers.server import ProgramMissingError
from tests.stores.cut_network import CutNetwork, cut_network, server_side
from tests.stores.observing import beside

CLIENT = """
import sys
from concurrent.futures import ThreadPoolExecutor
from batchline import Tracker, open_store

address, fanout = sys.argv[1:]
with open_store(address) as store, ThreadPoolExecutor(4) as threads:
    tracker = Tracker(store)
    number = store.read(lambda rows: rows.fanouts_by_id([fanout])[fanout].number)
    attempts = []

    def work(rows):
        attempts.append(1)
        rows.hold_fanout(number)
        if len(attempts) == 1:
            print("holding", flush=True)
            sys.stdin.readline()
        return rows.hold_fanout(number).sealed_us is not None

    sealed = store.transact(work)
    print("went on", sealed, store.lost_connections(), flush=True)
    sys.stdin.readline()
    print("opened", len(list(threads.map(lambda _: tracker.open(), range(40)))), flush=True)
"""


class FarPostgreSQL(PostgreSQL):
    """One that is reached over the network that can be cut."""

    def command(self, home: Path, port: int) -> Sequence[str]:
        """As without, on one more address."""
        rules = home / "hba.conf"
        rules.write_text("host all all 0.0.0.0/0 trust\n")
        far = (f"listen_addresses=127.0.0.1,{server_side()}", f"hba_file={rules}")
        return [*super().command(home, port), *(word for setting in far for word in ("-c", setting))]


class FarMariaDB(MariaDB):
    """One that is reached over the network that can be cut."""

    def command(self, home: Path, port: int) -> Sequence[str]:
        """As without, on one more address."""
        return [*super().command(home, port), f"--bind-address=127.0.0.1,{server_side()}"]


@pytest.fixture(params=[FarPostgreSQL, FarMariaDB])
def cut_off(request: pytest.FixtureRequest) -> Iterator[tuple[CutNetwork, str]]:
    """A network, and the address of a database of the test's own, as it is without that network."""
    with cut_network() as network:
        try:
            with running(request.param()) as server, _fresh(server.url) as url:
                yield network, url
        except ProgramMissingError as error:
            if IN_CI:
                raise
            pytest.skip(str(error))


@contextmanager
def _fresh(server: str) -> Iterator[str]:
    if server.startswith("postgresql"):
        with fresh_postgresql(server) as url:
            yield url
        return
    with fresh_mariadb(server) as url:
        with beside(url) as administrator:
            administrator.run("CREATE USER far@'%'")
            administrator.run("GRANT ALL ON *.* TO far@'%'")
        yield url


def test_a_cut_network_frees_the_locks_of_a_lost_client_which_goes_on_when_it_is_back(
    cut_off: tuple[CutNetwork, str],
) -> None:
    network, near = cut_off
    far = f"{near}?timeout=2s".replace("127.0.0.1", server_side()).replace("root@", "far@")
    with open_store(near) as store:
        tracker = Tracker(store)
        fanout = tracker.open().id
        with subprocess.Popen(
            network.within([sys.executable, "-c", CLIENT, far, fanout]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as client:
            assert client.stdin
            assert client.stdout
            assert client.stderr
            assert client.stdout.readline() == "holding\n"
            network.cut()
            # No FIN has arrived: only the server's own deadline frees the row.
            assert tracker.seal(fanout).completed
            print(file=client.stdin, flush=True)
            assert "connection to the store lost" in client.stderr.readline()
            network.mend()
            words = client.stdout.readline().split()
            assert words[:3] == ["went", "on", "True"]
            assert int(words[3]) >= 1
            print(file=client.stdin, flush=True)
            assert client.stdout.readline() == "opened 40\n"
