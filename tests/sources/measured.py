"""Small files of measurements, and what became of them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from batchline.sources.files import Reading, blocks, read_measurements

NOON = "2026-11-15T12:00:00.000000Z"
#: A measurement as a line has it.
ROW: dict[str, Any] = {"key": "pump-1", "type": "flow", "event_time": NOON, "receive_time": NOON}


def row(**changes: Any) -> dict[str, Any]:
    """A measurement with other values; ... takes a field away."""
    return {name: value for name, value in (ROW | changes).items() if value is not ...}


def line(**changes: Any) -> str:
    return json.dumps(row(**changes))


def put(directory: Path, content: str | bytes, name: str = "a.jsonl") -> Path:
    path = directory / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(directory: Path, content: str | bytes, name: str = "a.jsonl", **names: str) -> Reading:
    return read_measurements([put(directory, content, name)], names)


def reasons(reading: Reading) -> dict[int, str]:
    return dict(zip(reading.malformed["line"].to_pylist(), reading.malformed["reason"].to_pylist(), strict=True))


@contextmanager
def in_blocks(size: int) -> Iterator[None]:
    """Cut files after `size` bytes, and after a few lines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK_BYTES", size)
        patch.setattr(blocks, "BLOCK_LINES", size % 7 + 1)
        yield
