"""The command line as a user calls it, in this process."""

import os
import pty
import re
import subprocess
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


def on_terminal(*words: object, columns: int = 100, code: int = 0) -> str:
    """What a person sees, without the colours."""
    controller, terminal = pty.openpty()
    environment = os.environ | {"COLUMNS": str(columns), "TERM": "xterm-256color"}
    command = [sys.executable, "-m", "batchline", *map(str, words)]
    process = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment)
    os.close(terminal)
    seen = b""
    try:
        while piece := os.read(controller, 65_536):
            seen += piece
    except OSError:
        pass  # Linux says so when the other end is closed
    os.close(controller)
    assert process.wait() == code, seen
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode()).replace("\r\n", "\n")
