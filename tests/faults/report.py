"""What is said of runs: a line for each, a table in the end, and the whole story of one that went wrong."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.plan import KILLS, Fault
from tests.faults.scene import Outcome

__all__ = ["Tally", "line_of", "story_of", "table_of"]


@dataclass(slots=True)
class Tally:
    """What all runs together were like."""

    runs: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    #: Faults, and of them kills, of runs in which all was well.
    survived: int = 0
    kills: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    longest_s: float = 0.0
    drain_s: float = 0.0
    violations: int = 0

    def add(self, plan: Sequence[Fault], outcome: Outcome, wrong: Sequence[str]) -> None:
        """One run more."""
        self.runs += 1
        self.faults.update(fault.name for fault in plan)
        self.rows.update(_rows(outcome))
        self.ended.update(outcome.ended)
        self.longest_s = max(self.longest_s, outcome.longest_s)
        self.drain_s = max(self.drain_s, outcome.drain_s)
        self.violations += len(wrong)
        if not wrong:
            self.survived += len(plan)
            self.kills += sum(fault.do in KILLS for fault in plan)


def _rows(outcome: Outcome) -> dict[str, int]:
    found = outcome.evidence
    return {
        "sent": sum(line[0] == "sent" for line in found.device),
        "landed": len(found.landed) + len(found.malformed),
        "refused by a rule": len(found.rejected) + len(found.malformed),
        "accepted": len(found.landed) - len(found.rejected),
        "arrived": len(found.arrived),
        "dead letters": len(found.dead),
        "parcels": len(found.parcels),
        "fanouts": len(found.fanouts),
    }


def line_of(seed: int, plan: Sequence[Fault], outcome: Outcome, wrong: Sequence[str]) -> str:
    """A run in a line."""
    rows = _rows(outcome)
    told = " · ".join(f"{rows[name]:,} {name}" for name in ("sent", "landed", "accepted", "arrived", "dead letters"))
    state = f"{len(wrong)} VIOLATIONS" if wrong else "all well"
    times = f"longest pause {outcome.longest_s:.1f} s · drained in {outcome.drain_s:.1f} s"
    return f"seed {seed}: {len(plan)} faults · {told} · {times} · {state}"


def table_of(tally: Tally) -> str:
    """All runs in a table."""
    lines = [("runs", tally.runs), *sorted(tally.faults.items()), ("faults in all", tally.faults.total())]
    lines += [("faults survived", tally.survived), ("kills survived", tally.kills)]
    lines += [(f"measurements {name}" if place < 6 else name, n) for place, (name, n) in enumerate(tally.rows.items())]
    lines += [(f"ended by itself: {name}", count) for name, count in sorted(tally.ended.items())]
    text = [f"  {name:32} {count:>10,}" for name, count in lines]
    times = [("longest without an arrival", tally.longest_s), ("longest until drained", tally.drain_s)]
    text += [f"  {name:32} {seconds:>8.1f} s" for name, seconds in times]
    return "\n".join([*text, f"  {'violations':32} {tally.violations:>10,}"])


def story_of(seed: int, plan: Sequence[Fault], outcome: Outcome, wrong: Sequence[str], home: Path, again: str) -> str:
    """All that is needed to understand what went wrong, and to see it again by a command."""
    return "\n".join(
        [
            f"seed {seed}: {len(wrong)} violations",
            *(f"  ✗ {one}" for one in wrong),
            "the plan:",
            *(f"  {fault}" for fault in plan),
            "what happened:",
            *(f"  {line}" for line in outcome.history),
            f"logs of all processes: {home}",
            f"again: {again}",
        ]
    )
