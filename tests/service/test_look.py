"""A look that takes long is late, unless it only waits for its turn."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from batchline.runtime.supervisor import Supervisor
from batchline.service.look import Look, Seen


@contextmanager
def hanging_look(goes_on: dict[bool, bool], *, has_thread: bool) -> Iterator[Look[None]]:
    """A look that hangs until the block ends, in a thread of its own or without one."""
    begun, end = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        end.wait()

    with ThreadPoolExecutor(1) as threads:
        if not has_thread:
            threads.submit(hang)
            begun.wait()
        try:
            loop = Supervisor().loop("schema_check")
            yield Look(hang, threads, loop, keep_s=0, wait_s=0.05, goes_on=goes_on.__getitem__)
        finally:
            end.set()


def under_way_of(look: Any) -> tuple[int, int]:
    """Return which look is under way, and how many callers it would tell of its end."""
    return id(look._under_way), len(look._under_way._done_callbacks)


@pytest.mark.parametrize("has_thread", [True, False])
def test_a_look_that_takes_long_is_late_only_if_nothing_goes_on_where_it_waits(has_thread: bool) -> None:
    for goes_on in (True, False):
        with hanging_look({has_thread: goes_on, not has_thread: not goes_on}, has_thread=has_thread) as look:
            seen = asyncio.run(look.now())
            assert (seen.error is None, seen.is_late) == (goes_on, not goes_on)


def test_once_it_is_late_callers_do_not_wait_and_no_further_look_begins() -> None:
    with hanging_look({True: False, False: False}, has_thread=False) as look:

        async def ask() -> list[Seen[None]]:
            first = await look.now()
            before = under_way_of(look)
            later = [await look.now() for _ in range(100)]
            assert under_way_of(look) == before
            return [first, *later]

        assert all(seen.is_late for seen in asyncio.run(ask()))
