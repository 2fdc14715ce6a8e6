"""The page about HTTP is that of the operations."""

import difflib
import re

import msgspec

from batchline.core.connection_limits import ConnectionLimits
from batchline.core.failure_budget import BURST
from batchline.service.measurements import LARGEST_BODY as LARGEST_MEASUREMENTS
from batchline.service.reading import BODY_BYTES, LARGEST_BODY, SMALL
from batchline.service.under_way import MOST_UNDER_WAY
from batchline.wire.form import MOST_AT_ONCE
from batchline.wire.problems import RETRY_AFTER_S
from tests.docs.http_tables import ALL, DOCUMENT, PAGE, filled

TEXT = PAGE.read_text()


def test_the_tables_of_the_page_are_those_of_the_operations() -> None:
    difference = difflib.unified_diff(TEXT.splitlines(), filled(TEXT).splitlines(), "page", "operations", lineterm="")
    assert "\n".join(difference) == "", "run: python -m tests.docs.http_tables"


def test_the_limits_on_the_page_are_those_of_the_code() -> None:
    bodies = (MOST_AT_ONCE, LARGEST_BODY >> 20, LARGEST_MEASUREMENTS >> 20, BODY_BYTES >> 20, SMALL >> 10)
    limits = ConnectionLimits()
    heads = (limits.headers, limits.head_bytes >> 10, limits.url_bytes, limits.head_s)
    times = (limits.grace_s, limits.bytes_per_s, limits.idle_s, BURST)
    for limit in (*bodies, *heads, *times, MOST_UNDER_WAY, RETRY_AFTER_S):
        assert re.search(rf"\*\*{limit:,g}\b", TEXT), limit


def test_every_operation_has_a_name_of_its_own_a_summary_and_a_place_in_the_document() -> None:
    names = [one.name for one in ALL]
    assert len(names) == len(set(names))
    for one in ALL:
        assert one.summary.endswith("."), one.name
        assert DOCUMENT["paths"][one.path][one.method.lower()]["operationId"] == one.name
    assert msgspec.json.encode(DOCUMENT)
