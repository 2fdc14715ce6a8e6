"""The pages: plain files, served as they are. What they show they ask the operations for, with the reader's token."""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from starlette.responses import Response

from batchline.errors import UnknownRoute
from batchline.service.operation import Call, NoForm, Operation

__all__ = ["ADDRESSES", "OPERATIONS"]

#: All of them are one document, which looks at its own address.
ADDRESSES: Final = ("/", "/timeline", "/fanouts", "/fanouts/{fanout}", "/capacity", "/pipeline")
SHELL: Final = "shell.html"
KINDS: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
#: Only files of ours are run, shown and asked; texts never become markup, and nobody puts a page into a frame.
POLICY: Final = (
    "default-src 'none'; "
    "script-src 'self'; "
    "style-src 'self'; "
    "img-src 'self'; "
    "connect-src 'self'; "
    "base-uri 'none'; "
    "form-action 'none'; "
    "frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    # A browser keeps them, but asks whether they are still the same: an update is seen at once.
    "cache-control": "no-cache",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of the pages, and the tag that changes with it."""

    content: bytes
    kind: str
    tag: str


@cache
def page_files() -> dict[str, PageFile]:
    """The files of the pages, by name."""
    found = (one for one in (files("batchline.service") / "pages").iterdir() if one.name.rpartition(".")[2] in KINDS)
    return {one.name: _file(one.name, one.read_bytes()) for one in found}


def _file(name: str, content: bytes) -> PageFile:
    return PageFile(content, KINDS[name.rpartition(".")[2]], f'"{hashlib.sha256(content).hexdigest()[:20]}"')


async def show_page(call: Call[NoForm]) -> Response:
    """A page for people."""
    return _answer(call, page_files()[SHELL])


async def read_page_file(call: Call[NoForm]) -> Response:
    """A file that the pages are made of."""
    file = page_files().get(call.path["file"])
    if file is None:
        raise UnknownRoute(f"there is no file {call.path['file'][:100]!r} of the pages")
    return _answer(call, file)


def _answer(call: Call[NoForm], file: PageFile) -> Response:
    headers = HEADERS | {"etag": file.tag}
    if file.tag in call.request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers=headers, media_type=file.kind)


OPERATIONS: Final = (
    *(Operation("GET", address, "none", show_page, media="text/html") for address in ADDRESSES),
    Operation("GET", "/pages/{file}", "none", read_page_file, refusals=(UnknownRoute,), media="text/javascript"),
)
