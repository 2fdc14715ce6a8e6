"""The tables of docs/reference/http.md, made of the operations: `python -m tests.docs.http_tables` puts them there."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from batchline import errors
from batchline.errors import BatchlineError
from batchline.service.documents import documents_of
from batchline.service.openapi import ALWAYS, WITH_BODY, WITH_TOKEN, openapi_document
from batchline.service.operation import NoForm, Operation
from batchline.service.service import OPERATIONS, SOCKETS
from batchline.wire.form import Form
from batchline.wire.problems import status_of

PAGE = Path(__file__).parents[2] / "docs/reference/http.md"
ALL = (*OPERATIONS, *documents_of(OPERATIONS))
DOCUMENT = openapi_document(ALL, "")
TITLES = {
    "topics": "Topics",
    "messages": "All messages of yours",
    "leases": "All leases of yours",
    "fanouts": "Fanouts",
    "estimates": "Estimates",
    "measurements": "Measurements",
    "service": "The service itself",
    "carlyle": "Carlyle's routes",
}
#: What every request may be refused with, wherever it goes.
EVERYWHERE = (*ALWAYS, *WITH_TOKEN, *WITH_BODY, errors.InvalidInput, errors.InvalidRules, errors.Degraded)
ELSEWHERE = (errors.UnknownRoute, errors.WrongMethod)
WORDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "null": "null"}


def parts() -> dict[str, str]:
    """The generated parts of the page, by their names."""
    return {"operations": operations(), "forms": forms(), "problems": problems()}


def operations() -> str:
    """A table for each group of operations."""
    groups: dict[str, list[Operation]] = {}
    for one in ALL:
        tag = DOCUMENT["paths"][one.path][one.method.lower()]["tags"][0]
        groups.setdefault(tag, []).append(one)
    ordered = sorted(groups, key=lambda tag: list(TITLES).index(tag) if tag in TITLES else len(TITLES))
    tables = [f"### {TITLES.get(tag, tag.capitalize())}\n\n{_table(groups[tag])}" for tag in ordered]
    return "\n\n".join([*tables, sockets()])


def sockets() -> str:
    """A table of WebSockets."""
    head = ["### WebSockets", "", "| address | what it does | right | form |", "|---|---|---|---|"]
    rows = [
        f"| `{one.path}` | {one.summary} | {one.right} | {_link(one.form.__name__)} in the query |" for one in SOCKETS
    ]
    return "\n".join([*head, *rows])


def _table(group: Iterable[Operation]) -> str:
    head = ["| request | what it does | right | form | answer | refused |", "|---|---|---|---|---|---|"]
    return "\n".join([*head, *map(_row, group)])


def _row(one: Operation) -> str:
    cells = (f"`{one.method} {one.path}`", one.summary, one.right, _request(one), _answer(one), _refused(one))
    return f"| {' | '.join(cells)} |"


def _request(one: Operation) -> str:
    if one.reads:
        return " or ".join(f"`{kind}`" for kind in one.reads)
    if one.form is NoForm:
        return ""
    return _link(one.form.__name__) + ("" if one.has_body else " in the query")


def _answer(one: Operation) -> str:
    if one.answer is None:
        return "204" if one.media == "application/json" else f"{one.status} `{one.media}`"
    return f"{one.status} JSON" if one.answer is Form else f"{one.status} {_link(one.answer.__name__)}"


def _refused(one: Operation) -> str:
    return ", ".join(f"`{kind.__name__}`" for kind in one.refusals)


def forms() -> str:
    """Every form that is sent or answered, with its fields."""
    used = {form for one in ALL for form in (one.form, one.answer) if form not in (None, NoForm, Form)}
    used |= {one.form for one in SOCKETS}
    _, found = msgspec.json.schema_components(sorted(used, key=str), ref_template="{name}")
    return "\n\n".join(_form(name, schema) for name, schema in sorted(found.items()) if schema.get("properties"))


def _form(name: str, schema: dict[str, Any]) -> str:
    rows = [
        f"| `{field}` | {type_text(kind)} | {_default(field, kind, schema)} |"
        for field, kind in schema["properties"].items()
    ]
    text = " ".join(schema.get("description", "").split())
    return "\n".join(
        [f"#### {name} {{ #form-{name.lower()} }}", "", text, "", "| field | is | default |", "|---|---|---|", *rows]
    )


def _default(field: str, kind: dict[str, Any], schema: dict[str, Any]) -> str:
    if field in schema.get("required", ()):
        return "required"
    default = kind.get("default")
    return "" if default in (None, "", [], {}) else f"`{msgspec.json.encode(default).decode()}`"


def type_text(kind: dict[str, Any]) -> str:
    """A schema in words."""
    if "$ref" in kind:
        return _link(kind["$ref"])
    if "enum" in kind:
        return ", ".join(f"`{value}`" for value in kind["enum"] if value is not None)
    if "anyOf" in kind:
        return " or ".join(type_text(one) for one in kind["anyOf"])
    if kind.get("type") == "array":
        return _list_text(kind)
    if kind.get("type") == "object":
        of = kind.get("additionalProperties")
        return f"{type_text(of)} by name" if isinstance(of, dict) else "an object"
    return WORDS.get(str(kind.get("type")), "anything")


def _list_text(kind: dict[str, Any]) -> str:
    if "prefixItems" in kind:
        return f"[{', '.join(map(type_text, kind['prefixItems']))}]"
    most = f"up to {kind['maxItems']:,} " if "maxItems" in kind else "a list of "
    return f"{most}{type_text(kind['items'])}"


def problems() -> str:
    """Every problem, its status and meaning."""
    kinds = {kind for one in ALL for kind in one.refusals} | {*EVERYWHERE, *ELSEWHERE}
    ordered = sorted(kinds, key=lambda kind: (status_of(kind("")), kind.__name__))
    rows = [f"| `{kind.__name__}` | {status_of(kind(''))} | {_meaning(kind)} |" for kind in ordered]
    return "\n".join(["| problem | status | meaning |", "|---|---|---|", *rows])


def _meaning(kind: type[BatchlineError]) -> str:
    return (kind.__doc__ or "").partition("\n")[0].strip()


def _link(name: str) -> str:
    return f"[{name}](#form-{name.lower()})"


def filled(page: str) -> str:
    """The page with its generated parts as they should be."""
    for name, text in parts().items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        assert begin in page, begin
        page = re.sub(f"{begin}.*?{end}", lambda _, t=f"{begin}\n\n{text}\n\n{end}": t, page, flags=re.DOTALL)  # type: ignore[misc]
    return page


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
