"""What is answered may have more than a client knows; what is asked may not."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from batchline.service.service import OPERATIONS
from batchline.wire.push import Said

ANSWERS = sorted({one.answer for one in OPERATIONS if one.answer is not None}, key=lambda form: form.__name__)
ASKED = sorted({one.form for one in OPERATIONS if one.has_body}, key=lambda form: form.__name__)


def structs_in(kind: Any, seen: set[Any]) -> Iterator[type[msgspec.Struct]]:
    for inner in getattr(kind, "__args__", ()):
        yield from structs_in(inner, seen)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind not in seen:
        seen.add(kind)
        yield kind
        for field in msgspec.structs.fields(kind):
            yield from structs_in(field.type, seen)


@pytest.mark.parametrize("answer", [*ANSWERS, Said], ids=lambda form: getattr(form, "__name__", "Said"))
def test_an_answer_of_a_newer_service_is_understood(answer: Any) -> None:
    assert [one for one in structs_in(answer, set()) if one.__struct_config__.forbid_unknown_fields] == []


@pytest.mark.parametrize("form", ASKED, ids=lambda form: form.__name__)
def test_a_request_with_a_field_that_nobody_knows_is_refused(form: type[msgspec.Struct]) -> None:
    is_carlyles = form.__module__.endswith("carlyle")  # as its own service had it
    assert form.__struct_config__.forbid_unknown_fields is not is_carlyles
