"""`batchline serve`: the tracker and the timeline for everybody who does not import the library, and the pages."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TypedDict, Unpack

import typer

from batchline.cli import screen
from batchline.cli.options import DEFAULT_STORE, DEFAULT_WAIT, Store, Wait
from batchline.cli.stores import lasting_address, open_patiently
from batchline.errors import InvalidInput
from batchline.runtime.clock import now_us
from batchline.runtime.estimated_tracker import EstimatedTracker
from batchline.runtime.reporting import reporting
from batchline.runtime.tokens import Tokens
from batchline.service.group_commit import GroupCommit
from batchline.service.listening import Tls, address_of, listening, run_fast
from batchline.service.listening import serve as serve_service
from batchline.service.request_log import RequestLog
from batchline.service.service import Service
from batchline.sources.landing import Landing
from batchline.stores import Store as OpenStore
from batchline.stores.redis.estimates import EstimateStore

__all__ = ["serve", "serve_store"]


class Settings(TypedDict, total=False):
    """What a service can have besides its store."""

    estimates: EstimatedTracker | None
    landing: GroupCommit | None
    observers: list[RequestLog]
    tables: Path | None


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
    tls = _tls(tls_cert, tls_key)
    if demo:
        _serve_demo(listen, tls, insecure=insecure, given=tables is not None or store != DEFAULT_STORE)
        return
    lasting_address(store)
    with open_patiently(store, wait) as opened, _estimated(estimates) as estimated, _landing(landing, series) as group:
        observers = [RequestLog(_write)] if log else []
        settings: Settings = {"estimates": estimated, "landing": group, "observers": observers, "tables": tables}
        serve_store(opened, listen, insecure=insecure, tls=tls, **settings)


def serve_store(
    store: OpenStore,
    listen: str,
    *,
    insecure: bool = False,
    tls: Tls | None = None,
    what: str = "",
    **settings: Unpack[Settings],
) -> None:
    """Serve a store, and the pages over it, until Ctrl-C."""
    has_tokens = Tokens(store).any()
    with listening(listen, insecure=insecure or has_tokens) as listener:
        service = Service(store, any_host=insecure, **settings)
        where = address_of(listener, "https" if tls else "http")
        screen.err.print(screen.plain(f"serving {what or store.url} on {where}"), soft_wrap=True)
        with contextlib.closing(service), reporting(store, "serve", service.name, service.tally.numbers):
            run_fast(serve_service(service, listener, tls=tls))


def _serve_demo(listen: str, tls: Tls | None, *, insecure: bool, given: bool) -> None:
    from batchline.cli.live_demo import live_demo

    if given:
        raise InvalidInput("--demo has a store and tables of its own: say it without --store and --tables")
    with live_demo() as demo:
        serve_store(demo.store, listen, insecure=insecure, tls=tls, tables=demo.tables, what="a simulated fleet")


@contextlib.contextmanager
def _estimated(url: str | None) -> Iterator[EstimatedTracker | None]:
    if url is None:
        yield None
    else:
        with EstimateStore(url) as store:
            yield EstimatedTracker(store)


@contextlib.contextmanager
def _landing(directory: Path | None, series: str) -> Iterator[GroupCommit | None]:
    if directory is None:
        yield None
    else:
        with Landing(directory, series) as landing:
            yield GroupCommit(landing, now_us)


def _write(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _tls(certificate: Path | None, key: Path | None) -> Tls | None:
    if (certificate is None) != (key is None):
        raise InvalidInput("--tls-cert and --tls-key go together")
    return Tls(certificate, key) if certificate and key else None
