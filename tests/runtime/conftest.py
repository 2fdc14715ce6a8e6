"""Whatever a test does to a dispatcher: its books are right."""

from collections.abc import Iterator

import pytest

from tests.runtime.dispatching import look_over


@pytest.fixture(autouse=True)
def books() -> Iterator[None]:
    """No audit fails, no count is off, in any test."""
    yield
    assert look_over() == []
