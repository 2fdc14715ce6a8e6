"""`batchline resend`: dead letters, back on the topic that they came from."""

from typing import Annotated

import typer

from batchline.cli import screen
from batchline.cli.completion import topic_names
from batchline.cli.options import DEFAULT_STORE, Json, Store
from batchline.cli.outcomes import messages_text
from batchline.cli.stores import open_existing
from batchline.cli.timeline_options import TopicName, naming_topics
from batchline.core.message import Upcoming, moment_ms
from batchline.core.timeline_checks import LONGEST_PAGE
from batchline.runtime.resend import Resend, Resent, origin_of
from batchline.runtime.timeline import Timeline

__all__ = ["resend"]


def resend(
    topic: TopicName,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            help="Where they go.",
            metavar="TOPIC",
            show_default="where they came from",
            autocompletion=topic_names,
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", help="How many at most.", min=1, show_default="all")] = None,
    new_ids: Annotated[
        bool, typer.Option("--new-ids", help="Parcels under other ids, for a receiver that knows refused ones again.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show which they are, and leave them.")] = False,
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Send dead letters again: put them back on the topic that they came from, the oldest first.

    A message has its id and its owner again, and no attempts. A parcel that workers gave up goes out in a publication
    of its own, since its lane has gone on without it; a fanout tells when all of them have arrived. What it was counted
    as in its first fanout, failed, it stays. In a pipe their ids are printed, one a line.

    [bold]Examples[/]

      batchline resend parcels-dead --dry-run
      batchline resend parcels-dead
      batchline resend jobs.dead --to jobs --limit 10
      batchline resend parcels-dead --json | jq -r .fanout
    """
    with open_existing(store) as opened:
        timeline = Timeline(opened)
        with naming_topics(timeline, topic):
            where = to or origin_of(timeline, topic)
            timeline.topic(where)
            if dry_run:
                _show_letters(timeline.upcoming(topic, "resend", limit=limit or LONGEST_PAGE), topic, where, json)
                return
            resent = Resend(opened, topic, where, new_ids=new_ids, timeline=timeline).run(limit)
    _show_resent(resent, topic, where, json)


def _show_letters(letters: list[Upcoming], topic: str, to: str, json: bool) -> None:
    if json:
        found = [{"id": one.id, "at": moment_ms(one.at_ms)} for one in letters]
        screen.say_json({"topic": topic, "to": to, "letters": found})
    elif not screen.out.is_terminal:
        screen.say_lines(screen.one_line(one.id) for one in letters)
    else:
        for one in letters:
            screen.say(f"{screen.plain(screen.one_line(one.id))}  [dim]{screen.when(moment_ms(one.at_ms))}[/]")
        screen.say(f"{messages_text(len(letters))} would go to [bold]{screen.plain(to)}[/]")
    screen.say_rest(bool(letters), "there are no dead letters", None, json)


def _show_resent(resent: Resent, topic: str, to: str, json: bool) -> None:
    ids = [*resent.messages, *resent.parcels]
    if json:
        parts = {"messages": resent.messages, "parcels": resent.parcels, "fanout": resent.fanout}
        screen.say_json({"topic": topic, "to": to} | parts)
    elif not screen.out.is_terminal:
        screen.say_lines(map(screen.one_line, ids))
    elif ids:
        screen.say(f"[green]✓[/] {messages_text(len(ids))} sent again to [bold]{screen.plain(to)}[/]")
    if resent.fanout is not None and not json:
        screen.err.print(f"[dim]all have arrived when fanout {resent.fanout} is complete[/]", highlight=False)
    screen.say_rest(bool(ids), "there are no dead letters", None, json)
