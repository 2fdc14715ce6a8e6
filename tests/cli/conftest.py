"""The command line as a user calls it, in this process."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from batchline.cli import main


@dataclass
class Said:
    code: int
    out: str
    err: str


Call = Callable[..., Said]


@pytest.fixture
def batchline(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """`batchline("batch", path, "--out", out)`: its exit code and what it printed."""
    monkeypatch.setenv("COLUMNS", "100")

    def call(*words: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["batchline", *map(str, words)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
        captured = capsys.readouterr()
        return Said(code, captured.out, captured.err)

    return call
