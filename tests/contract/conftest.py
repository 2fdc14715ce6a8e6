"""One suite, every store: in a database that the tests of a worker share, or in an empty one of a test's own."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

import pytest

from batchline import Store, Tracker, open_store
from tests.contract.remote import CLIENT, Remote, Remotes, tracker_on
from tests.contract.tracking import Finishing
from tests.doubles import HandClock
from tests.servers.database import fresh_mariadb, fresh_postgresql

KINDS = ("memory", "sqlite", "postgresql", "mysql")
#: The same over HTTP.
ALL_KINDS = (*KINDS, CLIENT)
Opener = Callable[[str], AbstractContextManager[Store]]


@pytest.fixture(scope="session")
def opener(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Opener:
    """Opens a store of a kind with nothing in it; servers start when the first asks for them."""

    @contextmanager
    def fresh(kind: str) -> Iterator[Store]:
        with ExitStack() as stack:
            if kind in ("memory", CLIENT):
                url = "memory://"
            elif kind == "sqlite":
                url = f"sqlite:///{tmp_path_factory.mktemp('sqlite') / 'batchline.db'}"
            elif kind == "postgresql":
                url = stack.enter_context(fresh_postgresql(request.getfixturevalue("postgresql_url")))
            else:
                url = stack.enter_context(fresh_mariadb(request.getfixturevalue("mariadb_url")))
            yield stack.enter_context(open_store(url))

    return fresh


@pytest.fixture(scope="session")
def shared_store(opener: Opener) -> Iterator[Callable[[str, str], Store]]:
    """The one store of a kind and purpose that the tests of a worker share."""
    with ExitStack() as stack:
        stores: dict[tuple[str, str], Store] = {}

        def shared(kind: str, purpose: str) -> Store:
            if (kind, purpose) not in stores:
                stores[kind, purpose] = stack.enter_context(opener(kind))
            return stores[kind, purpose]

        yield shared


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every kind of store; and, of what is asked through a tracker or a timeline of the suite's, a client."""
    named = any("kind" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if "kind" in metafunc.fixturenames and not named:
        metafunc.parametrize("kind", ALL_KINDS if "remote" in metafunc.fixturenames else KINDS)


@pytest.fixture(scope="session")
def remotes() -> Iterator[Remotes]:
    with Remotes() as remotes:
        yield remotes


@pytest.fixture
def remote(kind: str, clock: HandClock, remotes: Remotes) -> Remote | None:
    """Makes a client in place of a tracker or a timeline on a store, where it is the turn of that."""
    return remotes.maker(clock) if kind == CLIENT else None


@pytest.fixture
def store(kind: str, shared_store: Callable[[str, str], Store]) -> Store:
    """A store that other tests use, too: take ids of your own."""
    return shared_store(kind, "suite")


@pytest.fixture
def fresh_store(kind: str, opener: Opener) -> Iterator[Store]:
    """An empty store of this test's own, for those that look at all there is: lists and expiry."""
    with opener(kind) as store:
        yield store


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def tracker(store: Store, clock: HandClock, remote: Remote | None) -> Tracker:
    return tracker_on(store, clock, remote)


@pytest.fixture
def fresh_tracker(fresh_store: Store, clock: HandClock, remote: Remote | None) -> Tracker:
    return tracker_on(fresh_store, clock, remote)


@pytest.fixture(params=["alone", "among others"])
def finishing(request: pytest.FixtureRequest, tracker: Tracker) -> Finishing:
    """Acks and fails, alone in a call and among others: stores may know a shorter way for one group."""
    return Finishing(tracker, request.param)


def pytest_make_parametrize_id(config: pytest.Config, val: object) -> str | None:
    """Strange names would make strange test ids, which differ between workers or break a terminal."""
    return ascii(val)[:40] if isinstance(val, str) and not (val.isascii() and val.isprintable()) else None
