"""Does a fault to the parts of a run, and mends it."""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from batchline.errors import StoreError
from tests.faults.parts import Part, is_stopped, java_below
from tests.faults.plan import Fault
from tests.faults.strays import post_strays
from tests.servers.own import OwnServer
from tests.servers.server import ServerFailedError
from tests.sinks.fault import Fault as SinkFault

if TYPE_CHECKING:
    from tests.faults.scene import Scene

__all__ = ["injure", "mend"]

#: Of a service whose clock is off: it is started so often, and asked for messages so long after each start.
RESTARTS, ASKED_S = 3, 2.0
STRANGER: Final = "stranger"
#: How often to look whether a stranger has its locks; and how long it may need to end when it goes on.
LOOK_S, GO_ON_S = 0.25, 3.0
STARTS, BETWEEN_STARTS_S = 50, 0.1
#: A share of requests, so that others get through meanwhile; and some that are for all.
SINK_FAULTS: Final = {
    "429": [SinkFault(status=429, retry_after="1", share=0.5)],
    "500": [SinkFault(status=500, share=0.7)],
    "hang": [SinkFault(do="hang", share=0.5)],
    "cut": [SinkFault(do="cut", share=0.7)],
    "cut after": [SinkFault(do="cut", taken=True, share=0.7)],
    "half": [SinkFault(do="half", taken=True, share=0.7)],
    "207": [SinkFault(status=207, again=(0, 2), share=0.6)],
    "refuse": [SinkFault(status=422, share=0.25), SinkFault(status=207, refused=(1,), share=0.3)],
}


def injure(scene: "Scene", fault: Fault) -> None:
    """Let it happen."""
    _DO[fault.do](scene, fault)


def mend(scene: "Scene", fault: Fault) -> None:
    """Let it be as before."""
    _MEND[fault.do](scene, fault)


def _kill(scene: "Scene", fault: Fault) -> None:
    if fault.target in scene.servers:
        scene.servers[fault.target].kill()
    elif fault.target == "receiver":
        scene.receiver.kill()
    elif fault.how == "java":
        _kill_java(scene)
    else:
        scene.parts[fault.target].kill(group=fault.how != "python")


def _kill_java(scene: "Scene") -> None:
    """The driver has to notice by itself: its supervisor starts it again when it has ended."""
    pid = scene.parts["driver"].pid
    scene.expect_end("driver")
    for java in java_below(pid) if pid is not None else []:
        with suppress(ProcessLookupError):
            os.kill(java, signal.SIGKILL)


def _restart(scene: "Scene", fault: Fault) -> None:
    if fault.target in scene.servers:
        scene.servers[fault.target].end(kindly=True)
    else:
        scene.expect_end(fault.target)
        scene.parts[fault.target].signal(signal.SIGTERM)


def _start(scene: "Scene", fault: Fault) -> None:
    if fault.target in scene.servers:
        start_server(scene.servers[fault.target])
    elif fault.target == "receiver":
        scene.receiver.start()
    elif not scene.parts[fault.target].wanted:
        scene.parts[fault.target].start()


def start_server(server: OwnServer) -> None:
    """Start it; PostgreSQL may have to wait until the last process of a killed one is gone."""
    pause = threading.Event()
    for _ in range(STARTS):
        with suppress(ServerFailedError):
            return server.start()
        pause.wait(BETWEEN_STARTS_S)
    return server.start()


def _pause(scene: "Scene", fault: Fault) -> None:
    scene.parts[fault.target].signal(signal.SIGSTOP)


def _go_on(scene: "Scene", fault: Fault) -> None:
    scene.parts[fault.target].signal(signal.SIGCONT)


def _freeze(scene: "Scene", fault: Fault) -> None:
    """Stop a client within a transaction. A stranger that is lost with its machine is cut off first."""
    if fault.target != STRANGER:
        scene.parts[fault.target].signal(signal.SIGUSR1)
        return
    url = scene.cast.address(STRANGER, "postgresql")
    part = Part(STRANGER, "tests.faults.frozen", ["stranger", url, fault.how], scene.places.home)
    part.start()
    part.wanted = False
    scene.strangers.append(part)
    if fault.how == "gone":
        scene.later(LOOK_S, lambda: _lose(scene, part))


