"""What safety rests on: a spot is written only if it still is what was read, whoever read it and when."""

import pytest

from batchline.errors import StoreError
from batchline.stores.connections import Busy
from batchline.stores.rows import Rows
from batchline.stores.timeline_rows import SpotChange
from tests.contract.timeline.line import Line


@pytest.mark.parametrize("stale", ["version", "bits"])
def test_a_spot_that_was_changed_meanwhile_is_not_written(line: Line, stale: str) -> None:
    (lease,) = line.leased("a")
    before = line.messages()

    def write(rows: Rows) -> None:
        (spot,) = rows.spots_of([lease.bundle])
        read = spot._replace(version=spot.version - 1) if stale == "version" else spot._replace(bits=spot.bits | 2)
        with pytest.raises((Busy, StoreError)):
            rows.write_spots([SpotChange(read, spot.moved(line.now))])

    line.timeline._store.transact(write)
    assert line.messages() == before
