"""What the run of a pipeline says of itself in its reports."""

from collections.abc import Iterable
from typing import Any, Protocol

from batchline.core.epoch import Epoch, StreamState
from batchline.core.pipeline import Pipeline
from batchline.core.watch import Watch, unwatched
from batchline.runtime.clock import elapsed_seconds, now_us
from batchline.runtime.completion import Completion
from batchline.runtime.summary import Summary

__all__ = ["RunNumbers", "Stream"]

#: Epochs that a report tells of; a page that has seen the one before knows most of them.
EPOCHS = 10


class Stream(Protocol):
    """What is asked of a stream."""

    @property
    def epochs(self) -> Iterable[Epoch]:
        """How its last epochs went."""

    def held(self) -> StreamState:
        """What it holds now."""


class RunNumbers:
    """How far a run has come; whoever runs it keeps what is public, and the steps, up to date."""

    def __init__(self, pipeline: Pipeline, watch: Watch = unwatched):
        """Nothing has come yet; `watch` is told of steps, too."""
        self._pipeline, self._watch = pipeline, watch
        self._steps: dict[str, dict[str, int]] = {}
        self._began_s = elapsed_seconds()
        self._batch: list[Epoch] = []
        self.summary = Summary()
        self.completion: Completion | None = None
        self.stream: Stream | None = None

    def watch(self, step: str, done: int, total: int) -> None:
        """A step has come so far."""
        self._steps[step] = {"done": done, "total": total}
        self._watch(step, done, total)

    def batched(self, summary: Summary) -> None:
        """A batch of files is published: it counts as an epoch."""
        self.summary = summary
        took_ms = round((elapsed_seconds() - self._began_s) * 1_000)
        self._batch = [Epoch(0, now_us() // 1_000, summary.read, took_ms)]

    def __call__(self) -> dict[str, Any]:
        """All of it, as it is now."""
        pipeline, stream, summary = self._pipeline, self.stream, self.summary
        epochs = list(self._batch if stream is None else list(stream.epochs))[-EPOCHS:]
        state = StreamState() if stream is None else stream.held()
        return {
            "pipeline": pipeline.name,
            "source": pipeline.source.kind,
            "topic": pipeline.publish.topic,
            "read": summary.read,
            "batched": summary.batched,
            "rejected": dict(summary.rejected),
            "batches": summary.batches,
            "parcels": summary.parcels,
            "published": summary.published,
            **_completion_data(self.completion),
            "epoch": epochs[-1].number if epochs else None,
            "epochs": [_epoch_data(one) for one in epochs],
            "open_rows": state.open_rows,
            "open_batches": state.open_batches,
            "state_rows": state.rows,
            "state_bytes": state.bytes,
            "steps": {name: dict(step) for name, step in list(self._steps.items())},
        }


def _completion_data(completion: Completion | None) -> dict[str, Any]:
    if completion is None:
        return {"acked": 0, "failed": 0, "fanouts": 0, "complete": False}
    sums = completion.sums
    return {"acked": sums.acked, "failed": sums.failed, "fanouts": sums.fanouts, "complete": completion.complete}


def _epoch_data(epoch: Epoch) -> dict[str, Any]:
    return {
        "epoch": epoch.number,
        "at_ms": epoch.ended_ms,
        "rows": epoch.rows,
        "duration_ms": epoch.duration_ms,
        "rows_per_second": round(epoch.rows_per_second, 1),
    }
