from dataclasses import replace
from pathlib import Path

from tests.faults.evidence import Evidence
from tests.faults.plan import Fault
from tests.faults.recovery import Recovery
from tests.faults.report import Tally, line_of, recovery_table, story_of, table_of
from tests.faults.scene import Outcome

PLAN = [Fault(1.0, "kill", "worker-1", 0.5), Fault(2.0, "sink", "sink", 1.0, "429")]
OUTCOME = Outcome(Evidence(device=[["sent", 1, ""]]), ["   1.00  injure worker-1"])


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
    lines = {line.rsplit(maxsplit=1)[0].strip(): line for line in table_of(tally).splitlines() if line}
    assert lines["kill worker"].endswith(" 2")
    assert lines["faults in all"].endswith(" 4")


def test_recovery_times_are_a_table_of_80_columns_by_kind() -> None:
    one = Recovery("freeze stranger fanouts", 16.0, 12.0, 15, "injury")
    others = [replace(one, lasted_s=6.0, counted_s=2.0), replace(one, is_hidden=True)]
    hidden = Recovery("kill worker", 0.0, 0.0, 10, "mend", is_hidden=True)
    table = recovery_table([one, *others, hidden]).splitlines()
    assert max(map(len, table)) <= 80
    assert table[1].split() == ["freeze", "stranger", "fanouts", "3", "2", "11.0", "16.0", "12.0", "15", "injury"]
    assert table[2].split() == ["kill", "worker", "1", "0"]
