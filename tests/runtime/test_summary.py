"""Who waits for the delivery."""

import threading
from collections.abc import Sequence

import pytest

from batchline import Consignment, Publisher, Timeline, Tracker, Worker, open_store
from batchline.core.watch import unwatched
from batchline.errors import SinkClosed, StoreUnavailable
from batchline.runtime import supervisor
from batchline.runtime.completion import Completion
from batchline.runtime.publisher import make_topics
from batchline.runtime.summary import await_delivery
from batchline.runtime.working import Working
from batchline.sinks import Sink
from tests.contract.parcels.posting import parcel_of


class Closed(Sink):
    """Nobody reads it."""

    def send(self, parcels: Sequence[Consignment]) -> None:
        raise SinkClosed(f"nobody reads {len(parcels)} parcels")


def test_who_waits_for_the_delivery_is_told_that_the_worker_has_ended() -> None:
    with open_store("memory://") as store:
        make_topics(Timeline(store), "parcels")
        Tracker(store).open("import", labels={"pipeline": "fleet"})
        Publisher(store, "parcels", "import").post([parcel_of("import", 0, 1)])
        completion = Completion(Tracker(store), {"pipeline": "fleet"})
        with pytest.raises(SinkClosed), Working(lambda: Worker(store, "parcels", Closed())) as working:
            await_delivery(completion, working, unwatched, threading.Event())
        assert Timeline(store).count("parcels").total == 1


class Failing(Completion):
    """Looks that fail with these errors, one after the other; after them nothing is pending."""

    def __init__(self, *errors: Exception):
        super().__init__(Tracker(open_store("memory://")), {})
        self.errors = list(errors)

    def look(self) -> None:
        if self.errors:
            raise self.errors.pop(0)
        super().look()


def test_an_outage_is_waited_out_and_logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "AWAY_S", 0.001)
    await_delivery(Failing(*[StoreUnavailable("it is away")] * 3), None, unwatched, threading.Event())
    assert [one.getMessage() for one in caplog.records] == [
        "loop delivery: it is away; it is tried again until it succeeds",
        "loop delivery runs again; failed steps: 3",
    ]


def test_any_other_error_ends_the_wait() -> None:
    with pytest.raises(ZeroDivisionError):
        await_delivery(Failing(ZeroDivisionError()), None, unwatched, threading.Event())
