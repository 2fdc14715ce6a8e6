"""The sample fleet as a landing directory has it: several files of lines, a few of which are no measurements."""

import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from batchline.runtime.clock import elapsed_seconds

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FILES", "Landed", "land"]

FILES: Final = 12
#: What devices and lines send, too: cut off, of another kind, without a time, with one that says no zone.
MALFORMED: Final = (
    '{"key":"pump-0003","type":"flow","event_time":"2026-11-15T00:0',
    "\x00\x00\x00\x00",
    '{"key":"meter-0001","type":"voltage","value":229.8}',
    '{"key":"meter-0001","type":"power","event_time":"2026-11-15T00:00:01","receive_time":"yesterday"}',
    "Traceback (most recent call last):",
    '["pump-0003","flow",12.6]',
)


@dataclass(frozen=True, slots=True)
class Landed:
    """What has landed."""

    #: Lines, measurements among them, and lines that are none.
    lines: int
    measurements: int
    malformed: int
    #: By file, the number of its first measurement, and when it was whole, in seconds of the steady clock.
    first: Sequence[int]
    at_s: Sequence[float]

    def landed_at_s(self, sequence: int) -> float:
        """When the file of a measurement was whole."""
        return self.at_s[bisect_right(self.first, sequence) - 1]


def land(fleet: "pa.Table", directory: Path, seed: int) -> Landed:
    """Write the fleet, in the order in which it was received, into files of a directory."""
    from batchline.sinks.files import write_text

    chance = random.Random(seed)  # noqa: S311 - the same seed spoils the same lines
    files = min(FILES, max(fleet.num_rows, 1))
    edges = [place * fleet.num_rows // files for place in range(files + 1)]
    malformed, at_s = 0, []
    for number, (begin, end) in enumerate(pairwise(edges), 1):
        lines = list(_lines(fleet.slice(begin, end - begin)))
        for text in chance.sample(MALFORMED, chance.randint(1, 3)):
            lines.insert(chance.randint(0, len(lines)), text)
            malformed += 1
        write_text("\n".join(lines) + "\n", directory / f"measurements-{number:02}.jsonl")
        at_s.append(elapsed_seconds())
    return Landed(fleet.num_rows + malformed, fleet.num_rows, malformed, edges[:-1], at_s)


def _lines(part: "pa.Table") -> Iterator[str]:
    from batchline.sinks.lines import write_json_lines

    written = BytesIO()
    write_json_lines(part, written)
    yield from written.getvalue().decode().splitlines()
