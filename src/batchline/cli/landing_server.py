"""The server of `batchline ingest http`, and of a pipeline that takes measurements in."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from batchline.runtime.clock import now_us
from batchline.service.group_commit import GroupCommit
from batchline.service.listening import address_of, listening, serve_app
from batchline.service.measurements import OPERATIONS
from batchline.service.service import Service
from batchline.sources.landing import Landing
from batchline.stores import Store, open_store

__all__ = ["serve_measurements"]


@dataclass(frozen=True, slots=True)
class _Counts:
    received: int
    landed: int
    malformed: int


def serve_measurements(
    landing: Landing,
    listen: str,
    look: Callable[[Any], None],
    tell: Callable[[str], None],
    *,
    insecure: bool,
    stop: threading.Event | None = None,
) -> dict[str, int]:
    """Serve until SIGINT or SIGTERM, or, in a thread, until `stop` is set; what has landed."""
    group = GroupCommit(landing, now_us)
    # It needs no store, so there are no tokens: whoever reaches it may send.
    with listening(listen, insecure=insecure) as listener, open_store("memory://") as store:
        tell(f"listening on {address_of(listener)}/v1/measurements")
        with closing(_service(store, group)) as service:
            asyncio.run(serve_app(service.app, listener, lambda: look(_counted(group)), stop, gate=service.gate))
    look(_counted(group))
    return {"landed": group.landed, "malformed": group.malformed, "files": group.files}


def _service(store: Store, group: GroupCommit) -> Service:
    return Service(store, landing=group, operations=OPERATIONS, sockets=(), threads=2, any_host=True)


def _counted(group: GroupCommit) -> _Counts:
    return _Counts(group.landed + group.malformed, group.landed, group.malformed)
