"""Sources that land beside a run: an error of theirs ends it, whatever it is."""

import threading
from pathlib import Path
from typing import Any

import pytest

from batchline.cli import ingesting as module
from batchline.cli.ingesting import ingesting
from batchline.core.pipeline import Pipeline, Publication, Source
from batchline.errors import InvalidInput


@pytest.mark.parametrize("error", [InvalidInput("no"), ZeroDivisionError("unexpected"), SystemExit(3)], ids=repr)
def test_an_error_of_the_source_stops_the_run_and_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(module, "_http", fail)
    source = Source("127.0.0.1:0", kind="http", into=str(tmp_path / "landing"))
    publish = Publication(f"sqlite:///{tmp_path}/s.db")
    pipeline, stop = Pipeline("p", source, publish, str(tmp_path / "out")), threading.Event()
    with pytest.raises(type(error)), ingesting(pipeline, stop):
        assert stop.wait(60)
