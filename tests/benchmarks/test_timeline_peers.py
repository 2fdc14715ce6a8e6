"""The peers of the timeline do what they are measured for: each message is leased once, and none is left."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.timeline_peers import PEERS, missing, peer

if TYPE_CHECKING:
    from pathlib import Path


#: pgmq is among them where a user names its file.
HERE = [(database, name) for database in PEERS for name in PEERS[database] if not missing(name)]


@pytest.mark.parametrize(("database", "name"), HERE)
def test_every_message_that_is_due_is_leased_once_and_done(
    database: str, name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = (
        f"sqlite:///{tmp_path}/peer.db"
        if database == "SQLite"
        else request.getfixturevalue(f"{database.lower()}_database")
    )
    with peer(name, url) as queue, ThreadPoolExecutor(4) as threads:
        queue.preload(50)
        list(threads.map(queue.create, [[b"\0\xff one", b"two"] * 10] * 4))
        leased = list(threads.map(queue.lease, [20] * 8))
        assert sum(map(len, leased)) == 80
        assert queue.lease(1) == []
        assert sum(threads.map(queue.done, [tokens for tokens in leased if tokens])) == 80
        assert queue.lease(1) == []
