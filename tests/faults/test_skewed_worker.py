import subprocess
import sys

from batchline.runtime.clock import now_us
from tests.servers.server import REPOSITORY

SHOWS = "import tests.faults.skewed_worker as s, batchline.cli as c; c.main = {main}; s.main(3600, [])"


def test_all_of_batchline_sees_the_clock_that_is_off() -> None:
    main = "lambda: print(__import__('batchline.runtime.clock').runtime.clock.now_us())"
    told = subprocess.run(
        [sys.executable, "-c", SHOWS.format(main=main)], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert 3_540 < (int(told.stdout) - now_us()) / 1_000_000 < 3_660
