"""Workers as processes that are killed at any moment, and started again: every parcel arrives, each lane in order."""

import random
import signal
import subprocess
import sys
from pathlib import Path

from batchline import Timeline, Tracker, open_store
from batchline.runtime.deliveries import Deliveries
from batchline.runtime.publisher import Publisher, make_topics
from tests.contract.parcels.posting import parcels_of
from tests.stores.racing import MORE, PATIENCE_S
from tests.waiting import wait_until

LANES, PARCELS, WORKERS, KILLS = 12, 40 * MORE, 3, 5 * MORE


class Crew:
    """Workers by name, each a process."""

    def __init__(self, url: str, noted: Path):
        self._program = [sys.executable, "-m", "tests.acceptance.working", url, str(noted)]
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        self.processes[name] = subprocess.Popen([*self._program, name])

    def end(self, name: str, how: signal.Signals) -> int:
        process = self.processes.pop(name)
        process.send_signal(how)
        return process.wait(PATIENCE_S)


def test_workers_that_are_killed_at_any_moment_lose_nothing_and_keep_the_order(
    postgresql_database: str, tmp_path: Path
) -> None:
    dice, noted = random.Random(7), tmp_path / "noted"
    noted.touch()
    crew = Crew(postgresql_database, noted)
    with open_store(postgresql_database) as store:
        timeline, tracker = Timeline(store), Tracker(store)
        make_topics(timeline, "parcels")
        fanout = tracker.open().id
        publisher = Publisher(store, "parcels", fanout)
        for first in range(1, PARCELS, 20):
            for lane in range(LANES):
                publisher.post(parcels_of("import", lane, first, first + 19))
        tracker.seal(fanout)
        try:
            for number in range(WORKERS):
                crew.start(f"w{number}")
            for kill in range(KILLS):
                enough = (kill + 1) * LANES * PARCELS // (KILLS + 2)
                wait_until(lambda enough=enough: noted.read_bytes().count(b"\n") >= enough)  # type: ignore[misc]
                name = dice.choice(sorted(crew.processes))
                crew.end(name, signal.SIGKILL)
                crew.start(name if kill else "another")  # to whom its leases come when they have run out
            wait_until(lambda: timeline.count("parcels").total == 0)
            assert [crew.end(name, signal.SIGTERM) for name in list(crew.processes)] == [0] * WORKERS
        finally:
            for process in crew.processes.values():
                process.kill()
                process.wait()
        status = tracker.status(fanout)
        assert (status.state, status.pending, status.failed) == ("complete", 0, 0)
        reached = Deliveries(store, timeline, "parcels").reached(["import"])
        assert reached == {("import", lane): PARCELS for lane in range(LANES)}

    arrived = list(dict.fromkeys(tuple(map(int, line.split())) for line in noted.read_text().splitlines()))
    for lane in range(LANES):
        assert [number for one, number in arrived if one == lane] == list(range(1, PARCELS + 1))
