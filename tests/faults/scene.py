"""One run: everything started, injured by a plan, mended, waited for, stopped, and what is there then."""

import json
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from subprocess import TimeoutExpired
from typing import Final

from batchline.errors import StoreError
from batchline.leases import open_leases
from batchline.runtime.clock import elapsed_seconds, now_us
from batchline.stores import Store, open_store
from tests.faults.canary import Canary
from tests.faults.cast import DATABASE, PART_ORDER, Cast, Places
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
from tests.faults.network import Network
from tests.faults.parts import Part, write_settings
from tests.faults.plan import WORKERS, Fault
from tests.faults.pulse import Pulse
from tests.faults.recovery import Happening, Stall, gaps_of, stalls
from tests.faults.store_disk import postgresql_on_a_disk
from tests.servers.launch import hold_port
from tests.servers.own import OwnServer, own_server
from tests.sinks.own_receiver import OwnReceiver, own_receiver

__all__ = ["Outcome", "Scene", "play"]

TICK_S: Final = 0.05
LOOK_S: Final = 0.25
#: For Spark to start on a machine that is busy, and for what is under way when all is mended.
START_S, DRAIN_S = 300.0, 300.0
END_S: Final = 60.0
SERVERS: Final = {"redis": "durable_redis", "mosquitto": "mosquitto"}
#: Parts that beat: their links to the database are never idle for long.
BEATING: Final = (*WORKERS, "service")


@dataclass(slots=True)
class Outcome:
    """What a run was like."""

    evidence: Evidence
    #: What happened, with its moment.
    history: list[str]
    #: How often what ended without anybody's doing.
    ended: Counter[str] = field(default_factory=Counter)
    #: From the last mend to the end of all.
    drain_s: float = 0.0
    #: What was wrong with the run itself.
    troubles: list[str] = field(default_factory=list)
    #: The faults as they came about.
    happenings: list[Happening] = field(default_factory=list)


