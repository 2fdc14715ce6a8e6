"""One run: everything started, injured by a plan, mended, waited for, stopped, and what is there then."""

import json
import shutil
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Final

from batchline.errors import StoreError
from batchline.leases import open_leases
from batchline.runtime.clock import elapsed_seconds, now_us
from batchline.stores import open_store
from tests.faults.disk import Disk, small_disk
from tests.faults.evidence import (
    Evidence,
    dead_letters,
    landed_rows,
    left_in,
    malformed_numbers,
    read_log,
    rejected_rows,
)
from tests.faults.injury import injure, mend
from tests.faults.parts import Part, write_settings
from tests.faults.pipeline import write_pipeline
from tests.faults.plan import WORKERS, Fault
from tests.servers.own import OwnServer, own_server
from tests.sinks.own_receiver import OwnReceiver, own_receiver

__all__ = ["Outcome", "Scene", "play"]

TICK_S: Final = 0.05
LOOK_S: Final = 0.25
#: A time without an arrival that is told.
LONG_S: Final = 5.0
PER_SECOND: Final = 60
#: For Spark to start on a machine that is busy, and for what is under way when all is mended.
START_S, DRAIN_S = 180.0, 180.0
END_S: Final = 60.0
SERVERS: Final = {"postgresql": "postgresql", "redis": "durable_redis", "mosquitto": "mosquitto"}


@dataclass(slots=True)
class Outcome:
    """What a run was like."""

    evidence: Evidence
    #: What happened, with its moment.
    history: list[str]
    #: How often what ended without anybody's doing.
    ended: Counter[str] = field(default_factory=Counter)
    #: The longest time without an arrival while devices sent; and from the last mend to the end of all.
    longest_s: float = 0.0
    drain_s: float = 0.0
    #: What was wrong with the run itself.
    troubles: list[str] = field(default_factory=list)


