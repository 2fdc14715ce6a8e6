"""What joins the stages, without Spark."""

import threading
from collections.abc import Sequence

import pytest

from batchline import Consignment, Publisher, Timeline, Tracker, Worker, open_store
from batchline.core.watch import unwatched
from batchline.errors import SinkClosed
from batchline.flow import _await_delivery
from batchline.runtime.completion import Completion
from batchline.runtime.publisher import make_topics
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
            _await_delivery(completion, working, unwatched, threading.Event())
        assert Timeline(store).count("parcels").total == 1
