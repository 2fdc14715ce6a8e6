"""Scenarios in files of TOML."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from batchline.cli.toml_file import read_toml
from batchline.core.scenario import Scenario
from batchline.core.scenario_tables import scenario_of

__all__ = ["EXAMPLE", "read_scenario"]

#: The seed's example, as a file to begin with.
EXAMPLE: Final = Path(__file__).with_name("capacity.toml")


def read_scenario(path: Path, changes: Sequence[str] = ()) -> Scenario:
    """The scenario in a file, with changes such as `capacity.factor=500`."""
    return scenario_of(read_toml(path, changes))
