"""What `batchline serve` does, and `batchline demo --stay`: a service on a store, until Ctrl-C."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from batchline.cli import screen
from batchline.core.connection_limits import ConnectionLimits
from batchline.errors import InvalidInput
from batchline.runtime.clock import now_us
from batchline.runtime.estimated_tracker import EstimatedTracker
from batchline.runtime.reporting import reporting
from batchline.runtime.tokens import Tokens
from batchline.service.group_commit import GroupCommit
from batchline.service.listening import Tls, address_of, listening, run_fast, serve
from batchline.service.request_log import RequestLog
from batchline.service.service import Service
from batchline.sources.landing import Landing
from batchline.stores import Store
from batchline.stores.redis.estimates import EstimateStore

__all__ = ["estimated_at", "landing_in", "request_log", "serve_demo", "serve_store", "tls_of"]


def serve_store(
    store: Store,
    listen: str,
    *,
    insecure: bool = False,
    tls: Tls | None = None,
    what: str = "",
    **settings: Any,
) -> None:
    """Serve a store, and the pages over it, until Ctrl-C; `settings` are those of `Service`."""
    has_tokens = Tokens(store).any()
    with listening(listen, insecure=insecure or has_tokens) as listener:
        service = Service(store, any_host=insecure, **settings)
        where = address_of(listener, "https" if tls else "http")
        screen.err.print(screen.plain(f"serving {what or store.url} on {where}"), soft_wrap=True)
        reports = reporting(store, "serve", service.name, service.tally.numbers, service.supervisor)
        with contextlib.closing(service), reports:
            # At its end a store that does not answer is not asked for as long as its patience.
            run_fast(serve(service, listener, tls=tls, dismiss=store.hurry))


def serve_demo(listen: str, tls: Tls | None, *, insecure: bool, limits: ConnectionLimits | None = None) -> None:
    """Serve a simulated fleet."""
    from batchline.cli.live_demo import live_demo

    with live_demo() as demo:
        shown: dict[str, Any] = {"tables": demo.tables, "what": "a simulated fleet", "limits": limits}
        serve_store(demo.store, listen, insecure=insecure, tls=tls, **shown)


@contextlib.contextmanager
def estimated_at(url: str | None) -> Iterator[EstimatedTracker | None]:
    """Estimates on a Redis server, if one is named."""
    if url is None:
        yield None
    else:
        with EstimateStore(url) as store:
            yield EstimatedTracker(store)


@contextlib.contextmanager
def landing_in(directory: Path | None, series: str) -> Iterator[GroupCommit | None]:
    """Where measurements land, if that is named."""
    if directory is None:
        yield None
    else:
        with Landing(directory, series) as landing:
            yield GroupCommit(landing, now_us)


def request_log() -> list[RequestLog]:
    """An observer that writes a line for each request."""
    return [RequestLog(lambda line: print(line, file=sys.stderr))]  # noqa: T201 - its own stream, for programs


def tls_of(certificate: Path | None, key: Path | None) -> Tls | None:
    """A certificate with its key, or neither."""
    if (certificate is None) != (key is None):
        raise InvalidInput("--tls-cert and --tls-key go together")
    return Tls(certificate, key) if certificate and key else None
