"""`/health/live`, `/health/ready` and `/metrics`: how a process of the service is."""

from typing import Final

from starlette.responses import Response

from batchline import __version__
from batchline.core.trouble import Trouble
from batchline.errors import NotReady
from batchline.service.metrics import METRICS_TEXT
from batchline.service.operation import Call, NoForm, Operation
from batchline.service.store_families import families
from batchline.service.store_numbers import StoreNumbers
from batchline.wire.form import ms_text
from batchline.wire.health import DegradedLoop, Live, Ready

__all__ = ["OPERATIONS"]


async def read_live(_: Call[NoForm]) -> Live:
    """Whether the process answers."""
    return Live("live", __version__)


async def read_ready(call: Call[NoForm]) -> Ready:
    """Whether it can do its work: database, schema and clock are right; and which background loops fail."""
    parts, seen = call.parts, await call.parts.schema.now()
    health = parts.timeline.health()
    reasons = [] if seen.error is None else [str(seen.error)]
    if health is not None and health.degraded:
        reasons.append(f"the clock is off by {health.drift.total_seconds():+.3f} s")
    if reasons:
        raise NotReady("; ".join(reasons))
    drift_ms = None if health is None else health.drift.total_seconds() * 1_000
    loops = _degraded(parts.supervisor.troubles())
    return Ready(
        "degraded" if loops else "ready",
        __version__,
        parts.store.url,
        drift_ms,
        0 if health is None else health.brokers,
        loops,
    )


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
