"""The pipeline that is run, as a file of TOML."""

import json
from pathlib import Path
from typing import Any, Final

__all__ = ["COMPLETED", "LANES", "NAME", "TOPIC", "write_pipeline"]

NAME: Final = "faults"
TOPIC: Final = "parcels"
#: Gets a message for each fanout that is complete.
COMPLETED: Final = "completed"
LANES: Final = 4


def write_pipeline(path: Path, landing: Path, out: Path, store: str, shared: str, sink: str) -> None:
    """Small and quick everywhere: batches of two seconds, parcels of a few dozen, fanouts of three seconds."""
    tables: dict[str, dict[str, Any]] = {
        "": {"name": NAME, "out": str(out), "master": "local[2]"},
        "source": {"address": str(landing), "order": ["sequence"], "clock": "wall", "skew": "2s"},
        "batch": {"window": "1s", "max_delay": "6s", "leap_limit": "5s"},
        "pack": {"max_items": 20},
        "publish": {
            "store": store,
            "topic": TOPIC,
            "lanes": LANES,
            "linger": "1s",
            "period": "3s",
            "tell": COMPLETED,
            "tolerate": -1,
        },
        "capacity": {"per_second": 300, "shared": shared},
        "sink": {"address": sink, "timeout": "2s"},
        "work": {"in_hand": 32, "concurrency": 8, "lease": "3s"},
        "work.retry": {"first": "200ms", "longest": "1s"},
    }
    path.write_text("\n".join(line for name, table in tables.items() for line in _lines(name, table)) + "\n")


def _lines(name: str, table: dict[str, Any]) -> list[str]:
    return [*([f"[{name}]"] if name else []), *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
