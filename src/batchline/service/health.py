"""`/health/live`, `/health/ready` and `/metrics`: how a process of the service is."""

import asyncio
from typing import Final

from starlette.responses import Response

from batchline import __version__
from batchline.core.trouble import Trouble
from batchline.errors import BatchlineError, NotReady, SchemaMismatch, StoreUnavailable
from batchline.service.metrics import METRICS_TEXT
from batchline.service.operation import Call, NoForm, Operation
from batchline.service.store_families import families
from batchline.service.store_numbers import StoreNumbers
from batchline.wire.form import ms_text
from batchline.wire.health import DegradedLoop, Live, Ready

__all__ = ["OPERATIONS"]

#: What is said of an error to a caller who may not see names.
KINDS: Final = (
    (SchemaMismatch, "the schema of the store is of another version than this program's"),
    (StoreUnavailable, "the store does not answer"),
)
FAILS: Final = "the store refuses to read or write"


async def read_live(_: Call[NoForm]) -> Live:
    """Whether the process answers."""
    return Live("live", __version__)


async def read_ready(call: Call[NoForm]) -> Ready:
    """Whether it can do its work: threads, database, schema and clock are right; and which background loops fail."""
    parts = call.parts
    seen, pumps = await asyncio.gather(parts.store_probe.now(), parts.pump_probe.now())
    found = seen if seen.error is not None else pumps
    names = await _may_see_names(call, look=not isinstance(found.error, StoreUnavailable))
    health = parts.timeline.health()
    reasons = [] if found.error is None else [str(found.error) if names or found.is_late else _kind(found.error)]
    if health is not None and health.degraded:
        reasons.append(f"the clock is off by {health.drift.total_seconds():+.3f} s")
    if reasons:
        raise NotReady("; ".join(reasons))
    drift_ms = None if health is None else health.drift.total_seconds() * 1_000
    loops = _degraded(parts.supervisor.troubles())
    return Ready(
        "degraded" if loops else "ready",
        __version__,
        parts.store.url if names else None,
        drift_ms,
        0 if health is None else health.brokers,
        loops,
    )


async def _may_see_names(call: Call[NoForm], *, look: bool) -> bool:
    """Return whether the caller has a valid token, or there are none. Without `look`, ask the store for neither."""
    parts, any_token = call.parts, call.parts.tokens.remembered_any()
    if any_token is False:
        return True
    try:
        if not look:
            return any_token is True and parts.guard.has_remembered(call.request)
        # It takes no place of those for requests: a flood of wrong tokens is kept waiting here.
        async with asyncio.timeout(parts.store_probe.wait_s):
            if any_token is None:
                any_token = await parts.in_thread(parts.tokens.any)
            return not any_token or bool(await parts.guard.check(call.request))
    except (BatchlineError, TimeoutError):
        return False


def _kind(error: BatchlineError) -> str:
    """Return what kind of error it is. Its text may name the host and user of the database."""
    said = next((said for kind, said in KINDS if isinstance(error, kind)), FAILS)
    return f"{said}: send a valid token to read why, or look into the service's log"


def _degraded(troubles: list[Trouble]) -> list[DegradedLoop]:
    """Return each loop once, with its oldest trouble. What it works on, a topic say, is not for everyone to see."""
    oldest = {one.loop: one for one in reversed(troubles)}
    return [DegradedLoop(one.loop, ms_text(one.since_ms), one.failures, one.error) for one in oldest.values()][::-1]


async def read_metrics(call: Call[NoForm]) -> Response:
    """Numbers for Prometheus; of topics that the token is not for, only sums."""
    parts = call.parts
    seen = await parts.numbers.now()
    more = families(seen.value or StoreNumbers(), parts.timeline.health(), call.caller.may_see, up=seen.error is None)
    return Response(parts.metrics.text(more), media_type=METRICS_TEXT)


OPERATIONS: Final = (
    Operation("GET", "/health/live", "none", read_live, answer=Live, urgent=True),
    Operation("GET", "/health/ready", "none", read_ready, answer=Ready, refusals=(NotReady,), urgent=True),
    Operation("GET", "/metrics", "read", read_metrics, media="text/plain", urgent=True),
)
