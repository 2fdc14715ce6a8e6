"""A landing: a directory into which sources put what comes, and which `batchline batch --follow` follows.

    arrived ─► stamped ─► land ─► .name, on disk ─► name          lines that are measurements
                                └► malformed/.name ─► malformed/name    lines that are none, and why

A file is there whole or not at all, and once `land` has returned it outlives a power cut. Each writer has a *series*
of its own, so that names never collide; within a series receive times and sequences only grow, also after a restart,
whatever became of the files: a hidden file remembers them.
"""

import fcntl
import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self

from batchline.core.moment import EARLIEST_RECEIVE_US, moment_of
from batchline.errors import InvalidName, LandingUnavailable, shown
from batchline.sources.iso_time import us_from_text
from batchline.sources.measured import Arrival, Malformed, Measured, malformed_rows_of, rows_of

__all__ = ["MALFORMED", "Landing"]

#: Where lines are kept that are no measurements.
MALFORMED: Final = "malformed"
SERIES: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)
#: Its longest run of digits: 2**63 has 19.
DIGITS: Final = 19


class Landing:
    """A directory, and one series of files in it; threads may share it, but only one of them may `land` at a time."""

    def __init__(self, directory: Path, series: str) -> None:
        if not SERIES.fullmatch(series):
            raise InvalidName(f"a series is named by up to 64 letters, digits, _ and -, got {shown(series)}")
        self.directory, self.series = directory, series
        self._names = re.compile(rf"\.?(\d{{8}}T\d{{6}}\.\d{{6}}Z)-{series}-(\d{{{DIGITS}}})\.jsonl(\.new)?")
        self._stamping = threading.Lock()
        with self._translated():
            (directory / MALFORMED).mkdir(parents=True, exist_ok=True)
            self._lock = _locked(directory / f".{series}.lock")
            try:
                self._receive_us, self._sequence = self._last()
                self._remove_halves()
            except BaseException:
                os.close(self._lock)
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let another process have the series."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def arrived(self, now_us: int, parse: Callable[[int], Sequence[Measured | Malformed]]) -> Arrival:
        """Stamp what comes now; `parse` says what it is, and is given the receive time.

        No two have the same: where it is the event time, too, the batcher would take the second for a duplicate.
        """
        with self._stamping:
            receive_us = self._receive_us = max(now_us, self._receive_us + 1)
            parts = parse(receive_us)
            first = self._sequence + 1
            self._sequence += len(parts)
        return Arrival(receive_us, first, parts)

    def land(self, arrivals: Sequence[Arrival]) -> None:
        """Keep what came, in one file, and what of it is malformed in another: durable when this returns.

        Raises LandingUnavailable if that is not possible now; then nothing of it has landed.
        """
        # Line by line: all of them together would take several times as much memory as what came.
        rows = (_line(row) for arrival in arrivals for row in rows_of(self.series, arrival))
        malformed = (_line(row) for arrival in arrivals for row in malformed_rows_of(arrival))
        kinds = {type(part) for arrival in arrivals for part in arrival.parts}
        contents = {self.directory: (Measured, rows), self.directory / MALFORMED: (Malformed, malformed)}
        with self._translated():
            name = self._next_name(arrivals[0].receive_us)
            _sync(self.directory)  # for what was just written down
            _write_all({directory / name: lines for directory, (kind, lines) in contents.items() if kind in kinds})

    def _next_name(self, receive_us: int) -> str:
        """A name that sorts by time and that no file had; what it takes from the sequence is written down first."""
        with self._stamping:
            self._sequence += 1
            number, state = self._sequence, {"receive_us": self._receive_us, "sequence": self._sequence}
        hidden = _hidden(self._state)
        _write(hidden, [_line(state)])
        hidden.replace(self._state)
        return f"{moment_of(receive_us):%Y%m%dT%H%M%S.%fZ}-{self.series}-{number:0{DIGITS}}.jsonl"

    @property
    def _state(self) -> Path:
        return self.directory / f".{self.series}.json"

    def _last(self) -> tuple[int, int]:
        """The last receive time and sequence of the series: those written down, or of files that are there."""
        there = [_stamp_in(found) for _, found in self._files()]
        with suppress(FileNotFoundError):
            there.append(self._remembered(self._state.read_text()))
        times, sequences = zip((EARLIEST_RECEIVE_US, 0), *there, strict=True)
        return max(times), max(sequences)

    def _remembered(self, text: str) -> tuple[int, int]:
        try:
            state = json.loads(text)
            return int(state["receive_us"]), int(state["sequence"])
        except (ValueError, KeyError, TypeError) as error:
            raise LandingUnavailable(f"{self._state} is damaged: remove it, and no file of the series") from error

    def _remove_halves(self) -> None:
        """Remove the files that a killed writer left under hidden names, its state's included."""
        halves = [path for path, _ in self._files() if path.name.startswith(".")]
        for path in (_hidden(self._state), *halves):
            path.unlink(missing_ok=True)

    def _files(self) -> Iterator[tuple[Path, re.Match[str]]]:
        for directory in (self.directory, self.directory / MALFORMED):
            for path in directory.iterdir():
                if found := self._names.fullmatch(path.name):
                    yield path, found

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except BlockingIOError as error:
            raise LandingUnavailable(f"another process lands the series {self.series} in {self.directory}") from error
        except OSError as error:
            raise LandingUnavailable(f"{self.directory} cannot be written to: {error.strerror or error}") from error


def _stamp_in(name: re.Match[str]) -> tuple[int, int]:
    day, time = name[1].split("T")
    text = f"{day[:4]}-{day[4:6]}-{day[6:]}T{time[:2]}:{time[2:4]}:{time[4:]}"
    return us_from_text(text) or EARLIEST_RECEIVE_US, int(name[2])


def _line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode() + b"\n"


def _locked(path: Path) -> int:
    """A file that this process alone has locked, until it closes it or ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _write_all(files: Mapping[Path, Iterable[bytes]]) -> None:
    """Write files under hidden names; only when all are on disk do they get their own. All, or none of them."""
    done = False
    try:
        for path, lines in files.items():
            _write(_hidden(path), lines)
        for path in files:
            _hidden(path).replace(path)
        for directory in {path.parent for path in files}:
            _sync(directory)
        done = True
    finally:
        if not done:
            _remove([*map(_hidden, files), *files])


def _hidden(path: Path) -> Path:
    return path.with_name(f".{path.name.lstrip('.')}.new")


def _remove(paths: Sequence[Path]) -> None:
    for path in paths:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _write(path: Path, lines: Iterable[bytes]) -> None:
    with path.open("wb") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    """A name is on disk only when its directory is."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
