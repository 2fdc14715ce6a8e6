"""What became of messages: a line for each to a program, and in sum to a person."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import typer

from batchline.cli import screen
from batchline.core.message import Outcome, lease_text

__all__ = ["Report", "messages_text", "outcome_data", "reported"]

#: Refused messages that are shown one by one on a terminal.
SHOWN: Final = 10
#: What happened to a message that was as it should be before.
BEFORE: Final = {"exists": "there before"}


def messages_text(count: int) -> str:
    """`1 message`, `1,000 messages`."""
    return f"{count:,} message{'' if count == 1 else 's'}"


def outcome_data(outcome: Outcome) -> dict[str, Any]:
    """An outcome for a program; an id that was never made is null."""
    lease = outcome.lease
    data = {"id": outcome.id or None, "outcome": outcome.outcome, "ok": outcome.ok, "reason": outcome.reason}
    return data if lease is None else data | {"lease": lease_text(lease), "until": lease.until}


class Report:
    """The outcomes of a command, part by part. The work goes on when nobody reads them any more."""

    def __init__(self, did: str, json: bool):
        self._did = did
        self._json = json
        self._counts: Counter[str] = Counter()
        self.refused = 0
        #: Lines below the sentence.
        self.more: list[str] = []

    def add(self, outcomes: Sequence[Outcome], lines: Iterable[str] = ()) -> None:
        """Tell of some more; the lines are for people and pipes."""
        for outcome in outcomes:
            self._counts[outcome.outcome if outcome.ok else "refused"] += 1
            if not (outcome.ok or self._json):
                self._refuse(outcome)
        screen.tell_lines((screen.json_line(outcome_data(one)) for one in outcomes) if self._json else lines)

    def _refuse(self, outcome: Outcome) -> None:
        self.refused += 1
        if self.refused <= SHOWN or not sys.stderr.isatty():
            name = outcome.id or f"message {self._counts.total():,}"
            sys.stderr.write(f"{screen.one_line(name)}: {outcome.outcome}: {outcome.reason}\n")

    @property
    def any(self) -> bool:
        """Whether anything was told yet."""
        return bool(self._counts)

    @property
    def all_ok(self) -> bool:
        """Whether every message is as it was wanted."""
        return not self._counts["refused"]

    def sentence(self) -> str:
        """All of it in a sentence."""
        mark = "[green]✓[/] " if self.all_ok else ""
        before = [f", {self._counts[word]:,} {said}" for word, said in BEFORE.items() if self._counts[word]]
        return f"{mark}{messages_text(self._counts[self._did])} {self._did}{''.join(before)}"

    def end(self, sentence: bool) -> None:
        """What is said after the last."""
        if self.refused > SHOWN and sys.stderr.isatty():
            sys.stderr.write(f"… {self.refused - SHOWN:,} more; --json tells of each\n")
        if sentence and not self._json:
            screen.say("\n".join([self.sentence(), *self.more]))


@contextmanager
def reported(did: str, json: bool, *, sentence: bool = True) -> Iterator[Report]:
    """Report outcomes, also when an error ends them; with one that is not ok the exit code is 1."""
    report = Report(did, json)
    try:
        yield report
    except BaseException:
        if report.any:
            report.end(sentence)
        raise
    report.end(sentence)
    if not report.all_ok:
        raise typer.Exit(1)
