"""`batchline serve`: the tracker and the timeline for everybody who does not import the library, and the pages."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from batchline.cli.options import DEFAULT_STORE, DEFAULT_WAIT, Store, Wait
from batchline.cli.stores import lasting_address, open_patiently
from batchline.core.connection_limits import ConnectionLimits
from batchline.errors import InvalidInput

__all__ = ["serve"]

DEFAULTS: Final = ConnectionLimits()

Listen = Annotated[str, typer.Option("--listen", help="Where to listen.", metavar="HOST:PORT")]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Let others reach it although there are no tokens: anybody may do anything.")
]
TlsCert = Annotated[
    Path | None, typer.Option("--tls-cert", help="The certificate, as PEM: then it speaks HTTPS.", metavar="FILE")
]
TlsKey = Annotated[Path | None, typer.Option("--tls-key", help="The certificate's key, as PEM.", metavar="FILE")]
Estimates = Annotated[
    str | None,
    typer.Option(
        "--estimates",
        help="A Redis server for fanouts that are only counted, redis://host:6379/0.",
        metavar="URL",
        show_default=False,
    ),
]
LandingDirectory = Annotated[
    Path | None,
    typer.Option("--landing", help="Take in measurements, and land them in this directory.", metavar="DIR"),
]
Series = Annotated[
    str,
    typer.Option("--series", help="What files in --landing are called; each process has its own.", metavar="NAME"),
]
Connections = Annotated[
    int,
    typer.Option("--connections", help="Maximum number of open connections, TLS handshakes included.", metavar="N"),
]
PerAddress = Annotated[
    int | None,
    typer.Option(
        "--connections-per-address",
        help="Maximum number from one address (IPv6: one /64). Default: half. Clients of a proxy share its address.",
        metavar="N",
        show_default=False,
    ),
]
TrustedProxy = Annotated[
    list[str] | None,
    typer.Option(
        "--trusted-proxy",
        help="Believe X-Forwarded-For from this proxy or network of proxies: wrong tokens are counted by client. "
        "Repeatable.",
        metavar="ADDRESS",
        show_default=False,
    ),
]
Log = Annotated[bool, typer.Option("--log", help="A line of JSON on standard error for each request.")]
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
    estimates: Estimates = None,
    landing: LandingDirectory = None,
    series: Series = "serve",
    log: Log = False,
    tables: Tables = None,
    demo: Demo = False,
    connections: Connections = DEFAULTS.connections,
    connections_per_address: PerAddress = None,
    trusted_proxy: TrustedProxy = None,
    wait: Wait = DEFAULT_WAIT,
) -> None:
    """Serve the tracker and the timeline over HTTP, with pages that show what is going on, until Ctrl-C.

    Any number of them run on one store. Without tokens only this machine is answered: see `batchline token create`.

    [bold]Examples[/]

        batchline serve
        batchline serve --demo
        batchline serve --store sqlite:///fleet.db --tables results
        batchline serve --store postgresql://user@host/db --listen 0.0.0.0:8443 --tls-cert c.pem --tls-key k.pem
        batchline serve --estimates redis://localhost:6379/0 --landing landing --log
    """
    # What it serves with takes its time to load: other commands do not wait for it.
    from batchline.cli.serving import estimated_at, landing_in, request_log, serve_demo, serve_store, tls_of

    tls = tls_of(tls_cert, tls_key)
    limits = ConnectionLimits(connections, connections_per_address, proxies=tuple(trusted_proxy or ()))
    if demo:
        if tables is not None or store != DEFAULT_STORE:
            raise InvalidInput("--demo has a store and tables of its own: say it without --store and --tables")
        serve_demo(listen, tls, insecure=insecure, limits=limits)
        return
    lasting_address(store)
    with (
        open_patiently(store, wait) as opened,
        estimated_at(estimates) as estimated,
        landing_in(landing, series) as group,
    ):
        observers = request_log() if log else []
        parts: dict[str, Any] = {"estimates": estimated, "landing": group, "observers": observers, "tables": tables}
        serve_store(opened, listen, insecure=insecure, tls=tls, limits=limits, **parts)
