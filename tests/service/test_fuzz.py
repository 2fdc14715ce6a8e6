"""schemathesis against the OpenAPI document: no 5xx, no answer that the document does not have."""

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance, use_after_free

from batchline import __version__, open_store
from batchline.service.documents import documents_of
from batchline.service.openapi import openapi_document
from batchline.service.service import OPERATIONS
from tests.service.serving import serving

EXAMPLES = 200 if os.environ.get("BATCHLINE_TEST_PROFILE") == "full" else 8
#: A schema cannot say all that makes a lease one; and a topic can be read while it is being deleted.
EXCLUDED = [positive_data_acceptance, use_after_free]

document = openapi_document([*OPERATIONS, *documents_of(OPERATIONS)], __version__)
schema = schemathesis.openapi.from_dict(document)


@schemathesis.serializer("application/x-ndjson")
def lines(_: Any, value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with open_store("memory://") as store, serving(store) as url:
        yield url


@schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_answer_is_in_the_document(case: "schemathesis.Case[Any]", url: str) -> None:
    case.call_and_validate(base_url=url, excluded_checks=EXCLUDED)
