"""`batchline serve`: the tracker and the timeline for everybody who does not import the library, and the pages."""

import asyncio
import contextlib
import socket
from pathlib import Path
from typing import Annotated

import typer

from batchline.cli import screen
from batchline.cli.listening import Tls, address_of, listening, run_fast, serve_app
from batchline.cli.options import DEFAULT_STORE, Store
from batchline.cli.stores import open_or_make
from batchline.errors import InvalidInput
from batchline.runtime.tokens import Tokens
from batchline.service.service import Service

__all__ = ["serve"]

Listen = Annotated[str, typer.Option("--listen", help="Where to listen.", metavar="HOST:PORT")]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Let others reach it although there are no tokens: anybody may do anything.")
]
TlsCert = Annotated[
    Path | None, typer.Option("--tls-cert", help="The certificate, as PEM: then it speaks HTTPS.", metavar="FILE")
]
TlsKey = Annotated[Path | None, typer.Option("--tls-key", help="The certificate's key, as PEM.", metavar="FILE")]


def serve(
    store: Store = DEFAULT_STORE,
    listen: Listen = "127.0.0.1:8080",
    insecure: Insecure = False,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> None:
    """Serve the tracker and the timeline over HTTP, with pages that show what is going on, until Ctrl-C.

    Any number of them run on one store. Without tokens only this machine is answered: see `batchline token create`.

    [bold]Examples[/]

        batchline serve
        batchline serve --store postgresql://user@host/db --listen 0.0.0.0:8443 --tls-cert c.pem --tls-key k.pem
    """
    tls = _tls(tls_cert, tls_key)
    with open_or_make(store) as opened:
        has_tokens = Tokens(opened).any()
        with listening(listen, insecure=insecure or has_tokens) as listener:
            service = Service(opened, any_host=insecure)
            screen.err.print(f"serving {opened.url} on {address_of(listener, 'https' if tls else 'http')}")
            with contextlib.closing(service):
                run_fast(_serve(service, listener, tls))


async def _serve(service: Service, listener: socket.socket, tls: Tls | None) -> None:
    background = asyncio.create_task(service.background.run())
    try:
        await serve_app(service.app, listener, lambda: None, tls=tls, dismiss=service.dismiss)
    finally:
        service.background.stop()
        await background


def _tls(certificate: Path | None, key: Path | None) -> Tls | None:
    if (certificate is None) != (key is None):
        raise InvalidInput("--tls-cert and --tls-key go together")
    return Tls(certificate, key) if certificate and key else None
