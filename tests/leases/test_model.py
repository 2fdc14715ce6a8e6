"""Leases against a model: two dictionaries and a clock that is moved by hand."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from batchline.core.partitions import Asking
from batchline.leases.store_leases import StoreLeases
from batchline.stores.opening import open_store
from batchline.stores.rows import Rows
from batchline.stores.sharing import CUT_OFF_MS
from batchline.stores.store import Store
from tests.doubles import BEGIN_US, new_id

T = TypeVar("T")
COUNT = 5


@dataclass
class Model:
    """What is promised, written down."""

    #: By partition: until when, and who.
    held: dict[int, tuple[int, str]] = field(default_factory=dict)
    said: dict[str, tuple[int, Asking]] = field(default_factory=dict)

    def holder(self, number: int, now_ms: int) -> str | None:
        until_ms, holder = self.held.get(number, (0, None))
        return holder if until_ms > now_ms else None

    def acquire(self, instance: str, numbers: list[int], most: int, lease_ms: int, now_ms: int) -> list[int]:
        taken: list[int] = []
        for number in numbers:
            free = number < COUNT and self.holder(number, now_ms) in (None, instance)
            if free and number not in taken and len(taken) < most:
                taken.append(number)
                self.held[number] = (now_ms + lease_ms + CUT_OFF_MS, instance)
        return taken

    def renew(self, instance: str, numbers: list[int], lease_ms: int, now_ms: int) -> list[int]:
        still = [number for number in dict.fromkeys(numbers) if self.holder(number, now_ms) == instance]
        return self.acquire(instance, still, len(still), lease_ms, now_ms)

    def release(self, instance: str, numbers: list[int], now_ms: int) -> None:
        for number in numbers:
            if self.holder(number, now_ms) == instance:
                del self.held[number]

    def ask(self, asking: Asking, lease_ms: int, now_ms: int) -> list[Asking]:
        self.said[asking.instance] = (now_ms, asking)
        if not (asking.wanted or asking.held):
            del self.said[asking.instance]
        return [one for _, (heard_ms, one) in sorted(self.said.items()) if heard_ms >= now_ms - lease_ms]

    def holders(self, now_ms: int) -> dict[int, str]:
        found = {number: self.holder(number, now_ms) for number in sorted(self.held)}
        return {number: holder for number, holder in found.items() if holder}


class ByHand:
    """The rows of a database, whose clock shows what it is told."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    def database_ms(self, now_ms: int) -> int:
        return now_ms


class StoreByHand:
    """A store of such rows."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.url = store.url

    def transact(self, work: Callable[[Rows], T]) -> T:
        return self._store.transact(lambda rows: work(cast("Rows", ByHand(rows))))

    def read(self, work: Callable[[Rows], T]) -> T:
        return self._store.read(lambda rows: work(cast("Rows", ByHand(rows))))


@contextmanager
def store_by_hand(kind: str, path: Path) -> Iterator[Store]:
    url = "memory://" if kind == "memory" else f"sqlite:///{path / 'leases.db'}"
    with open_store(url) as store:
        yield cast("Store", StoreByHand(store))


instances = st.sampled_from(["a", "b", "c"])
numbers = st.lists(st.integers(0, COUNT), max_size=COUNT + 2)
lease = st.sampled_from([1, 10, 1_000])
steps = st.one_of(
    st.tuples(st.just("acquire"), instances, numbers, st.integers(0, COUNT), lease),
    st.tuples(st.just("renew"), instances, numbers, lease),
    st.tuples(st.just("release"), instances, numbers),
    st.tuples(st.just("ask"), st.builds(Asking, instances, st.integers(0, 2), st.just(()) | st.just((2, 1))), lease),
    st.tuples(st.just("holders")),
)
#: After how many microseconds each comes: often at once, often about when a lease ends.
moved = st.sampled_from([0, 0, 0, 999, 1_000, 9_500, 12_000, 999_999, 1_003_000])


def agree(store: Store, story: list[tuple[int, tuple[Any, ...]]]) -> None:
    leases, model = StoreLeases(store, new_id()), Model()
    leases.provision(COUNT, "s", BEGIN_US)
    now_us = BEGIN_US
    for after_us, (verb, *arguments) in story:
        now_us += after_us
        found = getattr(leases, verb)(*arguments, now_us)
        assert found == getattr(model, verb)(*arguments, now_us // 1_000), verb
        assert leases.holders(now_us) == model.holders(now_us // 1_000)


@given(story=st.lists(st.tuples(moved, steps), max_size=30))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_in_memory_all_is_as_promised(story: list[tuple[int, tuple[Any, ...]]], tmp_path: Path) -> None:
    with store_by_hand("memory", tmp_path) as store:
        agree(store, story)


@pytest.fixture
def sqlite_by_hand(tmp_path: Path) -> Iterator[Store]:
    with store_by_hand("sqlite", tmp_path) as store:
        yield store


@given(story=st.lists(st.tuples(moved, steps), max_size=20))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
def test_in_sqlite_all_is_as_promised(story: list[tuple[int, tuple[Any, ...]]], sqlite_by_hand: Store) -> None:
    agree(sqlite_by_hand, story)
