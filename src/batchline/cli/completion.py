"""What a shell completes: words that an option takes, and names that are in the store."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import typer

from batchline.cli.configuration import FILE
from batchline.cli.stores import open_existing
from batchline.cli.toml_file import read_toml
from batchline.errors import BatchlineError
from batchline.runtime.timeline import Timeline
from batchline.runtime.tracker import Tracker

__all__ = ["fanout_ids", "topic_names", "words"]

#: So many ids are looked at.
MOST: Final = 200


def words(*known: str) -> Callable[[str], list[str]]:
    """Completes these words."""

    def complete(incomplete: str) -> list[str]:
        return _beginning(known, incomplete)

    return complete


def topic_names(context: typer.Context, incomplete: str) -> list[str]:
    """Completes the names of topics; of a store that cannot be asked, none."""
    with suppress(BatchlineError, OSError), open_existing(_store_of(context)) as store:
        return _beginning((one.name for one in Timeline(store).topics() if not one.deleted), incomplete)
    return []


def fanout_ids(context: typer.Context, incomplete: str) -> list[str]:
    """Completes the ids of fanouts that are not at their end."""
    with suppress(BatchlineError, OSError), open_existing(_store_of(context)) as store:
        tracker = Tracker(store)
        open_, sealed = tracker.list("open", limit=MOST), tracker.list("sealed", limit=MOST)
        return _beginning((one.id for page in (open_, sealed) for one in page.fanouts), incomplete)
    return []


def _beginning(known: Iterable[str], incomplete: str) -> list[str]:
    return [one for one in known if one.startswith(incomplete)]


def _store_of(context: typer.Context) -> str:
    """The store that the command would take. Nothing has run yet, so a configuration is looked at here."""
    source = context.get_parameter_source("store")
    path = context.find_root().params.get("file") or FILE
    if (source is None or source.name == "DEFAULT") and Path(path).exists():
        configured = read_toml(Path(path)).get("store")
        if isinstance(configured, str):
            return configured
    return str(context.params.get("store"))
