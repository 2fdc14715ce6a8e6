"""Fanouts that are counted, not known item by item: one hash each in Redis, one script per verb."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from batchline.core.estimate import EstimateOutcome, EstimateStatus, estimate_status
from batchline.core.moment import moment_of
from batchline.errors import FanoutSealed, StoreUnavailable, UnknownFanout
from batchline.stores.redis.connection import connect, translated, without_secrets

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

__all__ = ["EstimateStore"]

VERBS: Final = ("open", "add", "seal", "ack", "fail", "status", "forget")
#: These can be sent twice and give the same answer; the others would count twice.
REPEATABLE: Final = ("open", "seal", "status", "forget")
KEY: Final = "batchline:estimate:"


class EstimateStore:
    """Counts in a Redis server. Each verb is one round trip, and done as a whole or not at all; threads may share it.

    `now_us` is the moment of a call; None for what Redis's own clock shows.
    Every verb but `open` raises UnknownFanout for a fanout that was never opened, or that Redis no longer has.
    `add`, `ack` and `fail` are sent once: after a StoreUnavailable nobody knows whether they were counted. The others
    are sent once more over a new connection when the first is lost.
    """

    def __init__(self, url: str) -> None:
        self._client = connect(url)
        self._where = without_secrets(url)
        self._scripts = {verb: self._client.register_script(_script(verb)) for verb in VERBS}

    def open(
        self,
        fanout: str,
        ttl_ms: int,
        tolerate: int | None,
        now_us: int | None,
        labels: Mapping[str, str] | None = None,
    ) -> EstimateStatus:
        """Begin a fanout, kept for `ttl_ms` after its last change; one that is there already stays as it is."""
        tolerated, text = "" if tolerate is None else tolerate, json.dumps(labels) if labels else ""
        kept = self._call("open", fanout, now_us, ttl_ms, tolerated, text)
        return _status(fanout, kept)

    def add(self, fanout: str, count: int, now_us: int | None) -> int:
        """Count so many items more, and answer the new total; FanoutSealed if there can be no more."""
        total, sealed_us = self._call("add", fanout, now_us, count)
        if sealed_us is not None:
            sealed_at = moment_of(int(sealed_us)).isoformat()
            raise FanoutSealed(f"fanout {fanout!r} was sealed at {sealed_at}: no item can be added")
        return int(total)

    def seal(self, fanout: str, call: str, now_us: int | None) -> EstimateOutcome:
        """Take no more items. The same `call`, repeated, is told again that it ended the fanout; no other is."""
        return _outcome(fanout, self._call("seal", fanout, now_us, call))

    def ack(self, fanout: str, count: int, now_us: int | None) -> EstimateOutcome:
        """Count so many items as done."""
        return _outcome(fanout, self._call("ack", fanout, now_us, count))

    def fail(self, fanout: str, count: int, now_us: int | None) -> EstimateOutcome:
        """Count so many items as failed for good."""
        return _outcome(fanout, self._call("fail", fanout, now_us, count))

    def status(self, fanout: str, now_us: int | None) -> EstimateStatus:
        """All that is known of a fanout; changes nothing."""
        return _status(fanout, self._call("status", fanout, now_us))

    def forget(self, fanout: str, now_us: int | None) -> bool:
        """Let a fanout be gone; tells whether it was there."""
        return bool(self._call("forget", fanout, now_us))

    def close(self) -> None:
        """Close the connections; a later call would open new ones."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, verb: str, fanout: str, now_us: int | None, *others: int | str) -> Any:
        arguments = "" if now_us is None else now_us, *others
        try:
            answer = self._send(verb, fanout, *arguments)
        except StoreUnavailable as error:
            if verb not in REPEATABLE:
                raise StoreUnavailable(f"{error}; whether it has counted this {verb} is not known") from error
            answer = self._send(verb, fanout, *arguments)
        if answer is None:
            raise UnknownFanout(f"there is no fanout {fanout!r}: it was never opened, or Redis no longer has it")
        return answer

    def _send(self, verb: str, fanout: str, *arguments: int | str) -> Any:
        with translated(self._where):
            return self._scripts[verb]([KEY + fanout], arguments)


def _script(verb: str) -> str:
    scripts = files("batchline.stores.redis") / "scripts"
    return "\n".join((scripts / f"{name}.lua").read_text(encoding="utf-8") for name in ("fanout", verb))


def _outcome(fanout: str, answer: tuple[int, str | None]) -> EstimateOutcome:
    pending, ended = answer
    return EstimateOutcome(fanout, pending, completed=ended == "complete", failed=ended == "failed")


def _status(fanout: str, answer: list[str]) -> EstimateStatus:
    """From fields and values in turn."""
    fields = dict(zip(answer[::2], answer[1::2], strict=True))
    fields.pop("told_to", None)
    labels = json.loads(fields.pop("labels", "{}"))
    return estimate_status(fanout, {field: int(text) for field, text in fields.items()}, labels)
