"""Is a process of the service there, and can it do its work?"""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from batchline import Store, open_store
from batchline.errors import SchemaMismatch
from batchline.runtime.clock import elapsed_seconds, now_us
from batchline.runtime.tokens import Tokens
from batchline.service import service as service_module
from batchline.service.service import Service
from batchline.service.timed_store import TimedStore
from batchline.stores.migrations import SchemaVersion
from tests.service.asking import Asking


class HangingStore(TimedStore):
    """A store whose database hangs until it is let."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, lambda *_: None)
        self.let = threading.Event()

    def read(self, work: Callable[[Any], Any]) -> Any:
        assert self.let.wait(30)
        return super().read(work)

    def snapshot(self, work: Callable[[Any], Any]) -> Any:
        assert self.let.wait(30)
        return super().snapshot(work)

    def schema(self) -> SchemaVersion:
        assert self.let.wait(30)
        return super().schema()


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("memory://") as store:
        yield store


def test_a_process_that_answers_is_live(store: Store) -> None:
    with closing(Service(store)) as service:
        assert Asking(service).get("/health/live").json()["status"] == "live"


def test_it_is_ready_when_the_database_is_and_says_what_it_knows(store: Store) -> None:
    with closing(Service(store)) as service:
        answer = Asking(service).get("/health/ready").json()
        assert (answer["status"], answer["database"]) == ("ready", "memory://")
        assert (answer["drift_ms"], answer["brokers"]) == (0.0, 1)


def test_neither_needs_a_token_nor_another_name_than_the_one_it_is_probed_by(store: Store) -> None:
    Tokens(store).create("someone", admin=True)
    with closing(Service(store)) as service:
        for path in ("/health/live", "/health/ready", "/openapi.json"):
            assert Asking(service).get(path, host="10.0.0.7:8080").status == 200
        assert Asking(service).get("/metrics").problem == "Unauthorized"


def test_a_clock_that_is_off_makes_it_unready(tmp_path: Path) -> None:
    with (
        open_store(f"sqlite:///{tmp_path / 'b.db'}") as store,
        closing(Service(store, clock=lambda: now_us() + 5_000_000)) as service,
    ):
        service.background.compare_clocks()
        answer = Asking(service).get("/health/ready")
        assert (answer.status, answer.problem) == (503, "NotReady")
        found = re.search(r"the clock is off by \+(\S+) s", answer.json()["detail"])
        assert found is not None
        assert 4 < float(found[1]) < 6  # the two clocks are read one after the other
        assert answer.headers["retry-after"] == "1"


def test_a_schema_that_is_not_the_right_one_makes_it_unready(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def mismatch() -> None:
        raise SchemaMismatch("the schema of memory:// lacks 0005_service")

    monkeypatch.setattr(store, "check_schema", mismatch)
    with closing(Service(store)) as service:
        answer = Asking(service).get("/health/ready")
        assert (answer.problem, answer.json()["detail"]) == ("NotReady", "the schema of memory:// lacks 0005_service")


def test_while_the_database_hangs_it_says_so_in_time_and_is_ready_afterwards(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "LOOK_S", 0.05)
    hanging = HangingStore(store)
    with closing(Service(hanging)) as service:
        began = elapsed_seconds()
        for _ in range(3):
            answer = Asking(service).get("/health/ready")
            assert answer.problem == "NotReady"
            assert "does not answer within 0.05 s" in answer.json()["detail"]
        assert Asking(service).get("/health/live").status == 200
        assert elapsed_seconds() - began < 5
        hanging.let.set()
        monkeypatch.undo()
        while Asking(service).get("/health/ready").status != 200:
            assert elapsed_seconds() - began < 20


def test_health_and_metrics_are_answered_when_there_is_too_much_to_do(store: Store) -> None:
    with closing(Service(store, most_under_way=0)) as service:
        assert Asking(service).get("/v1/topics").problem == "Overloaded"
        for path in ("/health/live", "/health/ready", "/metrics"):
            assert Asking(service).get(path).status == 200


class Panic(BaseException):
    """An error that is no Exception."""


@pytest.mark.parametrize("error", [Panic(), SystemExit(3), ZeroDivisionError()], ids=repr)
def test_a_check_of_the_schema_that_raises_anything_makes_it_unready_and_is_logged(
    store: Store, error: BaseException, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(store, "check_schema", fail)
    with closing(Service(store)) as service:
        answer = Asking(service).get("/health/ready")
        assert (answer.status, answer.problem) == (503, "NotReady")
        assert [one.loop for one in service.troubles()] == ["schema_check"]
    assert type(error).__name__ in caplog.text
