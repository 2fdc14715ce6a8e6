"""A fault in each background loop: it is logged, counted and shown, the loop goes on, and recovers when it is gone."""

import ast
import asyncio
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from batchline.core.trouble import LOOPS
from batchline.runtime.virtual_time import run_virtually
from batchline.service.service import Service
from tests.service.asking import Asked, ask_service
from tests.service.loops import CASES, SERVED, Fault, Scene

ROOT = Path(__file__).parents[2]
#: Virtual seconds within which a loop has met a fault, or recovered from it: the longest pause, and a rest.
PATIENCE_S = 150


async def until(scene: Scene, what: Callable[[], bool], within_s: int = PATIENCE_S, *, never: bool = False) -> None:
    """Wait until something is so; or, if that is `never` to be, see that it is not."""
    for _ in range(within_s * 4):
        if what():
            assert not never, "it came to that"
            return
        if scene.poke is not None:
            await scene.poke()
        await asyncio.sleep(0.25)
    assert never, "it did not come to that"


def tracebacks(caplog: pytest.LogCaptureFixture, loop: str) -> list[str]:
    """Return the log lines with a traceback that name a loop."""
    found = [one for one in caplog.records if one.exc_info and re.match(rf"loop {loop}\b", one.getMessage())]
    return [one.exc_info[0].__name__ for one in found if one.exc_info and one.exc_info[0]]


@pytest.mark.parametrize("name", CASES)
def test_a_fault_in_a_loop_is_logged_counted_and_shown_until_the_loop_runs_again(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loop, fault = name.partition(":")[0], Fault()

    async def story() -> None:
        async with CASES[name](fault, tmp_path) as scene:
            part = scene.part
            await asyncio.sleep(5)
            assert part.troubles() == []
            fault.on = True
            await until(scene, lambda: fault.met > 3)
            (trouble,) = part.troubles()
            assert (trouble.loop, trouble.error) == (loop, "ZeroDivisionError")
            # The first failure is in the log with its traceback, not each of them.
            assert tracebacks(caplog, loop) == ["ZeroDivisionError"]
            assert part.supervisor.failures()[trouble.loop] >= trouble.failures > 2
            assert all(count == 0 for other, count in part.supervisor.failures().items() if other != loop)
            # It is shown all the while: steps that have nothing to do in between are not clean.
            await until(scene, lambda: part.troubles() == [], within_s=3, never=True)
            fault.on = False
            await until(scene, lambda: part.troubles() == [])
            await until(scene, lambda: "runs again" in caplog.text)

    run_virtually(asyncio.wait_for(story(), 10_000), inline=True)


@pytest.mark.parametrize("name", SERVED)
def test_health_and_metrics_of_a_service_name_the_loop_that_fails(name: str, tmp_path: Path) -> None:
    fault = Fault()

    async def story() -> None:
        async with SERVED[name](fault, tmp_path) as scene:
            service = scene.part
            assert isinstance(service, Service)
            assert (await ready(service)).json()["status"] == "ready"
            assert await metric(service, "loop_degraded", name) == 0
            fault.on = True
            await until(scene, lambda: fault.met > 0 and bool(service.troubles()))
            answer = await ready(service)
            if name == "schema_check":  # whether the store is there is not known
                assert (answer.status, answer.problem) == (503, "NotReady")
                assert answer.json()["detail"] == "the look at the store failed: ZeroDivisionError"
            else:
                assert answer.status == 200
                assert answer.json()["status"] == "degraded"
                (shown,) = answer.json()["loops"]
                assert (shown["loop"], shown["error"]) == (name, "ZeroDivisionError")
            assert await metric(service, "loop_degraded", name) == 1
            assert await metric(service, "loop_failures_total", name) > 0
            fault.on = False
            await until(scene, lambda: service.troubles() == [])
            assert (await ready(service)).json()["status"] == "ready"
            assert await metric(service, "loop_degraded", name) == 0
            assert await metric(service, "loop_failures_total", name) > 0

    run_virtually(asyncio.wait_for(story(), 10_000), inline=True)


async def ready(service: Service) -> Asked:
    return await ask_service(service, "GET", "/health/ready", b"", {"host": "localhost"})


async def metric(service: Service, name: str, loop: str) -> float:
    answer = await ask_service(service, "GET", "/metrics", b"", {"host": "localhost"})
    (found,) = re.findall(rf'^batchline_{name}{{loop="{loop}"}} (\S+)$', answer.body.decode(), re.MULTILINE)
    return float(found)


def test_every_loop_has_a_case_in_which_it_fails() -> None:
    elsewhere = {"reporting", "delivery"}  # in threads: tests/runtime/test_reporting.py and test_summary.py
    assert {name.partition(":")[0] for name in CASES} | elsewhere == set(LOOPS)


def test_operators_find_every_loop_on_the_page_on_monitoring() -> None:
    page = (ROOT / "docs/operations/monitoring.md").read_text()
    table = page.partition("## Background loops")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(LOOPS)


#: Where tasks and threads are started that the supervisor does not watch, and why that is no loop that dies unseen.
UNSUPERVISED = {
    "cli/demo.py": (1, "compiles kernels once, and is joined"),
    "cli/demo_receiver.py": (1, "the demo's receiver: without it the demo fails its own checks"),
    "cli/ingesting.py": (1, "what it raises stops the run, and is raised there"),
    "cli/live_demo.py": (2, "parts of the demo: each logs its end"),
    "cli/live_fanouts.py": (1, "a consumer, which supervises itself"),
    "cli/work.py": (2, "the worker and each look at its topic: both results are taken"),
    "client/connection.py": (1, "what ends the reading is raised in the consumer's next turn"),
    "runtime/callbacks.py": (1, "calls of the dispatcher, whose errors go to on_error"),
    "runtime/consumer.py": (2, "services, which supervise themselves; handlers, whose errors release the message"),
    "runtime/dispatcher.py": (1, "its end, which is awaited"),
    "runtime/lane_proofs.py": (1, "one look, whose error is raised to the parcels that wait for it"),
    "runtime/reporting.py": (1, "a thread of supervised steps"),
    "runtime/simulated_instance.py": (1, "a simulation"),
    "runtime/simulation.py": (1, "a simulation, which ends with the first error"),
    "runtime/supervisor.py": (1, "the supervisor"),
    "runtime/threadsafe.py": (1, "one call, whose caller waits for it"),
    "runtime/working.py": (1, "what ends the worker is raised where it is waited for"),
    "service/accepting.py": (1, "the start of one connection: what fails closes it, and is counted"),
    "service/in_thread.py": (1, "a service in a test or a notebook"),
    "service/leases.py": (2, "one request, awaited"),
    "service/listening.py": (2, "services, which supervise themselves; the server, which is awaited"),
    "service/pump.py": (1, "one release, whose error is noted"),
    "service/subscriber.py": (3, "one socket: its error is logged, and closes it"),
    "spark/progress.py": (1, "a progress bar"),
}
STARTS = {"create_task", "ensure_future", "TaskGroup", "Thread", "Timer", "run_coroutine_threadsafe"}


def test_tasks_and_threads_are_started_by_the_supervisor_or_for_a_reason() -> None:
    source = ROOT / "src/batchline"
    found: Counter[str] = Counter()
    for file in source.rglob("*.py"):
        calls = (node.func for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call))
        names = (one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "") for one in calls)
        found[str(file.relative_to(source))] += sum(name in STARTS for name in names)
    assert +found == {file: count for file, (count, _) in UNSUPERVISED.items()}
