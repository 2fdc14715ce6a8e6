"""The OpenAPI document, made of the operations."""

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from batchline import errors
from batchline.service.operation import NoForm, Operation, Socket
from batchline.wire.form import Form
from batchline.wire.problems import PROBLEM_JSON, ProblemForm, status_of

__all__ = ["ALWAYS", "WITH_BODY", "WITH_TOKEN", "openapi_document"]

JSON: Final = "application/json"
REFERENCE: Final = "#/components/schemas/{name}"
#: How every request may be refused.
ALWAYS: Final = (errors.WrongContent, errors.Forbidden, errors.Overloaded, errors.StoreUnavailable)
WITH_TOKEN: Final = (errors.Unauthorized, errors.TooManyFailures)
WITH_BODY: Final = (errors.TooLarge, errors.TooSlow, errors.WrongMedia)
NAME: Final = {"type": "string", "minLength": 1, "maxLength": 255}
TITLE: Final = "Batchline"
ABOUT: Final = "Measurements, fanouts and messages at a moment."


def openapi_document(operations: Sequence[Operation], version: str, sockets: Sequence[Socket] = ()) -> dict[str, Any]:
    """The document of some operations."""
    forms = {form for one in operations for form in (one.form, one.answer) if form not in (None, NoForm)}
    _, components = msgspec.json.schema_components([ProblemForm, *sorted(forms, key=str)], ref_template=REFERENCE)
    queries = {one.form.__name__ for one in operations if not one.has_body}
    paths: dict[str, dict[str, Any]] = {}
    for one in operations:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": TITLE, "version": version, "description": _description(sockets)},
        "paths": paths,
        "components": {
            "schemas": {name: schema for name, schema in components.items() if name not in queries},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _description(sockets: Sequence[Socket]) -> str:
    """OpenAPI has no words for sockets: they are told of here."""
    lines = [f"WebSocket `GET {one.path}` (right: {one.right}): {one.summary}" for one in sockets]
    return "\n\n".join([ABOUT, *lines])


def _operation(one: Operation, components: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": one.name,
        "summary": one.summary,
        "tags": [_tag(one.path)],
        "x-right": one.right,
        "parameters": [*_names(one), *_query(one, components)],
        "responses": _responses(one),
    }
    if one.has_body:
        described["requestBody"] = {"required": True, "content": {JSON: {"schema": _reference(one.form)}}}
    elif one.reads:
        described["requestBody"] = {"required": True, "content": {kind: {"schema": {}} for kind in one.reads}}
    return described


def _tag(path: str) -> str:
    if path.startswith("/api/v1/batch"):
        return "carlyle"
    return path.split("/")[2] if path.startswith("/v1/") else "service"


def _names(one: Operation) -> Iterable[dict[str, Any]]:
    for segment in one.path.split("/"):
        if segment.startswith("{"):
            yield {"name": segment[1:-1], "in": "path", "required": True, "schema": NAME}


def _query(one: Operation, components: dict[str, Any]) -> Iterable[dict[str, Any]]:
    if one.has_body or one.form is NoForm:
        return
    schema = components[one.form.__name__]
    for name, property_ in schema["properties"].items():
        yield {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": property_}


def _responses(one: Operation) -> dict[str, Any]:
    status = one.status if one.answer is not None or one.media != JSON else 204
    content = {one.media: {"schema": _reference(one.answer) if one.answer else {"type": "string"}}}
    body = {} if status == HTTPStatus.NO_CONTENT else {"content": content}
    answers: dict[str, Any] = {str(status): {"description": one.summary} | body}
    for refusal in sorted(_refusals(one)):
        answers[str(refusal)] = {
            "description": HTTPStatus(refusal).phrase,
            "content": {PROBLEM_JSON: {"schema": _reference(ProblemForm)}},
        }
    return answers


def _refusals(one: Operation) -> set[int]:
    kinds: list[type[errors.BatchlineError]] = [*ALWAYS, *one.refusals]
    kinds += WITH_TOKEN if one.right != "none" else ()
    kinds += WITH_BODY if one.has_body or one.reads else ()
    return {status_of(kind("")) for kind in kinds}


def _reference(form: type[Form]) -> dict[str, str]:
    return {"$ref": REFERENCE.format(name=form.__name__)}
