"""The bench measures, within its bounds, and leaves nothing behind."""

from pathlib import Path

import pytest

from batchline import Timeline, Tracker, open_store
from batchline.runtime.bench import AT_ONCE, Figure, bench


@pytest.mark.parametrize("address", ["memory://", "sqlite:///{}/store.db"])
def test_it_measures_each_verb_in_bulk_and_one_by_one_and_removes_what_it_made(address: str, tmp_path: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    with open_store(address.format(tmp_path)) as store:
        Timeline(store).create_topic("mine")
        figures = bench(store, 70, 30.0, lambda *step: steps.append(step))
        assert [one.name for one in Timeline(store).topics()] == ["mine"]
        assert Tracker(store).list().fanouts == ()
    assert [(one.verb, one.at_once, one.count) for one in figures] == [
        (verb, at_once, 70) for at_once in (AT_ONCE, 1) for verb in ("create", "lease", "done", "ack")
    ]
    assert [len(one.calls_ms) for one in figures] == [1] * 4 + [70] * 4
    assert steps[-1] == ("ack", 70, 70)


def test_when_its_time_is_up_it_ends() -> None:
    with open_store("memory://") as store:
        figures = bench(store, 10_000, 0.0, lambda *_: None)
        assert [one.per_second for one in figures] == [0.0] * 8
        assert Timeline(store).topics() == []


def test_percentiles_are_of_calls() -> None:
    figure = Figure("ack", 1, 200, 2.0, tuple(float(ms) for ms in range(100)))
    assert (figure.per_second, figure.percentile(0.5), figure.percentile(0.99), figure.percentile(1)) == (
        100,
        50,
        99,
        99,
    )
    assert Figure("ack", 1, 0, 0.0, ()).percentile(0.5) == 0
