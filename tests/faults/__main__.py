"""`python -m tests.faults`: run after run, until enough has gone wrong; ends with 1 if something was lost."""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.faults.invariants import violations
from tests.faults.plan import KINDS, Fault, plan_of
from tests.faults.report import Tally, line_of, story_of, table_of
from tests.faults.scene import play

__all__ = ["main"]


def main() -> int:
    """Play runs of consecutive seeds; the exit code."""
    options = _options()
    tally, seed, broken = Tally(), options.seed, 0
    while True:
        wanted = options.faults - tally.faults.total()
        count = min(options.each, wanted) if options.faults else options.each
        plan = plan_of(seed, options.seconds, count, options.only)
        again = f"python -m tests.faults --seed {seed} --seconds {options.seconds:g} --each {count}"
        again += f" --only {','.join(options.only)}" if options.only else ""
        broken += not run_of(seed, plan, tally, again, keep=options.keep)
        seed += 1
        if tally.faults.total() >= options.faults:
            break
    print(table_of(tally))
    return 1 if broken else 0


def run_of(seed: int, plan: list[Fault], tally: Tally, again: str, *, keep: bool = False) -> bool:
    """One run, told in a line; if something is wrong, with the whole story. Whether all was well."""
    home = Path(tempfile.mkdtemp(prefix=f"batchline-faults-{seed}-"))
    outcome = play(seed, plan, home)
    wrong = [*outcome.troubles, *violations(outcome.evidence)]
    tally.add(plan, outcome, wrong)
    print(line_of(seed, plan, outcome, wrong), flush=True)
    if wrong:
        print(story_of(seed, plan, outcome, wrong, home, again), flush=True)
    elif not keep:
        shutil.rmtree(home)
    return not wrong


def _kinds(text: str) -> list[str]:
    known = {kind.do for kind in KINDS}
    words = text.split(",")
    if unknown := sorted(set(words) - known):
        raise argparse.ArgumentTypeError(f"no faults {', '.join(unknown)}: expected some of {', '.join(sorted(known))}")
    return words


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--faults", type=int, default=0, help="how many faults in all; one run unless said")
    parser.add_argument("--seed", type=int, default=1, help="of the first run; those after it count on")
    parser.add_argument("--seconds", type=float, default=60, help="how long a run is injured")
    parser.add_argument("--each", type=int, default=20, help="faults of a run")
    parser.add_argument("--only", type=_kinds, default=(), help="kinds of faults, such as freeze,cut; all unless said")
    parser.add_argument("--keep", action="store_true", help="keep the logs of runs in which all was well")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