def _lose(scene: "Scene", stranger: Part) -> None:
    """Its machine is gone, as soon as it has its locks: no FIN, no RST."""
    if not is_stopped(stranger.pid):
        if stranger in scene.strangers:
            scene.later(LOOK_S, lambda: _lose(scene, stranger))
        return
    scene.note("the stranger is stopped, and is lost")
    link = [scene.cast.links[STRANGER, "postgresql"]]
    scene.network.cut(link)
    scene.network.mend(link, "forget")
    stranger.kill()


def _thaw(scene: "Scene", fault: Fault) -> None:
    part = scene.strangers.pop() if fault.target == STRANGER else scene.parts[fault.target]
    scene.note(f"{part.name} is {'stopped' if is_stopped(part.pid) else 'not stopped'}")
    if part.name == STRANGER:
        scene.network.forget(scene.cast.links_of(STRANGER))
        # One may die as it is; or go on, and find what was done with its transaction.
        part.signal(scene.chance.choice((signal.SIGKILL, signal.SIGCONT)))
        scene.later(GO_ON_S, part.kill)
        return
    part.signal(signal.SIGUSR2)
    part.signal(signal.SIGCONT)


def _cut(scene: "Scene", fault: Fault) -> None:
    scene.network.cut(scene.cast.links_of(fault.target))


def _join(scene: "Scene", fault: Fault) -> None:
    scene.network.mend(scene.cast.links_of(fault.target), fault.how)


def _skew(scene: "Scene", fault: Fault) -> None:
    """A worker under another name: what it might leave behind is not found again by who comes after it."""
    if fault.target == "service":
        for time in range(RESTARTS):
            scene.later(time * fault.for_s / RESTARTS, lambda: _restart_skewed(scene, fault))
        return
    part = scene.parts[fault.target]
    part.kill()
    # Without the word that makes it one that can be frozen.
    words = part.words[1:]
    part.start("tests.faults.skewed_worker", fault.how, words=words, more=["--name", f"{fault.target}-skewed"])


def _restart_skewed(scene: "Scene", fault: Fault) -> None:
    """A service with a wrong clock, as another process than before; it is asked for what is not due."""
    part = scene.parts[fault.target]
    part.kill()
    part.start("tests.faults.skewed_worker", fault.how)
    scene.later(ASKED_S, lambda: scene.canary.tempt(scene.places.service_url))


def _unskew(scene: "Scene", fault: Fault) -> None:
    scene.parts[fault.target].kill()
    scene.parts[fault.target].start()


def _stray(scene: "Scene", fault: Fault) -> None:
    # No fault is mended while this waits.
    with suppress(StoreError), scene.store("100ms") as store:
        scene.strays += post_strays(store, scene.places.service_url, fault.how, scene.chance)


def _fill(scene: "Scene", fault: Fault) -> None:
    scene.disks[fault.target].fill(_writers(scene, fault.target))


def _clear(scene: "Scene", fault: Fault) -> None:
    scene.disks[fault.target].clear(_writers(scene, fault.target))
    # A database that has no room for its log ends, and cannot start.
    if fault.target in scene.servers and not scene.servers[fault.target].is_running:
        scene.note(f"{fault.target} has ended, and is started again")
        start_server(scene.servers[fault.target])


def _writers(scene: "Scene", disk: str) -> list[int]:
    """The processes that write there, and find no room where the disk itself cannot be filled."""
    name = {"landing": "ingest", "results": "driver"}.get(disk)
    pid = scene.parts[name].pid if name else None
    return [] if pid is None else [pid, *java_below(pid)]


def _nothing(_: "Scene", __: Fault) -> None:
    """There is nothing to mend."""


def _misbehave(scene: "Scene", fault: Fault) -> None:
    with suppress(OSError):  # it is down, and comes back with no fault
        scene.receiver.misbehave(*SINK_FAULTS[fault.how])


def _behave(scene: "Scene", _: Fault) -> None:
    with suppress(OSError):
        scene.receiver.misbehave()


_DO: Final[dict[str, Callable[["Scene", Fault], None]]] = {
    "kill": _kill,
    "restart": _restart,
    "pause": _pause,
    "freeze": _freeze,
    "cut": _cut,
    "skew": _skew,
    "stray": _stray,
    "fill": _fill,
    "sink": _misbehave,
}
_MEND: Final[dict[str, Callable[["Scene", Fault], None]]] = {
    "kill": _start,
    "restart": _start,
    "pause": _go_on,
    "freeze": _thaw,
    "cut": _join,
    "skew": _unskew,
    "stray": _nothing,
    "fill": _clear,
    "sink": _behave,
}
