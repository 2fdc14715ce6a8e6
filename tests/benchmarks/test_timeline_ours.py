"""What the benchmark fills our tables with is as if calls had created it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.timeline_ours import WAYS, Ours
from tests.benchmarks.tracker_disk import DATABASES

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("database", DATABASES)
@pytest.mark.parametrize("way", WAYS)
def test_messages_that_the_server_made_are_counted_and_wait_while_others_live(
    way: str, database: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = (
        f"sqlite:///{tmp_path}/ours.db"
        if database == "SQLite"
        else request.getfixturevalue(f"{database.lower()}_database")
    )
    with closing(Ours(url, way)) as ours:
        ours.preload(1_000)
        assert ours.timeline.count("bench").waiting == ours.load() == 1_000
        ours.create([b"one", b"two", b"three"])
        assert ours.count() == 1_003
        tokens = ours.lease(10)
        assert len(tokens) == 3
        assert ours.done(tokens) == 3
        while ours.prune():
            pass
        assert ours.ended() == 0
        assert ours.timeline.count("bench").waiting == ours.count() == 1_000
