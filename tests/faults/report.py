"""What is said of runs: a line for each, a table in the end, and the whole story of one that went wrong."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from tests.faults.plan import KILLS, Fault
from tests.faults.recovery import NOTED_S, Recovery, recoveries
from tests.faults.scene import Outcome

__all__ = ["Tally", "line_of", "recovery_table", "story_of", "table_of"]

#: Seconds; what counts is what comes after the injury, or after the mend.
HEAD: Final = f"  {'seconds without progress':<25} faults measured  median longest counts limit since"
FOOT: Final = (
    f"  A pause of a lane under {NOTED_S:g} s is 0. Of faults that overlap, the one that may",
    "  last longest is measured. On top of a limit come 5 s for the rhythm of",
    "  micro-batches, or 30 s for a start of Spark, times the load per processor.",
)


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
    drain_s: float = 0.0
    violations: int = 0
    recoveries: list[Recovery] = field(default_factory=list)

    def add(self, plan: Sequence[Fault], outcome: Outcome, wrong: Sequence[str]) -> None:
        """One run more."""
        self.runs += 1
        self.faults.update(fault.name for fault in plan)
        self.rows.update(_rows(outcome))
        self.ended.update(outcome.ended)
        self.recoveries += recoveries(outcome.happenings, outcome.evidence.stalls)
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
        "strays": len(found.strays),
        "parcels": len(found.parcels),
        "fanouts": len(found.fanouts),
    }


def line_of(seed: int, plan: Sequence[Fault], outcome: Outcome, wrong: Sequence[str]) -> str:
    """A run in a line."""
    rows = _rows(outcome)
    told = " · ".join(f"{rows[name]:,} {name}" for name in ("sent", "landed", "accepted", "arrived", "dead letters"))
    state = f"{len(wrong)} VIOLATIONS" if wrong else "all well"
    longest_s = max((stall.lasted_s for stall in outcome.evidence.stalls), default=0.0)
    times = f"longest pause {longest_s:.1f} s · drained in {outcome.drain_s:.1f} s"
    return f"seed {seed}: {len(plan)} faults · {told} · {times} · {state}"


def table_of(tally: Tally) -> str:
    """All runs in a table."""
    lines = [("runs", tally.runs), *sorted(tally.faults.items()), ("faults in all", tally.faults.total())]
    lines += [("faults survived", tally.survived), ("kills survived", tally.kills)]
    lines += [(f"measurements {name}" if place < 6 else name, n) for place, (name, n) in enumerate(tally.rows.items())]
    lines += [(f"ended by itself: {name}", count) for name, count in sorted(tally.ended.items())]
    text = [f"  {name:32} {count:>10,}" for name, count in lines]
    text += [f"  {'longest until drained':32} {tally.drain_s:>8.1f} s"]
    return "\n".join([*text, f"  {'violations':32} {tally.violations:>10,}", "", recovery_table(tally.recoveries)])


def recovery_table(found: Sequence[Recovery]) -> str:
    """How long a lane went without an arrival after each kind of fault: 80 columns wide."""
    by_name: dict[str, list[Recovery]] = {}
    for one in found:
        by_name.setdefault(one.name, []).append(one)
    lines = [HEAD, *(_recovery_line(name, some) for name, some in sorted(by_name.items()))]
    return "\n".join([*lines, *FOOT])


def _recovery_line(name: str, found: Sequence[Recovery]) -> str:
    """Without figures if each of them is hidden by another fault."""
    measured = [one for one in found if not one.is_hidden]
    head = f"  {name:<25} {len(found):>6} {len(measured):>8}"
    if not measured:
        return head
    lasted, counted = [one.lasted_s for one in measured], max(one.counted_s for one in measured)
    limits = f"{counted:>7.1f} {found[0].limit_s:>5.0f} {found[0].since}"
    return f"{head} {median(lasted):>7.1f} {max(lasted):>7.1f} {limits}"


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
