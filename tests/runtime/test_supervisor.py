"""The supervisor of background loops, in virtual time."""

import asyncio
import logging
from datetime import timedelta

import pytest

from batchline import Consumer, LeasedMessage, NewMessage, Services, Timeline, open_store
from batchline.core.retry import RetryRules
from batchline.errors import StoreError, StoreUnavailable, TopicDeleted
from batchline.runtime.supervisor import Loop, Supervisor
from batchline.runtime.virtual_time import virtual_seconds, virtual_wall_us
from tests.runtime.working import virtually


class Panic(BaseException):
    """An error that is no Exception."""


def supervisor() -> Supervisor:
    return Supervisor(clock=virtual_wall_us, chance=lambda: 0.0)


class Steps:
    """Steps that fail while there is an error, and the moments at which they ran."""

    def __init__(self, loop: Loop, error: BaseException | None = None) -> None:
        self.loop, self.error = loop, error
        self.at_s: list[float] = []

    async def step(self) -> float:
        self.at_s.append(virtual_seconds())
        if self.error is not None:
            raise self.error
        return 1.0

    async def run(self) -> None:
        while True:
            await asyncio.sleep(await self.loop.turn(self.step))


@pytest.mark.parametrize("error", [ZeroDivisionError(), Panic(), StopIteration()], ids=repr)
@virtually
async def test_pauses_grow_while_a_loop_fails_and_it_goes_on_as_before_afterwards(error: BaseException) -> None:
    watching = supervisor()
    steps = Steps(watching.loop("prune"), error)
    running = steps.loop.start(steps.run)
    await asyncio.sleep(200)
    assert [round(at) for at in steps.at_s] == [0, 1, 3, 7, 15, 31, 63, 123, 183]
    (trouble,) = watching.troubles()
    assert (trouble.since_ms, trouble.failures) == (virtual_wall_us() // 1_000 - 200_000, 9)
    steps.error = None
    await asyncio.sleep(60)
    assert watching.troubles() == []
    assert watching.failures() == {"prune": 9}
    before = len(steps.at_s)
    await asyncio.sleep(10)
    assert len(steps.at_s) - before == 10
    running.cancel()


@virtually
async def test_a_loop_that_raises_outside_its_steps_is_started_again() -> None:
    watching, starts = supervisor(), 0
    loop = watching.loop("dispatch")

    async def run() -> None:
        nonlocal starts
        starts += 1
        if starts < 4:
            raise ZeroDivisionError
        loop.ran()

    await loop.start(run)
    assert (starts, watching.failures()["dispatch"], watching.troubles()) == (4, 3, [])
    assert virtual_seconds() == pytest.approx(1 + 2 + 4)


@virtually
async def test_a_cancellation_ends_a_loop_at_once_also_during_a_pause() -> None:
    watching = supervisor()
    steps = Steps(watching.loop("prune"), ZeroDivisionError())
    running = steps.loop.start(steps.run)
    await asyncio.sleep(64)  # the pause after it is a minute
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert virtual_seconds() == pytest.approx(64)


@virtually
async def test_stop_ends_services_at_once_also_during_a_pause() -> None:
    services = Services(open_store("memory://"))
    services._paced[0].service.run_once = lambda: bool(1 // 0)  # type: ignore[method-assign]
    running = asyncio.ensure_future(services.run())
    await asyncio.sleep(70)
    assert [one.loop for one in services.troubles()] == ["prune"]
    services.stop()
    await running
    assert virtual_seconds() == pytest.approx(70)


@virtually
async def test_an_outage_is_a_line_when_it_begins_and_one_when_it_ends_however_many_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watching, part = supervisor(), supervisor()
    watching.adopt(part)
    loops = [Steps(of.loop(name)) for of, name in ((watching, "prune"), (watching, "expire"), (part, "share"))]  # type: ignore[arg-type]
    running = [one.loop.start(one.run) for one in loops]
    for _ in range(2):
        await asyncio.sleep(100)
        for one in loops:
            one.error = StoreUnavailable("it is away")
        await asyncio.sleep(100)
        assert [trouble.loop for trouble in watching.troubles()] == ["prune", "expire", "share"]
        assert [trouble.loop for trouble in part.troubles()] == ["share"]
        for one in loops:
            one.error = None
    await asyncio.sleep(100)
    lines = [record for record in caplog.records if record.name == "batchline"]
    begun, ended = "loop prune: it is away; it is tried again until it succeeds", "runs again; failed steps: 100"
    assert [record.getMessage().removeprefix("loop share ") for record in lines] == [begun, ended] * 2
    assert all(record.exc_info is None for record in lines)
    # It is tried at the usual pace: after an outage no loop sleeps for a minute.
    assert len(loops[0].at_s) == pytest.approx(500, abs=3)
    for task in running:
        task.cancel()


@virtually
async def test_a_query_that_the_database_refuses_is_a_fault_of_each_loop_with_growing_pauses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watching = supervisor()
    loops = [
        Steps(watching.loop(name, ends=(StoreError,)), StoreError("no such table")) for name in ("prune", "rescue")
    ]
    running = [one.loop.start(one.run) for one in loops]
    await asyncio.sleep(50)
    assert [[round(at) for at in one.at_s] for one in loops] == [[0, 1, 3, 7, 15, 31]] * 2
    traced = [record.getMessage().partition(" failed")[0] for record in caplog.records if record.exc_info]
    assert traced == ["loop prune", "loop rescue"]
    for task in running:
        task.cancel()


@virtually
async def test_a_loop_whose_every_second_step_fails_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    watching = supervisor()
    loop = watching.loop("share", back_off=RetryRules(first=timedelta(seconds=1), longest=timedelta(seconds=1)))
    steps = Steps(loop)
    for _ in range(300):
        await asyncio.sleep(await loop.turn(steps.step))
        steps.error = ZeroDivisionError() if steps.error is None else None
    failures = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert watching.failures()["share"] == 150
    assert len(failures) == 5


@pytest.mark.parametrize("verb", ["done", "release", "end_session"])
@virtually
async def test_an_error_at_the_end_does_not_keep_a_consumer_from_ending(
    verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    timeline = Timeline(open_store("memory://"), clock=virtual_wall_us)
    timeline.create_topic("jobs")
    timeline.create("jobs", [NewMessage(), NewMessage()], producer_group="p")
    hold = asyncio.Event()

    async def handle(message: LeasedMessage) -> None:
        if message.attempts and not handled:
            handled.append(message.id)
        else:
            await hold.wait()

    handled: list[str] = []
    consumer = Consumer(timeline, "jobs", handle, consumer="c", drain=timedelta(seconds=20))
    setattr(timeline, verb, lambda *_, **__: 1 // 0)
    running = asyncio.ensure_future(consumer.run())
    await asyncio.sleep(1)
    consumer.stop()
    await asyncio.wait_for(running, 60)
    assert "ZeroDivisionError" in caplog.text


@virtually
async def test_a_refusal_ends_a_consumer_with_its_error_and_is_not_repeated() -> None:
    timeline = Timeline(open_store("memory://"), clock=virtual_wall_us)
    timeline.create_topic("jobs")
    timeline.create("jobs", [NewMessage()], producer_group="p")
    consumer = Consumer(timeline, "jobs", lambda _: None, consumer="c")
    running = asyncio.ensure_future(consumer.run())
    await asyncio.sleep(1)
    timeline.create("jobs", [NewMessage(at=timeline.now_ms() + 3_600_000)], producer_group="p")
    timeline.delete_topic("jobs")
    with pytest.raises(TopicDeleted):
        await asyncio.wait_for(running, 60)
    assert consumer.troubles() == []


@pytest.mark.parametrize("error", [asyncio.CancelledError(), SystemExit(3), Panic()], ids=repr)
@virtually
async def test_an_end_that_nobody_asked_for_is_a_failure_of_its_loop_and_services_go_on(error: BaseException) -> None:
    services, met = Services(open_store("memory://")), 0

    def rescue() -> bool:
        nonlocal met
        met += 1
        if met == 1:
            raise error
        return False

    services._paced[1].service.run_once = rescue  # type: ignore[method-assign]
    running = asyncio.ensure_future(services.run())
    await asyncio.sleep(0.5)
    assert [one.loop for one in services.troubles()] == ["rescue"]
    await asyncio.sleep(10)
    assert (services.troubles(), services.supervisor.failures()["rescue"]) == ([], 1)
    assert met > 5
    services.stop()
    await running
