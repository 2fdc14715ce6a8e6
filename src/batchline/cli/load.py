"""`batchline load`: how many messages stand where on a topic's line."""

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Annotated

import typer

from batchline.cli import screen
from batchline.cli.load_screen import load_panel
from batchline.cli.options import DEFAULT_STORE, Json, Store, read_span
from batchline.cli.timeline_options import TopicName, read_moment, timeline_on
from batchline.cli.topic_screen import counts_data
from batchline.core.future_load import SLICE_MS
from batchline.core.message import LATEST_MS, ms_of
from batchline.core.timeline_checks import MOST_BINS
from batchline.core.topic import span_ms

__all__ = ["load"]


def load(
    topic: TopicName,
    within: Annotated[
        timedelta,
        typer.Option("--within", help="How far to look.", metavar="SPAN", parser=read_span, show_default="1d"),
    ] = timedelta(days=1),
    from_: Annotated[
        datetime | None,
        typer.Option("--from", help="Look from here on.", metavar="TIME", parser=read_moment, show_default="now"),
    ] = None,
    bins: Annotated[
        int, typer.Option("--bins", help="In how many parts; there may be one more or fewer.", min=1, max=MOST_BINS)
    ] = 24,
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Show a topic's messages by state, and how many are due when; spikes are marked.

    A spike is more than the live consumers have shown that they can take.

    [bold]Examples[/]

      batchline load parcels
      batchline load parcels --within 10m --bins 60
      batchline load parcels --from 2026-11-20T00:00:00Z --within 7d
      batchline load parcels --json | jq '.bins[] | select(.spike)'
    """
    if within <= timedelta(0):
        raise typer.BadParameter("expected a span longer than 0", param_hint="--within")
    with timeline_on(store, topic) as timeline:
        begin_ms = timeline.now_ms() if from_ is None else ms_of(from_)
        end_ms = min(_end_ms(begin_ms, span_ms(within), bins), LATEST_MS)
        found = timeline.load(topic, from_=begin_ms, to=end_ms, bins=bins)
        counts = timeline.count(topic)
    if json:
        parts = [asdict(one) for one in found.bins]
        speed = {"messages_per_second": found.messages_per_second}
        screen.say_json_lines([{"topic": topic, "counts": counts_data(counts)} | speed | {"bins": parts}])
    else:
        panel = load_panel(topic, counts, found, screen.out.width, screen.out.is_terminal)
        screen.out.print(panel, highlight=False)


def _end_ms(begin_ms: int, length_ms: int, bins: int) -> int:
    """Where to end: bins of whole slices of the line begin at one, and so they end at one."""
    whole = length_ms >= bins * SLICE_MS
    return begin_ms + length_ms - (begin_ms % SLICE_MS if whole else 0)
