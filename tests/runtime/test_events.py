"""Events: who listens is told, whatever others do."""

import logging
from typing import Any

import pytest

from batchline.runtime.events import Events


class Ear:
    """A listener that notes what it was told, and may do something about it."""

    def __init__(self, act: Any = None):
        self.told: list[tuple[str, Any, str | None, Any]] = []
        self._act = act

    def __call__(self, name: str, value: Any, message: str | None, metadata: Any) -> None:
        self.told.append((name, value, message, metadata))
        if self._act is not None:
            self._act()


def test_a_listener_gets_name_value_message_and_metadata() -> None:
    events, ear = Events(), Ear()
    events.add_listener(ear)
    events.emit("pause", 500, "as asked", {"by": "hand"})
    events.emit("resume")
    assert ear.told == [("pause", 500, "as asked", {"by": "hand"}), ("resume", 0, None, None)]


def test_events_are_counted_and_their_last_value_is_kept_without_any_listener() -> None:
    events = Events()
    for value in (3, 1, 2):
        events.emit("capacity", value)
    assert events.counts == {"capacity": 3}
    assert events.values == {"capacity": 2}


def test_what_a_listener_raises_is_logged_and_the_others_are_told(caplog: pytest.LogCaptureFixture) -> None:
    events, before, after = Events(), Ear(), Ear()

    def fail(*_: object) -> None:
        raise ValueError("a broken listener")

    for listener in (before, fail, after):
        events.add_listener(listener)
    with caplog.at_level(logging.ERROR):
        events.emit("batch", 7)
    assert len(before.told) == len(after.told) == 1
    assert "a listener raised on the event batch" in caplog.text
    assert "a broken listener" in caplog.text


def test_one_that_was_removed_is_told_nothing_any_more_and_an_unknown_number_is_left_alone() -> None:
    events, ear = Events(), Ear()
    number = events.add_listener(ear)
    events.remove_listener(number + 1)
    events.emit("one")
    events.remove_listener(number)
    events.remove_listener(number)
    events.emit("two")
    assert [name for name, *_ in ear.told] == ["one"]


def test_the_same_function_may_listen_twice_and_is_removed_once() -> None:
    events, ear = Events(), Ear()
    first, second = events.add_listener(ear), events.add_listener(ear)
    events.emit("one")
    events.remove_listener(first)
    events.emit("two")
    assert first != second
    assert [name for name, *_ in ear.told] == ["one", "one", "two"]


def test_a_listener_may_remove_itself_while_it_is_told() -> None:
    events, after = Events(), Ear()
    numbers: list[int] = []
    once = Ear(lambda: events.remove_listener(numbers[0]))
    numbers.append(events.add_listener(once))
    events.add_listener(after)
    events.emit("one")
    events.emit("two")
    assert len(once.told) == 1
    assert len(after.told) == 2


def test_one_that_another_has_just_removed_is_not_told() -> None:
    events, removed = Events(), Ear()
    numbers: list[int] = []
    events.add_listener(Ear(lambda: events.remove_listener(numbers[0])))
    numbers.append(events.add_listener(removed))
    events.emit("one")
    assert removed.told == []


def test_one_that_is_added_while_others_are_told_hears_the_next() -> None:
    events, late = Events(), Ear()
    events.add_listener(Ear(lambda: events.add_listener(late)))
    events.emit("one")
    assert late.told == []
    events.emit("two")
    assert [name for name, *_ in late.told] == ["two"]


def test_a_listener_may_emit() -> None:
    events, ear = Events(), Ear()

    def answer(name: str, *_: object) -> None:
        if name == "question":
            events.emit("answer")

    events.add_listener(answer)
    events.add_listener(ear)
    events.emit("question")
    assert sorted(name for name, *_ in ear.told) == ["answer", "question"]
