"""What needs no token is answered without one, where others need one."""

import asyncio
from contextlib import closing
from typing import Any

from batchline.runtime.tokens import Tokens
from batchline.service.service import Service
from batchline.stores.opening import open_store


def test_what_needs_no_token_is_answered_without_one() -> None:
    with open_store("memory://") as store:
        store.migrate()
        Tokens(store).create("somebody", admin=True)
        with closing(Service(store)) as service:
            assert asyncio.run(status(service, b"/openapi.json")) == 200
            assert asyncio.run(status(service, b"/v1/topics")) == 401


async def status(service: Service, path: bytes) -> int:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(event: Any) -> None:
        sent.append(event)

    headers = [(b"host", b"localhost")]
    scope = {"type": "http", "method": "GET", "path": path.decode(), "raw_path": path, "query_string": b""}
    await service.app(scope | {"headers": headers}, receive, send)
    return int(sent[0]["status"])
