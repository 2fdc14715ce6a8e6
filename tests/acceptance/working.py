"""A worker as a process of its own: its sink notes each parcel in a file, as it arrives."""

import asyncio
import os
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from batchline import Timeline, open_store
from batchline.core.consignment import Consignment
from batchline.runtime.worker import Worker
from batchline.sinks.sink import Sink

__all__ = ["Notebook", "main"]

#: What a killed worker held comes back after so long to others.
LEASE = timedelta(seconds=2)
#: And its share of the lanes after so long, which is longer than a consumer is silent.
LIVE_FOR = timedelta(seconds=6)


class Notebook(Sink):
    """Writes a line a parcel; several processes write in one file, each line whole."""

    def __init__(self, noted: Path):
        self._file = os.open(noted, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def send(self, parcels: Sequence[Consignment]) -> None:
        """Take a while, and note them."""
        await asyncio.sleep(0.01)
        os.write(self._file, b"".join(b"%d %d\n" % (parcel.lane, parcel.number) for parcel in parcels))

    async def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def main(url: str, noted: Path, name: str) -> None:
    """Work until SIGTERM."""
    with open_store(url) as store:

        async def work() -> None:
            timeline = Timeline(store, live_for=LIVE_FOR)
            worker = Worker(store, "parcels", Notebook(noted), worker=name, lease=LEASE, in_hand=60, timeline=timeline)
            await worker.run(signals=True)

        asyncio.run(work())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
