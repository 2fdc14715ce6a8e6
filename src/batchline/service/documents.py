"""`/openapi.json` and `/problems/{problem}`: what the service says of itself."""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import msgspec
from starlette.responses import Response

from batchline import __version__, errors
from batchline.errors import BatchlineError, UnknownRoute, did_you_mean
from batchline.service.openapi import openapi_document
from batchline.service.operation import Call, NoForm, Operation, Socket
from batchline.wire.form import Form

__all__ = ["documents_of"]

PROBLEMS: Final = "/problems/{problem}"


class OpenApi(Form, forbid_unknown_fields=False):
    """An OpenAPI document."""


class ProblemKind(Form):
    """What a problem's type means."""

    type: str
    meaning: str


async def read_problem(call: Call[NoForm]) -> ProblemKind:
    """What a problem's type means."""
    name = call.path["problem"]
    kind = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, BatchlineError)):
        raise UnknownRoute(f"there is no problem {name[:100]!r}{did_you_mean(name, errors.__all__)}")
    return ProblemKind(PROBLEMS.format(problem=name), (kind.__doc__ or "").strip())


def documents_of(operations: Sequence[Operation], sockets: Sequence[Socket] = ()) -> tuple[Operation, ...]:
    """The operations that tell of some operations, and of themselves."""
    document: dict[str, Any] = {}
    # Encoded once, and answered in the loop: strangers that ask for it take no thread from others.
    encoded = cache(lambda: msgspec.json.encode(document))

    async def read_openapi(_: Call[NoForm]) -> Response:
        """This document."""
        return Response(encoded(), media_type="application/json")

    own = (
        Operation("GET", "/openapi.json", "none", read_openapi, answer=OpenApi),
        Operation("GET", PROBLEMS, "none", read_problem, answer=ProblemKind, refusals=(UnknownRoute,)),
    )
    document |= openapi_document([*operations, *own], __version__, sockets)
    return own
