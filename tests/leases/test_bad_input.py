"""What cannot be is refused, with what was expected and what came; nothing is changed."""

from typing import Any

import pytest

from batchline import SharedResource
from batchline.core.partitions import Asking
from batchline.errors import InvalidInput, InvalidName, InvalidRules
from tests.leases.keeping import LONG_MS, Keeper, Leases

CALLS: list[tuple[str, tuple[Any, ...], type[Exception], str]] = [
    ("provision", (501, "s", 1), InvalidRules, "partitions must be 0 to 500, got 501"),
    ("provision", (-1, "s", 1), InvalidRules, "partitions must be 0 to 500, got -1"),
    ("provision", (True, "s", 1), InvalidRules, "partitions must be 0 to 500, got True"),
    ("provision", (1, "", 1), InvalidInput, "size must be a text of 1 to 2,000 printable characters, got ''"),
    ("provision", (1, "a\nb", 1), InvalidInput, r"size must be .*got 'a\\nb'"),
    ("provision", (1, 7, 1), InvalidInput, "size must be .*got 7"),
    ("ask", (Asking("", 1), LONG_MS, 1), InvalidName, "instance must have 1 to 255 characters"),
    ("ask", (Asking("a", -1), LONG_MS, 1), InvalidInput, "wanted must be 0 to 500 partitions, got -1"),
    ("ask", (Asking("a", 501), LONG_MS, 1), InvalidInput, "wanted must be 0 to 500 partitions, got 501"),
    ("ask", (Asking("a", 1, (-1,)), LONG_MS, 1), InvalidInput, "a partition must be 0 to 499, got -1"),
    ("ask", ("a", LONG_MS, 1), InvalidInput, "expected an Asking, got 'a'"),
    ("ask", (Asking("a", 1), 0, 1), InvalidRules, "lease_ms must be .* got 0"),
    ("acquire", ("a\0", [0], 1, LONG_MS, 1), InvalidName, "instance must have no control characters"),
    ("acquire", ("a", [500], 1, LONG_MS, 1), InvalidInput, "a partition must be 0 to 499, got 500"),
    ("acquire", ("a", ["0"], 1, LONG_MS, 1), InvalidInput, "a partition must be 0 to 499, got '0'"),
    ("acquire", ("a", [0], -1, LONG_MS, 1), InvalidInput, "most must be a number of partitions, got -1"),
    ("acquire", ("a", [0], 1, 86_400_001, 1), InvalidRules, "lease_ms must be .* got 86400001"),
    ("acquire", ("a", [0], 1, 1.5, 1), InvalidRules, r"lease_ms must be .* got 1\.5"),
    ("renew", ("a", [-1], LONG_MS, 1), InvalidInput, "a partition must be 0 to 499, got -1"),
    ("renew", ("a", [0], -5, 1), InvalidRules, "lease_ms must be .* got -5"),
    ("release", (None, [0], 1), InvalidName, "instance must be a text, got None"),
    ("release", ("a", [None], 1), InvalidInput, "a partition must be 0 to 499, got None"),
]


@pytest.mark.parametrize(("verb", "arguments", "refused", "said"), CALLS)
def test_what_cannot_be_is_refused(
    leases: Leases, verb: str, arguments: tuple[Any, ...], refused: type[Exception], said: str
) -> None:
    with pytest.raises(refused, match=said):
        getattr(leases.manager, verb)(*arguments)
    assert leases.holders() == {}


def test_a_resource_has_a_name(keeper: Keeper) -> None:
    with pytest.raises(InvalidName, match="resource must have 1 to 255 characters, got 300"):
        keeper.leases("x" * 300)


CONTROLS = ["\t", "\n", "\r", "\0", "\x1b", "\x7f", "\x85"]


@pytest.mark.parametrize("control", CONTROLS, ids=ascii)
def test_names_with_control_characters_are_refused(keeper: Keeper, leases: Leases, control: str) -> None:
    name = f"na{control}me"
    with pytest.raises(InvalidName, match="resource must have no control characters"):
        keeper.leases(name)
    for call in (leases.acquire, leases.renew, leases.release):
        with pytest.raises(InvalidName, match="instance must have no control characters"):
            call(name, [0])
    with pytest.raises(InvalidName, match="instance must have no control characters"):
        leases.ask(name, 1)
    with pytest.raises(InvalidName, match="instance must have no control characters"):
        SharedResource(leases.manager, 40, factor=10, instance=name)
    assert (leases.holders(), leases.ask("another", 0)) == ({}, [])
