"""`batchline fanout`: is everything that came out of one event done? A command for each verb of the tracker."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import timedelta
from itertools import chain
from typing import Annotated, TextIO, cast

import typer

from batchline.cli import options, screen
from batchline.cli.completion import fanout_ids, topic_names
from batchline.cli.fanout_screen import (
    ended_text,
    failed_table,
    fanout_row,
    fanout_table,
    group_table,
    items_text,
    status_panel,
)
from batchline.cli.options import (
    DEFAULT_STORE,
    AddId,
    After,
    CallId,
    ExpireSealed,
    ExpireUnsealed,
    FanoutId,
    ItemFile,
    ItemIds,
    Json,
    Labels,
    Limit,
    Store,
    Tolerate,
    Tombstone,
)
from batchline.cli.stores import open_existing, open_or_make
from batchline.core.ack import AckOutcome, Item, ItemError
from batchline.core.expiry_rules import ExpiryRules
from batchline.core.fanout import State
from batchline.core.item_group import GROUP_SIZE, ItemGroup, full_mask
from batchline.core.on_complete import OnComplete
from batchline.errors import BatchlineError
from batchline.runtime.tracker import ExpireOutcome, Tracker

__all__ = ["app"]

app = typer.Typer(
    name="fanout",
    help="Know when everything that came out of one event is done.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


@contextmanager
def _tracker(url: str) -> Iterator[Tracker]:
    with open_existing(url) as store:
        yield Tracker(store)


# --- begin, fill, seal ------------------------------------------------------------------------------------------------


@app.command("open")
def open_(
    id: Annotated[str | None, typer.Argument(metavar="ID", help="Its id; without one it gets one.")] = None,
    label: Labels = None,
    parent: Annotated[
        str | None,
        typer.Option("--parent", help="Count it as one item of this fanout.", metavar="ID", autocompletion=fanout_ids),
    ] = None,
    tolerate: Tolerate = "0",
    expire_unsealed: ExpireUnsealed = None,
    expire_sealed: ExpireSealed = None,
    tombstone: Tombstone = None,
    on_complete: Annotated[
        str | None,
        typer.Option(
            "--on-complete",
            help="Put a message on this topic when it is complete.",
            metavar="TOPIC",
            autocompletion=topic_names,
        ),
    ] = None,
    body: Annotated[str, typer.Option("--body", help="What that message says.", metavar="TEXT")] = "",
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Open a fanout. Opening it again in the same way is activity and changes nothing else.

    The store is made if it is not there. In a pipe the id is all that is printed.

    [bold]Examples[/]

      batchline fanout open import-2026 --label job=import
      batchline fanout open import-2026-shop-7 --parent import-2026
      batchline fanout open nightly --tolerate 5 --expire-sealed 3d
      batchline fanout open nightly --on-complete reports --body "all imported"
      id=$(batchline fanout open --tolerate any)
    """
    spans = {"unsealed": expire_unsealed, "sealed": expire_sealed, "tombstone": tombstone}
    rules = ExpiryRules(**{name: span for name, span in spans.items() if span is not None})
    labels, most = options.labels_of(label), options.tolerated(tolerate)
    message = None if on_complete is None else OnComplete(on_complete, body.encode(errors="surrogateescape"))
    with open_or_make(store) as opened:
        status = Tracker(opened).open(
            id, labels=labels, parent=parent, tolerate=most, expiry=rules, on_complete=message
        )
    if json:
        screen.say_json(asdict(status))
    elif screen.out.is_terminal:
        screen.say(ended_text(status))
    else:
        screen.say_lines([status.id])


