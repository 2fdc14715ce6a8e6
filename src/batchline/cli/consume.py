"""`batchline lease`, `extend`, `release`, `done`, `leases`: what a consumer of messages does."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated

import typer

from batchline.cli import screen
from batchline.cli.completion import topic_names
from batchline.cli.message_lines import in_parts, lease_of, read_all
from batchline.cli.message_screen import leased_data, leased_row, leased_text
from batchline.cli.options import DEFAULT_STORE, Json, Store
from batchline.cli.outcomes import reported
from batchline.cli.timeline_options import (
    DEFAULT_NAME,
    At,
    Consumer,
    For,
    In,
    LeaseFile,
    LeaseTexts,
    TopicName,
    due_of,
    timeline_on,
)
from batchline.core.message import LeasedMessage, lease_text, moment_ms
from batchline.core.timeline_checks import MOST_LEASED
from batchline.runtime.timeline import Timeline

__all__ = ["done", "extend", "lease", "leases", "release"]


def lease(
    topic: TopicName,
    limit: Annotated[int, typer.Option("--limit", help="How many at most.", min=1, max=MOST_LEASED)] = 1,
    for_: For = None,
    id: Annotated[
        str | None, typer.Option("--id", help="Lease this message, if it is due and has this --version.", metavar="ID")
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", help="The version that --id must still have.", metavar="N", min=0)
    ] = None,
    consumer: Consumer = DEFAULT_NAME,
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Lease messages that are due, the oldest first.

    Unless it is extended, a lease ends by itself. In a pipe a line has the
    lease, the id, the attempts and the body, with tabs between: done, extend
    and release read such lines, and those of --json.

    With --id, a message that is not due or was changed since is `stale`, and
    the exit code 1.

    [bold]Examples[/]

      batchline lease parcels
      batchline lease parcels --limit 100 --for 1m --consumer worker-1 --json > work.jsonl
      batchline lease parcels --json | jq -r .lease | batchline done -
      batchline lease parcels --id a --version 1
    """
    if (id is None) != (version is None):
        raise typer.BadParameter("they go together", param_hint="--id, --version")
    with timeline_on(store, topic) as timeline:
        if id is not None and version is not None:
            _lease_one(timeline, topic, id, version, consumer, for_, json)
            return
        left = limit
        # As many calls as it takes: the bytes of each are limited.
        while left and (found := timeline.lease(topic, consumer, limit=left, duration=for_)):
            _say_leased(found, json)
            left -= len(found)
        if left == limit and not json:
            _say_next(timeline, topic, consumer)


def _lease_one(
    timeline: Timeline, topic: str, id: str, version: int, consumer: str, duration: timedelta | None, json: bool
) -> None:
    found = timeline.lease_one(topic, id, version, consumer, duration=duration)
    if found is not None:
        _say_leased([found], json)
        return
    reason = f"it is not due, or not of version {version:,} any more"
    if json:
        screen.say_json_lines([{"topic": topic, "id": id, "outcome": "stale", "ok": False, "reason": reason}])
    else:
        screen.err.print(f"{screen.plain(screen.one_line(id))}: stale: {reason}", highlight=False, soft_wrap=True)
    raise typer.Exit(1)


def _say_leased(found: list[LeasedMessage], json: bool, *, due: bool = True) -> None:
    if json:
        screen.say_json_lines(leased_data(one, due=due) for one in found)
    elif not screen.out.is_terminal:
        screen.say_lines(map(leased_row, found))
    else:
        for one in found:
            screen.out.print(leased_text(one, screen.out.width, due=due), highlight=False)
            screen.say(f"[dim]  lease[/]  [cyan]{screen.plain(lease_text(one.lease))}[/]")


def _say_next(timeline: Timeline, topic: str, consumer: str) -> None:
    """That nothing is due, and when something will be."""
    due_ms = timeline.next_due(topic, consumer)
    when = f"; next {screen.when(moment_ms(due_ms))}" if due_ms is not None and due_ms > timeline.now_ms() else ""
    screen.err.print(f"[dim]nothing is due{when}[/]", highlight=False)


def leases(
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="TOPIC", help="Only those on this topic.", show_default=False, autocompletion=topic_names
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="How many to show.", min=1)] = 100,
    consumer: Consumer = DEFAULT_NAME,
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """List what a consumer has leased and not finished, to go on after a restart.

    The leases of a session that is alive are not listed: only it can go on.
    Lines are as `lease` prints them.

    [bold]Examples[/]

      batchline leases --consumer worker-1
      batchline leases parcels --consumer worker-1 | batchline release -
    """
    with timeline_on(store, topic) as timeline:
        shown, more = 0, 0
        for page in _pages(timeline, consumer, topic):
            _say_leased(page[: limit - shown], json, due=False)
            shown, more = min(shown + len(page), limit), more + max(shown + len(page) - limit, 0)
    if more:
        screen.err.print(f"[dim]{more:,} more with a higher --limit[/]", highlight=False)
    elif not shown and not json:
        screen.err.print(f"[dim]{screen.plain(consumer)} holds no lease outside of live sessions[/]", highlight=False)


def _pages(timeline: Timeline, consumer: str, topic: str | None) -> Iterator[list[LeasedMessage]]:
    page = timeline.leases_page(consumer, topic=topic)
    yield [*page.messages]
    while page.next is not None:
        page = timeline.leases_page(consumer, topic=topic, after=page.next)
        yield [*page.messages]


# --- with a lease -----------------------------------------------------------------------------------------------------


def extend(
    leases: LeaseTexts = None,
    for_: For = None,
    file: LeaseFile = None,
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Hold messages for longer. Prints the new leases: the old ones are void.

    A lease that has ended is `lost`, and the exit code 1.

    [bold]Examples[/]

      batchline extend "$lease" --for 10m
      lease=$(batchline extend "$lease")
      batchline lease parcels --limit 10 | batchline extend - --for 1h > leases.txt
    """
    on_terminal = screen.out.is_terminal
    with timeline_on(store) as timeline, reported("extended", json, sentence=on_terminal) as report:
        for part in in_parts(read_all(leases, file, "lease", lease_of), lambda _: None):
            outcomes = timeline.extend(part, for_)
            report.add(outcomes, [lease_text(one.lease) for one in outcomes if one.lease is not None])


def release(
    leases: LeaseTexts = None,
    at: At = None,
    in_: In = None,
    reason: Annotated[
        str, typer.Option("--reason", help="Why; it is kept in the messages' history.", metavar="TEXT")
    ] = "",
    file: LeaseFile = None,
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Give messages back, to be offered again at once, or at a moment.

    [bold]Examples[/]

      batchline release "$lease"
      batchline release "$lease" --in 5m --reason "the printer is out of paper"
      batchline leases --consumer worker-1 | batchline release -
    """
    due_of(at, in_)  # refuses both
    with timeline_on(store) as timeline, reported("released", json) as report:
        for part in in_parts(read_all(leases, file, "lease", lease_of), lambda _: None):
            report.add(timeline.release(part, at, after=in_, reason=reason))


def done(leases: LeaseTexts = None, file: LeaseFile = None, store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """Finish messages: they are gone. Repeating it is a success.

    A lease that ended before is `lost`: somebody else may have the message.
    The exit code is then 1.

    [bold]Examples[/]

      batchline done "$lease"
      batchline lease parcels --limit 100 | batchline done -
      batchline done --file work.jsonl --json | jq -r 'select(.ok | not) | .id'
    """
    with timeline_on(store) as timeline, reported("done", json) as report:
        for part in in_parts(read_all(leases, file, "lease", lease_of), lambda _: None):
            report.add(timeline.done(part))