class Scene:
    """The parts of a run, by their names."""

    def __init__(self, home: Path, servers: dict[str, OwnServer], receiver: OwnReceiver, disk: Disk, seed: int):
        self.servers, self.receiver, self.disk = servers, receiver, disk
        write_settings(home / "spark-defaults.conf")
        self.home, self.landing, self.out = home, disk.directory / "landing", home / "out"
        self.history: list[str] = []
        self.ended: Counter[str] = Counter()
        self.troubles: list[str] = []
        #: Who has to end soon, as which process, and until when.
        self._ending: dict[str, tuple[int | None, float]] = {}
        self._pause, self._began_s = threading.Event(), elapsed_seconds()
        self._seen, self._seen_at_s, self._looked_s, self.longest_s = 0, 0.0, 0.0, 0.0
        toml = home / "pipeline.toml"
        store, shared = servers["postgresql"].url, servers["redis"].url
        write_pipeline(toml, self.landing, self.out, store, shared, receiver.url)
        broker, log = servers["mosquitto"].url, home / "device.jsonl"
        words: dict[str, tuple[str, list[object]]] = {
            "device": ("tests.faults.device", [broker, log, PER_SECOND, seed]),
            "ingest": ("batchline", ["ingest", "mqtt", broker, "--into", self.landing, "--json"]),
            "driver": ("batchline", ["run", toml, "--json"]),
        } | {name: ("batchline", ["work", toml, "--name", name, "--json"]) for name in WORKERS}
        self.parts = {name: Part(name, module, more, home) for name, (module, more) in words.items()}

    # --- its life ---

    def start(self) -> None:
        """Start all; returns when the first parcel has arrived."""
        self.parts["ingest"].start()
        # Before that, a broker keeps nothing for it.
        self._wait("nobody has subscribed", START_S, lambda: "subscribed" in self.parts["ingest"].log.read_text())
        for name in ("device", *WORKERS):
            self.parts[name].start()
        self._wait("nothing has landed", START_S, lambda: any(self.landing.glob("*.jsonl")))
        self.parts["driver"].start()
        self._wait("nothing has arrived", START_S, lambda: bool(self._arrivals()))
        self._began_s = self._seen_at_s = elapsed_seconds()
        self.longest_s = 0.0

    def play(self, plan: list[Fault]) -> None:
        """Let all faults happen, and mend each when it is time."""
        waiting, to_mend = list(plan), list[Fault]()
        while waiting or to_mend:
            for fault in [one for one in to_mend if one.at_s + one.for_s <= self._now_s]:
                to_mend.remove(fault)
                self._note(f"mend   {fault}")
                mend(self, fault)
            for fault in [one for one in waiting if one.at_s <= self._now_s]:
                waiting.remove(fault)
                to_mend.append(fault)
                self._note(f"injure {fault}")
                injure(self, fault)
            self._tick()

    def expect_end(self, name: str) -> None:
        """Whoever is meant was told to end, or has lost what it needs: it is started again when it has ended."""
        self._ending[name] = (self.parts[name].pid, elapsed_seconds() + END_S)

    def drain(self) -> float:
        """End the device, and wait until nothing is under way; how long that took."""
        began_s = elapsed_seconds()
        self.parts["device"].wanted = False
        self.parts["device"].signal(signal.SIGTERM)
        self._wait("the device is not done", DRAIN_S, lambda: self.parts["device"].pid is None)
        self._wait("something is left", DRAIN_S, self._is_drained)
        return elapsed_seconds() - began_s

    def stop(self) -> None:
        """Stop all kindly, from the source on."""
        self._ending.clear()
        for name in ("device", "ingest", "driver", *WORKERS):
            self._note(f"stop {name}")
            try:
                code = self.parts[name].stop()
            except TimeoutExpired:
                raise TroubleError(f"{name} did not end") from None
            if code not in (0, 3):
                raise TroubleError(f"{name} ended with {code} when it was stopped")

    def kill(self) -> None:
        """End all that still runs."""
        for part in self.parts.values():
            part.kill()

    def evidence(self) -> Evidence:
        """What is there now."""
        evidence = Evidence(read_log(self.home / "device.jsonl"), landed_rows(self.landing))
        evidence.malformed = malformed_numbers(self.landing)
        evidence.rejected = rejected_rows(self.out)
        evidence.add_arrivals(self.receiver.arrived())
        with open_store(self.servers["postgresql"].url) as store:
            evidence.add_store(store)
        with open_leases(self.servers["redis"].url, "capacity") as leases:
            evidence.left["leases on capacity"] = len(leases.holders(now_us()))
        summary = self.parts["driver"].out.read_text()
        if summary:
            evidence.add_summary(json.loads(summary))
        return evidence

    def keep_logs(self) -> None:
        """What the servers have said, beside what the other parts have."""
        for name, server in self.servers.items():
            shutil.copy(server.log, self.home / f"{name}.log")

    # --- its time ---

    @property
    def _now_s(self) -> float:
        return elapsed_seconds() - self._began_s

    def _note(self, what: str) -> None:
        self.history.append(f"{self._now_s:7.2f}  {what}")
        with (self.home / "history.txt").open("a") as history:
            history.write(self.history[-1] + "\n")

    def _wait(self, trouble: str, most_s: float, done: Callable[[], bool]) -> None:
        until_s = elapsed_seconds() + most_s
        while not done():
            if elapsed_seconds() > until_s:
                raise TroubleError(f"{trouble} after {most_s:g} s")
            self._tick()

    def _tick(self) -> None:
        """Be a supervisor for a moment: what has ended by itself is started again."""
        self._pause.wait(TICK_S)
        for name, part in self.parts.items():
            if part.has_ended:
                self._ended(name, part)
                part.start()
        for name, (pid, until_s) in list(self._ending.items()):
            if elapsed_seconds() > until_s:
                self._hangs(name, pid)
        if elapsed_seconds() - self._looked_s > LOOK_S:
            self._look()

    def _ended(self, name: str, part: Part) -> None:
        code = part.process.returncode if part.process else None
        as_expected = self._ending.pop(name, None) is not None
        self._note(f"{name} has ended {'' if as_expected else 'by itself '}with {code}, and is started again")
        self.ended[name] += not as_expected

    def _hangs(self, name: str, pid: int | None) -> None:
        del self._ending[name]
        if self.parts[name].pid == pid:
            self.troubles.append(f"{name} has not ended within {END_S:g} s, and should have")
            self._note(f"{name} hangs, and is killed")
            self.parts[name].kill()
            self.parts[name].start()

    def _look(self) -> None:
        self._looked_s = elapsed_seconds()
        arrived = self._arrivals()
        paused_s = self._looked_s - self._seen_at_s
        self.longest_s = max(self.longest_s, paused_s)
        if arrived != self._seen:
            if paused_s > LONG_S:
                self._note(f"parcels arrive again, after {paused_s:.1f} s")
            self._seen, self._seen_at_s = arrived, self._looked_s

    def _arrivals(self) -> int:
        """How many parcels have arrived, without a question to the receiver, which may be down or hang."""
        with closing(sqlite3.connect(f"file:{self.receiver.state}?mode=ro", uri=True)) as database:
            return int(database.execute("SELECT count(*) FROM arrivals").fetchone()[0])

    def _is_drained(self) -> bool:
        """Whether every row that has landed has its fate, and nothing is under way."""
        self._pause.wait(LOOK_S)
        fates = len(rejected_rows(self.out)) + sum(len(one.measurements) for one in self.receiver.arrived())
        with suppress(StoreError), open_store(self.servers["postgresql"].url) as store:
            fates += sum(parcel.count for parcel in dead_letters(store))
            return fates >= len(landed_rows(self.landing)) and not any(left_in(store).values())
        return False


class TroubleError(Exception):
    """A run did not go as it must."""


def play(seed: int, plan: list[Fault], home: Path) -> Outcome:
    """A run: what it left, and what was wrong with it; logs of all its processes are in `home`."""
    with scene_of(home, seed) as scene:
        drain_s = 0.0
        try:
            scene.start()
            scene.play(plan)
            drain_s = scene.drain()
            scene.stop()
        except TroubleError as error:
            scene.troubles.append(str(error))
        scene.kill()
        evidence = scene.evidence()
        evidence.refused_on_purpose = any(fault.how == "refuse" for fault in plan)
        return Outcome(evidence, scene.history, scene.ended, scene.longest_s, drain_s, scene.troubles)


@contextmanager
def scene_of(home: Path, seed: int) -> Iterator[Scene]:
    """Servers, a receiver and a disk of its own."""
    with ExitStack() as stack:
        servers = {name: stack.enter_context(own_server(kind)) for name, kind in SERVERS.items()}
        receiver = stack.enter_context(own_receiver())
        scene = Scene(home, servers, receiver, stack.enter_context(small_disk(home / "disk")), seed)
        stack.callback(scene.keep_logs)
        stack.callback(scene.kill)
        yield scene
