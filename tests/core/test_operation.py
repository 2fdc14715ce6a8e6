"""Operations and watchers, and what they refuse."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from batchline.core.cost import Amounts
from batchline.core.operation import Operation, Watcher, check_operations
from batchline.errors import InvalidOperation, InvalidRules
from tests.core.dispatching import nothing, watcher


def test_an_operation_begins_without_attempts() -> None:
    owner = watcher("owner")
    operation = Operation(owner, 5, "payload")
    assert (operation.watcher, operation.cost, operation.payload) == (owner, 5, "payload")
    assert (operation.attempts, operation.priority, operation.batchable, operation.deadline_us) == (0, 0, False, None)
    assert repr(operation) == "<Operation of owner: cost 5, attempts 0, 'payload'>"


@pytest.mark.parametrize("cost", [0, 0.0, -0.0, {"ru": 0}, {"ru": 0.0, "net": 0}], ids=str)
def test_what_costs_nothing_costs_0(cost: Any) -> None:
    assert Operation(watcher(), cost).cost == 0
    assert not isinstance(Operation(watcher(), cost).cost, Amounts)


@pytest.mark.parametrize("cost", [1, 10**12, 0.5, {"ru": 10, "net": 2}], ids=str)
def test_costs_are_kept_as_they_are(cost: Any) -> None:
    assert Operation(watcher(), cost).cost == cost


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cost": -1}, "cost must be a number from 0 to .*, got -1"),
        ({"cost": True}, "cost must be a number from 0 to .*, got True"),
        ({"cost": "1"}, "cost must be a number from 0 to .*, got '1'"),
        ({"cost": float("nan")}, "cost must be a number from 0 to .*, got nan"),
        ({"cost": 2 * 10**15}, "cost must be a number from 0 to 1,000,000,000,000,000, got 2"),
        ({"cost": {}}, "cost must name at least one capacity, each by a text, got {}"),
        ({"cost": {"ru": -1}}, r"cost\['ru'\] must be a number from 0 to .*, got -1"),
        ({"watcher": print}, "an operation needs a Watcher, got <built-in function print>"),
        ({"watcher": None}, "an operation needs a Watcher, got None"),
        ({"priority": 1.5}, "priority must be a whole number, got 1.5"),
        ({"priority": True}, "priority must be a whole number, got True"),
        ({"priority": "high"}, "priority must be a whole number, got 'high'"),
        ({"deadline": 5}, "deadline must be a datetime, got 5"),
        ({"deadline": datetime(2026, 1, 1)}, "deadline: expected a time with a time zone"),  # noqa: DTZ001 - as it says
    ],
    ids=str,
)
def test_operations_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"watcher": watcher(), "cost": 1}
    with pytest.raises(InvalidOperation, match=f"^{message}"):
        Operation(**given | options)


def test_a_deadline_is_a_moment_in_any_time_zone() -> None:
    moment = datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert Operation(watcher(), deadline=moment).deadline_us == 0
    assert Operation(watcher(), deadline=datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)).deadline_us == 1_000_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"callback": None}, "callback must be a function, got None"),
        ({"on_error": 5}, "on_error must be a function, got 5"),
        ({"on_dead": "x"}, "on_dead must be a function, got 'x'"),
        ({"max_attempts": 0}, "max_attempts must be a whole number from 1 on, or None for no limit, got 0"),
        ({"max_attempts": True}, "max_attempts must be a whole number from 1 on, or None for no limit, got True"),
        ({"max_batch_size": 1.5}, "max_batch_size must be a whole number from 1 on, or None for no limit, got 1.5"),
        ({"max_batch_size": -1}, "max_batch_size must be a whole number from 1 on, or None for no limit, got -1"),
        ({"max_operation_time": 5}, "max_operation_time must be a timedelta, got 5"),
        ({"max_operation_time": timedelta(0)}, "max_operation_time must be longer than 0"),
    ],
    ids=str,
)
def test_watchers_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRules, match=f"^{message}"):
        Watcher(**{"callback": nothing} | options)


def test_a_watcher_is_called_as_its_callback_unless_it_has_a_name() -> None:
    assert repr(Watcher(nothing)) == "<Watcher nothing>"
    assert Watcher(nothing, name="sender").name == "sender"


@pytest.mark.parametrize(
    ("cost", "actual"),
    [(5, 7), (5, 0), (0, 3.5), ({"ru": 5}, {"ru": 1, "net": 2}), ({"ru": 5}, 0), (0, {"ru": 1})],
    ids=str,
)
def test_an_actual_cost_is_of_the_kind_of_the_cost(cost: Any, actual: Any) -> None:
    operation = Operation(watcher(), cost)
    operation.settle(actual)
    assert operation.actual == actual


@pytest.mark.parametrize(
    ("cost", "actual", "message"),
    [
        (5, -1, "the actual cost must be a number from 0 to .*, got -1"),
        (5, None, "the actual cost must be a number from 0 to .*, got None"),
        (5, {"ru": 5}, "the actual cost must be a number, as the cost is, got {'ru': 5}"),
        ({"ru": 5}, 5, "the actual cost must be a mapping, as the cost is, got 5"),
    ],
    ids=str,
)
def test_an_actual_cost_that_cannot_be_is_refused(cost: Any, actual: Any, message: str) -> None:
    operation = Operation(watcher(), cost)
    with pytest.raises(InvalidOperation, match=f"^{message}"):
        operation.settle(actual)
    assert operation.actual is None


class Special(Operation):
    """An operation of one's own kind."""


def test_operations_come_in_anything_that_can_be_gone_through() -> None:
    one, two = Operation(watcher()), Special(watcher())
    assert check_operations([one]) == [one]
    assert check_operations(iter((two, one))) == [two, one]
    assert check_operations(()) == []


@pytest.mark.parametrize("given", [None, 5, "ab", b"ab", Operation(watcher(), payload="it")], ids=str)
def test_what_cannot_be_gone_through_is_refused(given: Any) -> None:
    with pytest.raises(InvalidOperation, match=r"^expected operations, got "):
        check_operations(given)


@pytest.mark.parametrize("strange", [None, 5, print, "x"], ids=str)
def test_what_is_no_operation_is_named(strange: Any) -> None:
    with pytest.raises(InvalidOperation, match=r"^expected operations, got .* among them"):
        check_operations([Operation(watcher()), Special(watcher()), strange])
