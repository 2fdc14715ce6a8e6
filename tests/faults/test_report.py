from pathlib import Path

from tests.faults.evidence import Evidence
from tests.faults.plan import Fault
from tests.faults.report import Tally, line_of, story_of, table_of
from tests.faults.scene import Outcome

PLAN = [Fault(1.0, "kill", "worker-1", 0.5), Fault(2.0, "sink", "sink", 1.0, "429")]
OUTCOME = Outcome(Evidence(device=[["sent", 1, ""]]), ["   1.00  injure worker-1"], longest_s=3.25)


def test_a_story_has_all_that_is_needed_to_see_it_again() -> None:
    story = story_of(7, PLAN, OUTCOME, ["A row is lost: 1"], Path("kept"), "python -m tests.faults --seed 7")
    parts = ("seed 7", "A row is lost: 1", str(PLAN[1]), "injure worker-1", "kept", "python -m tests.faults --seed 7")
    assert all(part in story for part in parts)


def test_a_run_is_told_in_a_line_and_all_of_them_in_a_table() -> None:
    tally = Tally()
    tally.add(PLAN, OUTCOME, [])
    tally.add(PLAN, OUTCOME, ["lost"])
    assert (tally.runs, tally.survived, tally.kills, tally.violations) == (2, 2, 1, 1)
    assert "1 VIOLATIONS" in line_of(7, PLAN, OUTCOME, ["lost"])
    lines = {line.rsplit(maxsplit=1)[0].strip(): line for line in table_of(tally).splitlines()}
    assert lines["kill worker"].endswith(" 2")
    assert lines["faults in all"].endswith(" 4")
