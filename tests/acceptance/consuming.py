"""A consumer as a process of its own: handles messages, and notes each in a file as it ends."""

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

from batchline import Consumer, LeasedMessage, Timeline, open_store

__all__ = ["LEASE", "main"]

#: Longer than any test: what a killed consumer held comes back early only to itself.
LEASE = timedelta(hours=1)


def main(url: str, noted: Path) -> None:
    """Consume until SIGTERM."""
    store = open_store(url)

    async def handle(message: LeasedMessage) -> None:
        await asyncio.sleep(0.005)
        with noted.open("a") as file:
            file.write(f"{message.id}\n")

    consumer = Consumer(Timeline(store), "jobs", handle, consumer="worker", concurrency=8, lease=LEASE)
    asyncio.run(consumer.run(signals=True))
    store.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
