"""Does a fault to the parts of a run, and mends it."""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from tests.faults.parts import java_below
from tests.faults.plan import Fault
from tests.servers.own import OwnServer
from tests.servers.server import ServerFailedError
from tests.sinks.fault import Fault as SinkFault

if TYPE_CHECKING:
    from tests.faults.scene import Scene

__all__ = ["injure", "mend"]

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


def _skew(scene: "Scene", fault: Fault) -> None:
    """Under another name: what it might leave behind is not found again by who comes after it."""
    part = scene.parts[fault.target]
    part.kill()
    part.start("tests.faults.skewed_worker", fault.how, more=["--name", f"{fault.target}-skewed"])


def _unskew(scene: "Scene", fault: Fault) -> None:
    scene.parts[fault.target].kill()
    scene.parts[fault.target].start()


def _fill(scene: "Scene", _: Fault) -> None:
    scene.disk.fill(scene.parts["ingest"].pid)


def _clear(scene: "Scene", _: Fault) -> None:
    scene.disk.clear(scene.parts["ingest"].pid)


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
    "skew": _skew,
    "fill": _fill,
    "sink": _misbehave,
}
_MEND: Final[dict[str, Callable[["Scene", Fault], None]]] = {
    "kill": _start,
    "restart": _start,
    "pause": _go_on,
    "skew": _unskew,
    "fill": _clear,
    "sink": _behave,
}
