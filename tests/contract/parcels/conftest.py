"""A publication of one test's own, on every store."""

import pytest

from batchline import Store
from tests.contract.parcels.posting import Publication
from tests.doubles import HandClock


@pytest.fixture
def publication(store: Store, clock: HandClock) -> Publication:
    return Publication(store, clock)
