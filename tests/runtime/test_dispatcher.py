"""A dispatcher: its options, the order of its life, what it hands out, and what its events say."""

import asyncio
import inspect
from datetime import timedelta
from typing import Any

import pytest

from batchline import Dispatcher, Operation, ProvisionedResource, RetryRules, Watcher
from batchline.core.dispatch_rules import DispatchRules
from batchline.errors import ImproperOrder, InvalidOperation, InvalidRules, TooExpensive, TooManyAttempts
from batchline.runtime.virtual_time import virtual_seconds
from tests.runtime.dispatching import Receiver, capacity_of, dispatcher_of, listen, ms, payloads, virtually

DEFAULTS = {
    "buffer": 10_000,
    "flush_interval": ms(100),
    "capacity_interval": ms(100),
    "audit_interval": timedelta(seconds=10),
    "max_operation_time": timedelta(minutes=1),
    "pause_time": ms(500),
    "error_on_full_buffer": False,
    "emit_batch": False,
    "max_concurrent_batches": None,
    "backoff": None,
    "calm": timedelta(seconds=30),
}
WRONG = [
    *[{"buffer": value} for value in (0, -1, 1.5, True, None, "10")],
    *[{f"{name}_interval": value} for name in ("flush", "capacity", "audit") for value in (ms(0), ms(-1), 100, None)],
    *[{name: value} for name in ("max_operation_time", "pause_time") for value in (ms(0), ms(-1), 1, None)],
    *[{name: value} for name in ("error_on_full_buffer", "emit_batch") for value in (0, 1, "yes", None)],
    *[{"max_concurrent_batches": value} for value in (0, -1, 2.0, True, "1")],
    *[{"backoff": value} for value in (1, ms(1), "often")],
    *[{"calm": value} for value in (ms(-1), 30, None)],
]


def test_the_defaults_are_those_of_the_page() -> None:
    rules = Dispatcher().rules
    assert {name: getattr(rules, name) for name in DEFAULTS} == DEFAULTS
    options = inspect.signature(Dispatcher).parameters
    assert {name: options[name].default for name in DEFAULTS} == DEFAULTS
    assert vars(DispatchRules()) == DEFAULTS


def test_every_option_is_taken() -> None:
    options: dict[str, Any] = {
        "buffer": 1,
        "flush_interval": ms(1),
        "capacity_interval": ms(2),
        "audit_interval": ms(3),
        "max_operation_time": ms(4),
        "pause_time": ms(5),
        "error_on_full_buffer": True,
        "emit_batch": True,
        "max_concurrent_batches": 6,
        "backoff": RetryRules(),
        "calm": ms(0),
    }
    rules = Dispatcher(ProvisionedResource(1), **options).rules
    assert {name: getattr(rules, name) for name in options} == options


@pytest.mark.parametrize("options", WRONG, ids=str)
def test_a_wrong_option_is_refused_by_its_name_when_it_is_built(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidRules, match=next(iter(options))):
        Dispatcher(**options)


@pytest.mark.parametrize("limiter", [5, "fast", Dispatcher, ProvisionedResource])
def test_what_is_no_limiter_is_refused(limiter: Any) -> None:
    with pytest.raises(InvalidRules, match="limiter must be"):
        Dispatcher(limiter)


# --- its life ---


@virtually
async def test_start_twice_stop_before_start_and_start_after_stop_are_improper() -> None:
    dispatcher = dispatcher_of()
    with pytest.raises(ImproperOrder, match="got stop when it was new"):
        await dispatcher.stop()
    with pytest.raises(ImproperOrder, match="start the dispatcher first"):
        await dispatcher.drain()
    await dispatcher.start()
    with pytest.raises(ImproperOrder, match="got start when it was started"):
        await dispatcher.start()
    await dispatcher.stop()
    with pytest.raises(ImproperOrder, match="got start when it was stopped"):
        await dispatcher.start()


@virtually
async def test_it_can_be_built_before_there_is_a_loop_and_holds_what_is_enqueued_before_start() -> None:
    receiver, dispatcher = Receiver(), dispatcher_of(capacity_of(100))
    await dispatcher.enqueue(Operation(receiver.watcher(), 3, "early"))
    await asyncio.sleep(10)
    assert receiver.got == []
    assert (dispatcher.buffered, dispatcher.target) == (1, 3)
    async with dispatcher:
        await dispatcher.drain()
    assert receiver.got == ["early"]
    assert receiver.batches[0][0] == pytest.approx(10.1)


