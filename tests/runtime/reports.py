"""What the page on reports says that they have."""

import json
import re
from pathlib import Path
from typing import Any

from batchline import Store
from batchline.stores.report_rows import ReportRow

PAGE = Path(__file__).parents[2] / "docs/reference/reports.md"


def documented(kind: str) -> set[str]:
    """The keys of a report of a kind, by the page."""
    common, *sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    (section,) = (text for text in sections if text.startswith(f"`{kind}`"))
    return set(re.findall(r"^\| `([^`]+)` \|", common + section, re.MULTILINE))


def keys_of(body: Any, begin: str = "") -> set[str]:
    """The keys of a report, as the page writes them."""
    found = set()
    for name, value in body.items():
        found.add(f"{begin}{name}")
        if name == "steps":
            found |= {key for step in value.values() for key in keys_of(step, "steps.*.")}
        elif name == "epochs":
            found |= {key for epoch in value for key in keys_of(epoch, "epochs[].")}
        elif isinstance(value, dict) and name != "rejected":
            found = found - ({f"{begin}{name}"} if name in ("parcels", "measurements") else set())
            found |= keys_of(value, f"{begin}{name}.")
    return found


def reports_in(store: Store, kind: str) -> list[tuple[ReportRow, dict[str, Any]]]:
    """The reports of a kind, with their bodies."""
    return [(row, json.loads(row.body)) for row in store.read(lambda rows: rows.reports(0, kind))]
