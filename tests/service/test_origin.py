"""Headers that name where a request comes from, and where it goes: whatever is in them, the answer is not 500."""

from collections.abc import Iterator
from contextlib import closing, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as some

from batchline import open_store
from batchline.errors import Forbidden, InvalidInput
from batchline.service.origin import check_origin
from batchline.service.service import Service
from tests.service.asking import Asking

ODD = ("http://[", "http://[::1", "//[", "http://[x]/", "http://[::1%]", "http://a:b:c", "http://\uff0f", "[", "]")
#: Every byte, as a header has it; and those that addresses are made of.
TEXTS = some.text(some.characters(max_codepoint=255)) | some.text("[]:/@%.\\?#0aFhtps-") | some.sampled_from(ODD)


@pytest.fixture(scope="module")
def asking() -> Iterator[Asking]:
    with open_store("memory://") as store:
        store.migrate()
        with closing(Service(store)) as service:
            yield Asking(service)


@pytest.mark.parametrize("headers", [{"origin": "http://["}, {"host": "["}, {"host": "[x]"}, {"host": "[::1"}])
def test_a_header_that_is_no_address_is_400_and_named(asking: Asking, headers: dict[str, str]) -> None:
    answer = asking.get("/v1/topics", **headers)
    assert (answer.status, answer.problem) == (400, "InvalidInput")
    ((name, value),) = headers.items()
    detail = answer.json()["detail"]
    assert f"the header {name.title()} is no address: {value!r}; expected one such as" in detail


@pytest.mark.parametrize("any_host", [True, False])
def test_a_host_that_is_no_address_is_refused_under_whatever_name_the_service_is_reached(any_host: bool) -> None:
    with pytest.raises(InvalidInput, match="the header Host is no address"):
        check_origin({"host": "["}, any_host=any_host)


@given(TEXTS, TEXTS | some.none(), some.booleans())
def test_any_origin_and_host_are_allowed_forbidden_or_invalid(host: str, origin: str | None, any_host: bool) -> None:
    headers = {"host": host} | ({} if origin is None else {"origin": origin})
    with suppress(Forbidden, InvalidInput):
        check_origin(headers, any_host=any_host)