@virtually
async def test_what_is_enqueued_comes_back_in_batches_in_order() -> None:
    receiver, dispatcher = Receiver(), dispatcher_of()
    watcher = receiver.watcher(max_batch_size=4)
    async with dispatcher:
        await dispatcher.enqueue_many(Operation(watcher, 1, number, batchable=True) for number in range(10))
        await dispatcher.drain()
    assert [payloads(batch) for _, batch in receiver.batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert (dispatcher.buffered, dispatcher.inflight, dispatcher.target) == (0, 0, 0)


@virtually
async def test_one_that_is_not_batchable_travels_alone() -> None:
    receiver, dispatcher = Receiver(), dispatcher_of()
    watcher = receiver.watcher()
    async with dispatcher:
        batchable = [True, True, False, False, True]
        await dispatcher.enqueue_many(Operation(watcher, 1, place, batchable=it) for place, it in enumerate(batchable))
        await dispatcher.drain()
    assert [payloads(batch) for _, batch in receiver.batches] == [[0, 1], [2], [3], [4]]


@virtually
async def test_an_idle_dispatcher_sends_at_once_and_a_busy_one_every_interval() -> None:
    receiver, dispatcher = Receiver(), dispatcher_of(flush_interval=ms(100))
    watcher = receiver.watcher()
    async with dispatcher:
        await asyncio.sleep(5.03)
        for number in range(4):
            await dispatcher.enqueue(Operation(watcher, 1, number))
            await asyncio.sleep(0.04)
    assert [round(at_s, 3) for at_s, _ in receiver.batches] == [5.03, 5.1, 5.2, 5.2]


@virtually
async def test_target_buffered_and_inflight_follow_an_operation_on_its_way() -> None:
    receiver, dispatcher = Receiver(ms(300)), dispatcher_of(capacity_of(1_000))
    async with dispatcher:
        assert (dispatcher.target, dispatcher.buffered, dispatcher.inflight) == (0, 0, 0)
        await dispatcher.enqueue(Operation(receiver.watcher(), 70))
        assert (dispatcher.target, dispatcher.buffered, dispatcher.inflight) == (70, 1, 0)
        await asyncio.sleep(0.15)
        assert (dispatcher.target, dispatcher.buffered, dispatcher.inflight) == (70, 0, 1)
        await asyncio.sleep(0.3)
        assert (dispatcher.target, dispatcher.buffered, dispatcher.inflight) == (0, 0, 0)


@virtually
async def test_drain_waits_for_callbacks_that_end_and_returns_at_once_when_there_is_nothing() -> None:
    receiver, dispatcher = Receiver(timedelta(seconds=7)), dispatcher_of()
    async with dispatcher:
        await dispatcher.drain()
        assert virtual_seconds() == 0
        await dispatcher.enqueue(Operation(receiver.watcher()))
        await dispatcher.drain()
        assert virtual_seconds() == pytest.approx(7.1)


@virtually
async def test_a_refused_operation_changes_nothing() -> None:
    receiver, dispatcher = Receiver(), dispatcher_of(capacity_of(10))
    watcher = receiver.watcher(max_attempts=1)
    spent = Operation(watcher, 1)
    spent.attempts = 1
    async with dispatcher:
        for refused, error in (
            (Operation(watcher, 11), TooExpensive),
            (spent, TooManyAttempts),
            (Operation(watcher, {"ru": 1}), InvalidOperation),
        ):
            with pytest.raises(error):
                await dispatcher.enqueue_many([Operation(watcher, 1), refused, Operation(watcher, 1)])
            with pytest.raises(error):
                dispatcher.enqueue_nowait(refused)
            assert (dispatcher.target, dispatcher.buffered) == (0, 0)
    assert receiver.got == []


@virtually
@pytest.mark.parametrize("strange", [None, 5, "text", b"bytes", [1], [Watcher(print)]], ids=str)
async def test_what_is_no_operation_is_refused(strange: Any) -> None:
    async with dispatcher_of() as dispatcher:
        with pytest.raises(InvalidOperation):
            await dispatcher.enqueue_many(strange)
        with pytest.raises(InvalidOperation):
            await dispatcher.enqueue(strange)


# --- events ---


@virtually
async def test_a_life_in_events() -> None:
    receiver, dispatcher = Receiver(), dispatcher_of(capacity_of(1_000), emit_batch=True, pause_time=ms(250))
    told = listen(dispatcher.events)
    watcher = receiver.watcher()
    async with dispatcher:
        operations = [Operation(watcher, 10, number, batchable=True) for number in range(3)]
        await dispatcher.enqueue_many(operations)
        await dispatcher.drain()
        dispatcher.pause()
        await asyncio.sleep(1)
    assert [(round(one.at_s, 3), one.name, one.value) for one in told if one.name != "request"] == [
        (0.1, "flush-start", 0),
        (0.1, "batch", 3),
        (0.1, "flush-done", 3),
        (0.1, "pause", 250),
        (0.35, "resume", 0),
        (1.1, "shutdown", 0),
    ]
    batch = next(one for one in told if one.name == "batch")
    assert batch.metadata == operations
    requests = [one.value for one in told if one.name == "request"]
    assert requests[0] == 30 + 30  # backlog and arrivals
    assert dispatcher.events.counts["request"] == len(requests)


@virtually
async def test_batches_are_not_told_unless_asked_for_and_a_listener_may_change_the_list_it_got() -> None:
    receiver, quiet, loud = Receiver(), dispatcher_of(), dispatcher_of(emit_batch=True)
    loud.events.add_listener(lambda name, _value, _message, metadata: name == "batch" and metadata.clear())
    for dispatcher in (quiet, loud):
        async with dispatcher:
            await dispatcher.enqueue(Operation(receiver.watcher(), 1, "here"))
    assert (quiet.events.counts["batch"], loud.events.counts["batch"]) == (0, 1)
    assert receiver.got == ["here", "here"]


@virtually
async def test_flushes_of_nothing_are_not_told_and_nothing_is_requested_by_who_needs_nothing() -> None:
    dispatcher = dispatcher_of(capacity_of(100))
    async with dispatcher:
        for _ in range(100):
            dispatcher.flush()
            await asyncio.sleep(0.05)
    assert dict(dispatcher.events.counts) == {"shutdown": 1}


@virtually
async def test_the_audit_skips_while_there_is_work_or_was_lately_and_passes_afterwards() -> None:
    receiver, dispatcher = Receiver(), dispatcher_of(audit_interval=timedelta(seconds=10))
    told = listen(dispatcher.events, "audit-pass", "audit-skip", "audit-fail")
    async with dispatcher:
        await asyncio.sleep(15)
        await dispatcher.enqueue(Operation(receiver.watcher(), 5))
        await asyncio.sleep(76)
    passed = [(round(one.at_s), one.name.removeprefix("audit-")) for one in told]
    assert passed == [(10, "pass"), *[(at_s, "skip") for at_s in range(20, 80, 10)], (80, "pass"), (90, "pass")]


@virtually
async def test_an_audit_that_finds_a_target_where_nothing_is_puts_it_right_and_says_so() -> None:
    dispatcher = dispatcher_of()
    told = listen(dispatcher.events, "audit-fail")
    dispatcher.events.remove_listener(1)  # who looks the books over would say so, too
    async with dispatcher:
        dispatcher._dispatch.buffer.cost = 12
        await asyncio.sleep(20)
        assert dispatcher.target == 0
    assert [(one.value, one.message) for one in told] == [
        (0, "a target was left although nothing was; it was put right")
    ]


@virtually
async def test_a_listener_that_raises_stops_nothing() -> None:
    receiver, dispatcher = Receiver(), dispatcher_of(capacity_of(1_000), emit_batch=True, audit_interval=ms(100))

    def fail(*_: object) -> None:
        raise RuntimeError("a broken listener")

    dispatcher.events.add_listener(fail)
    async with dispatcher:
        await dispatcher.enqueue_many(Operation(receiver.watcher(), 1, number) for number in range(20))
        dispatcher.pause()
        await dispatcher.drain()
    assert sorted(receiver.got) == list(range(20))
    assert dispatcher.events.counts["shutdown"] == 1