class Scene:
    """The parts of a run, by their names."""

    def __init__(self, cast: Cast, disks: dict[str, Disk], pulse: Pulse, seed: int):
        self.cast, self.disks, self._pulse = cast, disks, pulse
        self.servers, self.receiver, self.network = cast.servers, cast.receiver, cast.network
        self.places, self.parts = cast.places, cast.parts
        write_settings(self.places.home / "spark-defaults.conf")
        cast.hire(seed)
        self.chance, self.canary = Random(seed), Canary()
        #: The marks of strays that were posted.
        self.strays: list[str] = []
        #: Processes that are frozen.
        self.strangers: list[Part] = []
        self.history: list[str] = []
        self.happenings: list[Happening] = []
        self.ended: Counter[str] = Counter()
        self.troubles: list[str] = []
        #: What is to be done when, in the course of a fault.
        self._agenda: list[tuple[float, Callable[[], None]]] = []
        #: Who has to end soon, as which process, and until when.
        self._ending: dict[str, tuple[int | None, float]] = {}
        self._pause, self._began_s = threading.Event(), elapsed_seconds()
        self._device_ended_s = 0.0

    def store(self, patience: str = "30s") -> Store:
        """Open the store, past the network. It waits for `patience` while the server is down."""
        return open_store(f"{self.servers[DATABASE].url}?patience={patience}")

    # --- its life ---

    def start(self) -> None:
        """Start all; returns when the first parcel has arrived."""
        with self.store() as store:
            self.canary.plant(store)
        for name in ("ingest", "service"):
            self.parts[name].start()
        # Before that, a broker keeps nothing for it.
        self._wait("nobody has subscribed", START_S, lambda: "subscribed" in self.parts["ingest"].log.read_text())
        for name in ("device", *WORKERS):
            self.parts[name].start()
        self._wait("nothing has landed", START_S, lambda: any(self.places.landing.glob("*.jsonl")))
        self.parts["driver"].start()
        self._wait("nothing has arrived", START_S, lambda: bool(self._pulse.moments))
        self._began_s = elapsed_seconds()

    def play(self, plan: list[Fault]) -> None:
        """Let all faults happen, and mend each when it is time."""
        waiting, to_mend = list(plan), list[tuple[Fault, float]]()
        while waiting or to_mend:
            for one in [one for one in to_mend if one[0].at_s + one[0].for_s <= self._now_s]:
                to_mend.remove(one)
                self._mend(*one)
            for fault in [one for one in waiting if one.at_s <= self._now_s]:
                waiting.remove(fault)
                self.note(f"injure {fault}")
                to_mend.append((fault, self._now_s))
                injure(self, fault)
            self._tick()

    def _mend(self, fault: Fault, injured_s: float) -> None:
        self.note(f"mend   {fault}")
        mend(self, fault)
        self.happenings.append(Happening(fault, injured_s, self._now_s))

    def later(self, seconds: float, do: Callable[[], None]) -> None:
        """Do something while a fault lasts."""
        self._agenda.append((elapsed_seconds() + seconds, do))

    def expect_end(self, name: str) -> None:
        """Whoever is meant was told to end, or has lost what it needs: it is started again when it has ended."""
        self._ending[name] = (self.parts[name].pid, elapsed_seconds() + END_S)

    def drain(self) -> float:
        """End the device, and wait until nothing is under way; how long that took."""
        began_s = elapsed_seconds()
        self.parts["device"].wanted = False
        self.parts["device"].signal(signal.SIGTERM)
        self._wait("the device is not done", DRAIN_S, lambda: self.parts["device"].pid is None)
        self._device_ended_s = self._now_s
        self._wait("something is left", DRAIN_S, self._is_drained)
        return elapsed_seconds() - began_s

    def stop(self) -> None:
        """Stop all kindly, from the source on."""
        self._ending.clear()
        for name in PART_ORDER:
            self.note(f"stop {name}")
            try:
                code = self.parts[name].stop()
            except TimeoutExpired:
                raise TroubleError(f"{name} did not end") from None
            if code not in (0, 3):
                raise TroubleError(f"{name} ended with {code} when it was stopped")

    def kill(self) -> None:
        """End all that still runs."""
        for part in (*self.parts.values(), *self.strangers):
            part.kill()

    def evidence(self) -> Evidence:
        """What is there now."""
        evidence = Evidence(read_log(self.places.device_log), landed_rows(self.places.landing))
        evidence.malformed = malformed_numbers(self.places.landing)
        evidence.rejected = rejected_rows(self.places.out)
        evidence.strays = self.strays
        evidence.add_arrivals(self.receiver.arrived())
        with self.store() as store:
            evidence.add_store(store)
            evidence.harm = list(self.canary.harm(store))
        with open_leases(self.servers["redis"].url, "capacity") as leases:
            evidence.left["leases on capacity"] = len(leases.holders(now_us()))
        summary = self.parts["driver"].out.read_text()
        if summary:
            evidence.add_summary(json.loads(summary))
        evidence.stalls = self._stalls()
        return evidence

    def _stalls(self) -> list[Stall]:
        """Every time without progress while the device sent."""
        until_s = self._device_ended_s or self._now_s
        streams = self._pulse.moments | {name: self.cast.links[name, DATABASE].answers for name in BEATING}
        since = {name: [one - self._began_s for one in moments] for name, moments in streams.items()}
        gaps = [gap for name, moments in since.items() for gap in gaps_of(name, moments, 0.0, until_s)]
        return stalls(gaps, self.happenings, self._pulse.busy)

    def keep_logs(self) -> None:
        """What the servers have said, beside what the other parts have."""
        for name, server in self.servers.items():
            shutil.copy(server.log, self.places.home / f"{name}.log")

    # --- its time ---

    @property
    def _now_s(self) -> float:
        return elapsed_seconds() - self._began_s

    def note(self, what: str) -> None:
        """Write into the history."""
        self.history.append(f"{self._now_s:7.2f}  {what}")
        with (self.places.home / "history.txt").open("a") as history:
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
        for entry in [one for one in self._agenda if one[0] <= elapsed_seconds()]:
            self._agenda.remove(entry)
            entry[1]()
        for name, part in self.parts.items():
            if part.has_ended:
                self._ended(name)
                part.start()
        for name, (pid, until_s) in list(self._ending.items()):
            if elapsed_seconds() > until_s:
                self._hangs(name, pid)

    def _ended(self, name: str) -> None:
        process = self.parts[name].process
        as_expected = self._ending.pop(name, None) is not None
        code = process.returncode if process else None
        self.note(f"{name} has ended {'' if as_expected else 'by itself '}with {code}, and is started again")
        self.ended[name] += not as_expected

    def _hangs(self, name: str, pid: int | None) -> None:
        del self._ending[name]
        if self.parts[name].pid == pid:
            self.troubles.append(f"{name} has not ended within {END_S:g} s, and should have")
            self.note(f"{name} hangs, and is killed")
            self.parts[name].kill()
            self.parts[name].start()

    def _is_drained(self) -> bool:
        """Whether every row that has landed has its fate, and nothing is under way."""
        self._pause.wait(LOOK_S)
        fates = len(rejected_rows(self.places.out)) + sum(len(one.measurements) for one in self.receiver.arrived())
        with suppress(StoreError), self.store() as store:
            fates += sum(parcel.count for parcel in dead_letters(store))
            return fates >= len(landed_rows(self.places.landing)) and not any(left_in(store).values())
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
        return Outcome(evidence, scene.history, scene.ended, drain_s, scene.troubles, scene.happenings)


@contextmanager
def scene_of(home: Path, seed: int) -> Iterator[Scene]:
    """Servers, a receiver, disks and a network of its own."""
    with ExitStack() as stack:
        database, data = stack.enter_context(postgresql_on_a_disk())
        servers: dict[str, OwnServer] = {DATABASE: database}
        servers |= {name: stack.enter_context(own_server(kind)) for name, kind in SERVERS.items()}
        receiver: OwnReceiver = stack.enter_context(own_receiver())
        disks = {name: stack.enter_context(small_disk(home / name)) for name in ("landing", "results")}
        service = stack.enter_context(hold_port()).getsockname()[1]
        places = Places(home, disks["landing"].directory / "landing", disks["results"].directory / "out", service)
        cast = Cast(places, stack.enter_context(Network()), servers, receiver)
        pulse = stack.enter_context(Pulse(receiver.state))
        scene = Scene(cast, disks | {DATABASE: data}, pulse, seed)
        stack.callback(scene.keep_logs)
        stack.callback(scene.kill)
        yield scene
