"""A service in this process that the tests of a module share, and the timeline behind it."""

from collections.abc import Iterator

import pytest

from batchline import Timeline, open_store
from tests.service.serving import Place, placed


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with open_store("memory://") as store, placed(store) as place:
        yield place


@pytest.fixture
def timeline(place: Place) -> Timeline:
    assert place.service is not None
    return place.service.parts.timeline