@app.command()
def add(
    id: FanoutId,
    count: Annotated[int, typer.Argument(metavar="COUNT", help="How many items.", show_default=False)],
    add_id: AddId = None,
    items: Annotated[bool, typer.Option("--items", help="Print the id of every item, one a line.")] = False,
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Add items to a fanout, and print their groups: 64 items to a group.

    In a pipe a line has a group and, after a tab, how many items it has. The ids of its items are the group's with :0,
    :1, … behind it; --items writes them out.

    [bold]Examples[/]

      batchline fanout add import-2026 1000
      batchline fanout add import-2026 1000 --add-id page-1
      batchline fanout add import-2026 1000 --items > items.txt
      batchline fanout add import-2026 1000000 --json | jq '.groups | length'
    """
    with _tracker(store) as tracker:
        groups = tracker.add(id, count, add_id=add_id)
    if json:
        ids = {"items": list(_items_of(groups))} if items else {}
        named = [{"id": group.id, "upto": group.upto} for group in groups]
        screen.say_json({"fanout": id, "count": count, "groups": named} | ids)
    elif items:
        screen.say_lines(_items_of(groups))
    elif screen.out.is_terminal:
        many = f"{len(groups):,} group{'' if len(groups) == 1 else 's'}"
        screen.say(f"{items_text(count)} of [bold]{screen.plain(id)}[/] in {many}")
        screen.out.print(group_table(groups))
    else:
        screen.say_lines(f"{group.fanout}:{group.id}\t{group.upto}" for group in groups)


def _items_of(groups: Iterable[ItemGroup]) -> Iterator[str]:
    return chain.from_iterable(group.items() for group in groups)


@app.command()
def seal(id: FanoutId, call_id: CallId = None, store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """Take no more items. Says so if this completes the fanout; a repeat is activity only.

    [bold]Examples[/]

      batchline fanout seal import-2026
      batchline fanout seal import-2026 --json | jq .completed
      batchline fanout seal import-2026 --call-id seal-1
    """
    with _tracker(store) as tracker:
        outcome = tracker.seal(id, call_id=call_id)
        if json:
            screen.say_json(asdict(outcome))
            return
        _say_ended(tracker, [id, *outcome.parents_completed, *outcome.parents_failed])


# --- done, or failed --------------------------------------------------------------------------------------------------


@app.command()
def ack(
    items: ItemIds = None,
    file: ItemFile = None,
    call_id: CallId = None,
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Acknowledge items: they are done. Says which fanouts that completes; a repeat is activity only.

    What is no item of a fanout is said, each on its line, on standard error. The rest counts. The exit code is then 1.
    `batchline ack` and `batchline fanout ack` are the same.

    [bold]Examples[/]

      batchline ack import-2026:00000000-0100-8000-9a4c-0d8b6c1f7e21:0
      batchline fanout ack --file items.txt
      batchline fanout pending import-2026 | batchline ack --file -
      batchline ack --file items.txt --json | jq -r '.completed[]'
    """
    named = _named(items, file)
    with _tracker(store) as tracker:
        _report(tracker, tracker.ack(named, call_id=call_id), "done", json)


@app.command()
def fail(
    reason: Annotated[str, typer.Option("--reason", help="Why, for whoever looks at it later.", metavar="TEXT")],
    items: ItemIds = None,
    file: ItemFile = None,
    call_id: CallId = None,
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Give items up for good: they are done, and counted and listed apart.

    More of them than the fanout tolerates make it fail. Errors are said as with ack.

    [bold]Examples[/]

      batchline fanout fail import-2026:00000000-0100-8000-9a4c-0d8b6c1f7e21:7 --reason "no such product"
      batchline fanout pending import-2026 | batchline fanout fail --file - --reason "gave up"
    """
    named = _named(items, file)
    with _tracker(store) as tracker:
        _report(tracker, tracker.fail(named, reason, call_id=call_id), "failed", json)


def _named(items: list[str] | None, file: TextIO | None) -> Iterator[Item]:
    """The items that are named, on the command line and in the file."""
    if not items and file is None:
        raise typer.BadParameter("name at least one item, or give --file", param_hint="ITEM")
    return chain(items or (), () if file is None else _read_items(file))


def _read_items(file: TextIO) -> Iterator[Item]:
    for line in file:
        named = line.rstrip()
        if named:
            yield _read_item(named)


def _read_item(named: str) -> Item:
    """An item id, or, as `add` prints it, a group with the number of its items."""
    group, _, upto = named.rpartition("\t")
    if group and upto.isascii() and upto.isdecimal() and 1 <= int(upto[:3]) <= GROUP_SIZE:
        return group, full_mask(int(upto))
    return named


def _report(tracker: Tracker, outcome: AckOutcome, did: str, json: bool) -> None:
    """Say what an ack or a fail did; with errors the exit code is 1."""
    if json:
        errors = [_error(one) for one in outcome.errors]
        screen.say_json(asdict(replace(outcome, errors=())) | {"errors": errors})
    else:
        for one in outcome.errors:
            sys.stderr.write(f"{screen.one_line(_given(one))}: {one.error}\n")
        before = f", {outcome.repeated:,} done before" if outcome.repeated else ""
        screen.say(f"{items_text(outcome.changed)} {did}{before}")
        _say_ended(tracker, [*outcome.completed, *outcome.failed])
    if outcome.errors:
        raise typer.Exit(1)


def _error(one: ItemError) -> dict[str, str]:
    return {"item": _given(one), "error": type(one.error).__name__, "message": str(one.error)}


def _given(one: ItemError) -> str:
    """The item as it was given."""
    if isinstance(one.item, str):
        return one.item
    group, mask = cast("tuple[str, int]", one.item)
    return f"{group}\t{mask.bit_length()}"


def _say_ended(tracker: Tracker, fanouts: Iterable[str]) -> None:
    """Say what became of fanouts, each in a sentence."""
    for fanout in fanouts:
        try:
            screen.say(ended_text(tracker.status(fanout)))
        except BatchlineError:
            # Told once: that the store went away since must not swallow it.
            screen.say(f"[bold]{screen.plain(fanout)}[/] has ended")


# --- look -------------------------------------------------------------------------------------------------------------


@app.command()
def status(id: FanoutId, store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """Show how far a fanout is. Counts are exact, and as quick for ten million items as for one.

    [bold]Examples[/]

      batchline fanout status import-2026
      batchline fanout status import-2026 --json | jq .pending
    """
    with _tracker(store) as tracker:
        found = tracker.status(id)
    if json:
        screen.say_json(asdict(found))
    else:
        screen.out.print(status_panel(found, screen.out.width, screen.out.is_terminal), highlight=False)


@app.command("list")
def list_(
    state: Annotated[State | None, typer.Option("--state", help="Only those in this state.")] = None,
    label: Labels = None,
    older_than: Annotated[
        timedelta | None,
        typer.Option("--older-than", help="Only those opened longer ago.", parser=options.read_span, metavar="SPAN"),
    ] = None,
    parent: Annotated[
        str | None, typer.Option("--parent", help="Only children of this one.", metavar="ID", autocompletion=fanout_ids)
    ] = None,
    limit: Limit = 100,
    after: Annotated[
        int | None, typer.Option("--after", help="Go on where the page before ended.", metavar="N")
    ] = None,
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """List fanouts, oldest first. All conditions must hold.

    In a pipe a line has id, state, total, acked, failed, pending and when it was opened, with tabs between.

    [bold]Examples[/]

      batchline fanout list
      batchline fanout list --state sealed --older-than 1h
      batchline fanout list --label job=import --label shop=7
      batchline fanout list --state open --json | jq -r '.fanouts[].id'
    """
    with _tracker(store) as tracker:
        page = tracker.list(
            state=state,
            labels=options.labels_of(label),
            older_than=older_than,
            parent=parent,
            after=after,
            limit=limit,
        )
    if json:
        screen.say_json({"fanouts": [asdict(one) for one in page.fanouts], "next": page.next})
    elif not screen.out.is_terminal:
        screen.say_lines(map(fanout_row, page.fanouts))
    elif page.fanouts:
        screen.out.print(fanout_table(page.fanouts, screen.out.width), highlight=False)
    screen.say_rest(bool(page.fanouts), "no such fanout", page.next, json)


@app.command()
def pending(
    id: FanoutId, limit: Limit = 100, after: After = None, store: Store = DEFAULT_STORE, json: Json = False
) -> None:
    """Print the ids of pending items, one a line.

    [bold]Examples[/]

      batchline fanout pending import-2026
      batchline fanout pending import-2026 --limit 100000 > left.txt
      batchline fanout pending import-2026 --after "$(tail -1 left.txt)"
    """
    with _tracker(store) as tracker:
        ids = tracker.pending_items(id, limit=limit, after=after)
    more = ids[-1] if len(ids) == limit else None
    if json:
        screen.say_json({"fanout": id, "items": ids, "next": more})
    else:
        screen.say_lines(ids)
    screen.say_rest(bool(ids), "nothing is pending", more, json)


@app.command()
def failed(
    id: FanoutId, limit: Limit = 100, after: After = None, store: Store = DEFAULT_STORE, json: Json = False
) -> None:
    """Show the items that failed, with their reasons.

    In a pipe a line has an item and, after a tab, its reason.

    [bold]Examples[/]

      batchline fanout failed import-2026
      batchline fanout failed import-2026 | cut -f 2 | sort | uniq -c
    """
    with _tracker(store) as tracker:
        items = tracker.failed_items(id, limit=limit, after=after)
    more = items[-1].id if len(items) == limit else None
    if json:
        screen.say_json({"fanout": id, "items": [asdict(item) for item in items], "next": more})
    elif not screen.out.is_terminal:
        screen.say_lines(f"{item.id}\t{screen.one_line(item.reason)}" for item in items)
    elif items:
        screen.out.print(failed_table(items), highlight=False)
    screen.say_rest(bool(items), "nothing has failed", more, json)


# --- give up ----------------------------------------------------------------------------------------------------------


@app.command()
def expire(
    id: Annotated[
        str | None, typer.Argument(metavar="ID", help="Give up this one, now.", autocompletion=fanout_ids)
    ] = None,
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Give up fanouts that were without activity for too long, step by step until nothing more is due.

    A late ack is answered `expired` for as long as the tombstone stays. With an ID that one is given up, whatever its
    activity. Any number of processes may do this at any time.

    [bold]Examples[/]

      batchline fanout expire
      batchline fanout expire import-2026
      batchline fanout expire --json | jq '.expired | length'
    """
    with _tracker(store) as tracker:
        outcome = _expire_due(tracker) if id is None else tracker.expire(id)
        if json:
            screen.say_json(asdict(outcome))
        else:
            _say_expired(tracker, outcome, id)


def _expire_due(tracker: Tracker) -> ExpireOutcome:
    """One step after the other, until nothing more is due."""
    all_of_it = ExpireOutcome(more=True)
    with screen.live("looking for fanouts without activity") as say:
        while all_of_it.more:
            step = tracker.expire_due()
            for name in ("expired", "removed", "completed", "failed"):
                getattr(all_of_it, name).extend(getattr(step, name))
            all_of_it.more = step.more
            say(f"{len(all_of_it.expired):,} expired, {len(all_of_it.removed):,} tombstones removed")
    return all_of_it


def _say_expired(tracker: Tracker, outcome: ExpireOutcome, id: str | None) -> None:
    for fanout in outcome.expired:
        screen.say(f"[yellow]expired[/] {screen.plain(fanout)}")
    for fanout in outcome.removed:
        screen.say(f"[dim]removed[/] {screen.plain(fanout)}")
    _say_ended(tracker, [*outcome.completed, *outcome.failed])
    if not (outcome.expired or outcome.removed):
        screen.say("[dim]nothing was due[/]" if id is None else f"{screen.plain(id)} had expired before")
