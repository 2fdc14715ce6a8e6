"""Requests to a service in this process, without a server: the application is called as a server would."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from batchline.service.service import Service

__all__ = ["Asked", "Asking", "ask_service"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What was answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def problem(self) -> str:
        """The name of the error that it was refused with."""
        assert self.headers["content-type"] == "application/problem+json", self
        assert self.json()["status"] == self.status
        return str(self.json()["type"]).removeprefix("/problems/")


class Asking:
    """Asks a service, with a token or without."""

    def __init__(self, service: Service, token: str | None = None) -> None:
        self.service, self.token = service, token

    def bearing(self, token: str | None) -> "Asking":
        """The same with another token."""
        return Asking(self.service, token)

    def get(self, path: str, **headers: str) -> Asked:
        """GET, the query being part of the path."""
        return self.ask("GET", path, None, headers)

    def post(self, path: str, form: Any = None, **headers: str) -> Asked:
        """POST of JSON, or of nothing."""
        return self.ask("POST", path, form, headers)

    def ask(self, method: str, path: str, form: Any = None, headers: Mapping[str, str] | None = None) -> Asked:
        """Any request; a form of bytes is sent as it is."""
        body = b"" if form is None else form if isinstance(form, bytes) else json.dumps(form).encode()
        sent = {"host": "localhost", "content-type": "application/json"} | dict(headers or {})
        if self.token is not None:
            sent["authorization"] = f"Bearer {self.token}"
        return asyncio.run(ask_service(self.service, method, path, body, sent))


async def ask_service(service: Service, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Asked:
    raw, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": raw,
        "raw_path": raw.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await service.app(scope, receive, send)
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Asked(sent[0]["status"], found, b"".join(part.get("body", b"") for part in sent[1:]))
