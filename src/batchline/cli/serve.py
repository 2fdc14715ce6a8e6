"""`batchline serve`: the tracker and the timeline for everybody who does not import the library, and the pages."""

import asyncio
import contextlib
import socket
from pathlib import Path
from typing import Annotated

import typer

from batchline.cli import screen
from batchline.cli.listening import Tls, address_of, listening, serve_app
from batchline.cli.options import DEFAULT_STORE, Store
from batchline.cli.stores import open_or_make
from batchline.errors import InvalidInput
from batchline.runtime.tokens import Tokens
from batchline.service.service import Service
from batchline.stores import Store as OpenStore

__all__ = ["serve", "serve_store"]

Listen = Annotated[str, typer.Option("--listen", help="Where to listen.", metavar="HOST:PORT")]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Let others reach it although there are no tokens: anybody may do anything.")
]
TlsCert = Annotated[
    Path | None, typer.Option("--tls-cert", help="The certificate, as PEM: then it speaks HTTPS.", metavar="FILE")
]
TlsKey = Annotated[Path | None, typer.Option("--tls-key", help="The certificate's key, as PEM.", metavar="FILE")]
Tables = Annotated[
    Path | None,
    typer.Option("--tables", help="Show windows of a pipeline that writes into here, its out.", metavar="DIR"),
]
Demo = Annotated[
    bool,
    typer.Option("--demo", help="Show the pages alive: a simulated fleet, with a store of its own that goes with it."),
]


def serve(
    store: Store = DEFAULT_STORE,
    listen: Listen = "127.0.0.1:8080",
    insecure: Insecure = False,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tables: Tables = None,
    demo: Demo = False,
) -> None:
    """Serve the tracker and the timeline over HTTP, with pages that show what is going on, until Ctrl-C.

    Any number of them run on one store. Without tokens only this machine is answered: see `batchline token create`.

    [bold]Examples[/]

        batchline serve
        batchline serve --demo
        batchline serve --store sqlite:///fleet.db --tables results
        batchline serve --store postgresql://user@host/db --listen 0.0.0.0:8443 --tls-cert c.pem --tls-key k.pem
    """
    tls = _tls(tls_cert, tls_key)
    if demo:
        _serve_demo(listen, tls, insecure=insecure, given=tables is not None or store != DEFAULT_STORE)
        return
    with open_or_make(store) as opened:
        serve_store(opened, listen, insecure=insecure, tls=tls, tables=tables)


def serve_store(
    store: OpenStore,
    listen: str,
    *,
    insecure: bool = False,
    tls: Tls | None = None,
    tables: Path | None = None,
    what: str = "",
) -> None:
    """Serve a store, and the pages over it, until Ctrl-C."""
    has_tokens = Tokens(store).any()
    with listening(listen, insecure=insecure or has_tokens) as listener:
        service = Service(store, any_host=insecure, tables=tables)
        address = address_of(listener, "https" if tls else "http")
        screen.err.print(f"serving {what or store.url} on {address}", soft_wrap=True)
        with contextlib.closing(service):
            asyncio.run(_serve(service, listener, tls))


def _serve_demo(listen: str, tls: Tls | None, *, insecure: bool, given: bool) -> None:
    from batchline.cli.live_demo import live_demo

    if given:
        raise InvalidInput("--demo has a store and tables of its own: say it without --store and --tables")
    with live_demo() as demo:
        serve_store(demo.store, listen, insecure=insecure, tls=tls, tables=demo.tables, what="a simulated fleet")


async def _serve(service: Service, listener: socket.socket, tls: Tls | None) -> None:
    background = asyncio.create_task(service.background.run())
    try:
        await serve_app(service.app, listener, lambda: None, tls=tls)
    finally:
        service.background.stop()
        await background


def _tls(certificate: Path | None, key: Path | None) -> Tls | None:
    if (certificate is None) != (key is None):
        raise InvalidInput("--tls-cert and --tls-key go together")
    return Tls(certificate, key) if certificate and key else None
