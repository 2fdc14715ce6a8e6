"""`batchline batch --follow`: a directory's new files, batched as they come, until somebody says stop."""

import json
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchline.cli import screen
from batchline.cli.engines import spark_session
from batchline.core.batch_rules import BatchRules
from batchline.errors import InvalidCheckpoint, InvalidInput
from batchline.runtime.clock import elapsed_seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from batchline.spark.following import Following, Pace

BETWEEN_LOOKS_S = 0.5


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for."""

    path: Path
    out: Path
    names: Mapping[str, str]
    rules: BatchRules
    order: Sequence[str]
    checkpoint: str
    skew: timedelta
    clock: str
    once: bool


def follow_directory(asked: Asked, master: str | None) -> dict[str, Any]:
    """Follow until the input or somebody's patience has ended; the figures since the stream began."""
    if not asked.path.is_dir():
        raise InvalidInput(f"--follow needs a directory to follow, got {asked.path}")
    from batchline.spark.following import Pace

    pace = Pace(asked.skew, clock=asked.clock)
    with spark_session(master) as spark:
        stream = _Stream(spark, asked, pace)
        with screen.live("starting") as say:
            stopped = stream.run(say)
        summary = stream.summary()
    if not stopped:
        from batchline.sinks.files import write_text

        write_text(json.dumps(summary, indent=2), asked.out / "summary.json")
    return summary


class _Stream:
    """A directory that is followed, and where its batches go."""

    def __init__(self, spark: "SparkSession", asked: Asked, pace: "Pace") -> None:
        from batchline.spark.epoch_results import EpochResults, lines_by_epoch
        from batchline.spark.following import Following
        from batchline.spark.landing import FILE, ROW, new_files
        from batchline.spark.running import checked_columns, names_for
        from batchline.spark.stream_columns import columns_of, note_columns

        self.asked, self.stop = asked, threading.Event()
        with screen.err.status("looking at the files that are there"):
            self.columns = columns_of(spark, asked.path, asked.names, asked.checkpoint)
        checked_columns(self.columns, asked.rules, asked.order)
        rows = new_files(spark, asked.path, asked.names, self.columns, asked.out / "malformed")
        names = names_for(self.columns, asked.order, (FILE, ROW))
        self.following = Following(rows, asked.rules, names, pace, self.write, asked.checkpoint, None)
        note_columns(self.following.state, self.columns)
        _refuse_ended(self.following, asked)
        #: The lines that were no measurements, by epoch: one that is replayed counts once.
        self.malformed = lines_by_epoch(asked.out / "malformed")
        self.results = EpochResults(asked.out, self.columns)

    def run(self, say: Any) -> bool:
        """Follow, and say how it goes; whether it was stopped before its end."""
        from batchline.sinks.files import remove_file
        from batchline.spark.following import EVERY_SECOND

        remove_file(self.asked.out / "summary.json")
        began, before = elapsed_seconds(), self.following.summary().get("read", 0)
        with stopping(self.stop):
            self.following.start({"availableNow": True} if self.asked.once else EVERY_SECOND)
            query = self.following.query
            while query is not None and query.isActive and not self.stop.wait(BETWEEN_LOOKS_S):
                say(line_of(self.summary(), self._epoch(), before, elapsed_seconds() - began))
            if self.stop.is_set():
                say("stopping as soon as this epoch is done")
                self.following.stop_between_epochs()
            elif self.asked.once or query is None:  # None: it was ended by --once, and killed before all was handed out
                say("handing out what is open")
                self.following.finish()
            else:
                self.following.wait()
        return self.stop.is_set()

    def _epoch(self) -> int:
        progress = self.following.query.lastProgress if self.following.query else None
        return progress["batchId"] if progress else 0

    def write(self, rows: "DataFrame", epoch: int) -> None:
        """Write what an epoch hands out."""
        from batchline.spark.epoch_results import lines_by_epoch
        from batchline.spark.following import Stopped

        if self.stop.is_set():
            raise Stopped
        self.results.write(rows, epoch)
        self.malformed |= lines_by_epoch(self.asked.out / "malformed", epoch)

    def summary(self) -> dict[str, Any]:
        """What has come since the stream began, and what became of it."""
        counts = self.following.summary()
        read, batches = counts.pop("read", 0), counts.pop("batches", 0)
        behind, batched = counts.pop("behind_watermark", 0), counts.pop("batched", 0)
        rejected = {name: count for name, count in counts.items() if count}
        malformed = sum(self.malformed.values())
        return {
            "read": read + malformed,
            "batched": batched,
            "rejected": rejected | ({"malformed": malformed} if malformed else {}),
            "batches": batches,
            "open": read - batched - sum(rejected.values()),
            "behind_watermark": behind,
            "rules": self.asked.rules.as_data(),
        }


def _refuse_ended(following: "Following", asked: Asked) -> None:
    from batchline.spark import checkpoint

    if checkpoint.is_finished(following.state) is not None and (asked.out / "summary.json").exists():
        raise InvalidCheckpoint(
            f"the stream in {asked.checkpoint} has ended, by --once: what was open is handed out, and nothing can "
            "follow. Start anew with another --out"
        )


@contextmanager
def stopping(asked: threading.Event) -> Iterator[None]:
    """Set an event when somebody presses Ctrl-C or ends the process; whoever does so twice does not want to wait."""

    def stop(*_: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(one, stop) for one in signals]
    try:
        yield
    finally:
        for one, handler in zip(signals, before, strict=True):
            signal.signal(one, handler)


def line_of(summary: Mapping[str, Any], epoch: int, before: int, seconds: float) -> str:
    """How it goes, in a line."""
    rejected = sum(summary["rejected"].values())
    rate = (summary["read"] - before) / seconds if seconds else 0
    return (
        f"{summary['read']:,} read · {summary['batched']:,} batched · {rejected:,} rejected · "
        f"{summary['open']:,} open · epoch {epoch} · {rate:,.0f} rows a second"
    )


def show(summary: Mapping[str, Any], out: Path) -> None:
    """The summary for a person."""
    verdicts = {"batched": summary["batched"]} | summary["rejected"]
    opened = {"open": summary["open"]} if summary["open"] else {}
    screen.out.print(screen.counts(f"{summary['read']:,} read", verdicts | opened), "")
    screen.out.print(f"{summary['batches']:,} batches")
    if summary["behind_watermark"]:
        screen.out.print(
            f"[yellow]{summary['behind_watermark']:,} came later than --skew allows[/]: taken as received at the time "
            "that their key had reached"
        )
    screen.out.print(f"[dim]results in {screen.plain(str(out))}/[/]")
