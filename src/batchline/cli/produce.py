"""`batchline put`, `move`, `cancel`, `message`, `messages`: what the owner of messages does."""

import sys
from typing import Annotated

import typer

from batchline.cli import screen
from batchline.cli.completion import topic_names
from batchline.cli.message_lines import Reading, in_parts, lease_of, new_message, read_all, read_lines, text_bytes
from batchline.cli.message_screen import ids_text, message_data, message_panel, message_row, message_table
from batchline.cli.options import DEFAULT_STORE, Json, Store
from batchline.cli.outcomes import reported
from batchline.cli.timeline_options import (
    DEFAULT_NAME,
    At,
    IdFile,
    In,
    MessageFile,
    MessageIds,
    ProducerGroup,
    TopicName,
    due_of,
    timeline_on,
)
from batchline.core.message import HIGHEST_PRIORITY, Message
from batchline.errors import InvalidInput, UnknownMessage
from batchline.runtime.timeline import Timeline

__all__ = ["cancel", "message", "messages", "move", "put"]

PAGE = 1_000


def put(
    topic: TopicName,
    id: Annotated[
        str | None, typer.Option("--id", help="Its id; without one it gets one.", metavar="ID", show_default=False)
    ] = None,
    at: At = None,
    in_: In = None,
    body: Annotated[str | None, typer.Option("--body", help="Its body, a text.", metavar="TEXT")] = None,
    body_file: Annotated[
        typer.FileBinaryRead | None,
        typer.Option("--body-file", help="Its body, the bytes of a file; - for standard input.", metavar="FILE"),
    ] = None,
    priority: Annotated[
        int,
        typer.Option(
            "--priority",
            help="Of messages at the same moment the higher goes first.",
            min=-HIGHEST_PRIORITY,
            max=HIGHEST_PRIORITY,
        ),
    ] = 0,
    file: MessageFile = None,
    producer_group: ProducerGroup = DEFAULT_NAME,
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Put messages on the line: one from options, or any number from JSON lines.

    Without a moment a message is due at once. With an id, putting it again
    changes nothing until the message was done and pruned. In a pipe the ids
    are printed, one a line.

    A line of a file has any of id, at, in, body, body_base64 and priority;
    --at, --in and --priority are for lines without.

    [bold]Examples[/]

      batchline put parcels --id a --in 10m --body hello
      batchline put parcels --at 2026-11-20T08:00:00Z --body-file label.pdf
      batchline put parcels --file messages.jsonl --in 1h
      echo '{"id": "b", "in": "10m", "body": "hello"}' | batchline put parcels --file -
    """
    if file is not None and not (id is None and body is None and body_file is None):
        raise typer.BadParameter("messages come from the file, or from --id and --body", param_hint="--file")
    if body is not None and body_file is not None:
        raise typer.BadParameter("give one of them, not both", param_hint="--body, --body-file")
    with timeline_on(store, topic) as timeline:
        _check_not_internal(timeline, topic)
        reading = Reading(topic, due_of(at, in_), priority)
        if file is None:
            content = text_bytes(body or "") if body_file is None else body_file.read()
            new = iter([new_message(content, reading.due, id, priority)])
        else:
            new = read_lines(file, reading.message)
        ids: list[str] = []
        on_terminal = screen.out.is_terminal
        with reported("created", json, sentence=on_terminal) as report:
            for part in in_parts(new, lambda one: one.id, lambda one: len(one.body)):
                outcomes = timeline.create(topic, part, producer_group=producer_group)
                stored = [one.id for one in outcomes if one.ok]
                report.add(outcomes, () if on_terminal else stored)
                ids += stored if on_terminal else ()
            report.more = ids_text(ids)
            if file is None and ids:
                report.more = [f"  {screen.plain(ids[0])}{_due_text(timeline, topic, ids[0], producer_group)}"]


def _check_not_internal(timeline: Timeline, topic: str) -> None:
    if timeline.topic(topic).internal:
        raise InvalidInput(
            f"topic {topic!r} is internal: parcels of a pipeline are on it, and workers bury anything else as a stray; "
            "expected a topic of your own, make one with batchline topic create"
        )


def _due_text(timeline: Timeline, topic: str, id: str, producer_group: str) -> str:
    """Say when a message is due, as it is stored; nothing if a consumer has it already."""
    try:
        found = timeline.read(topic, id, producer_group=producer_group)
    except UnknownMessage:
        return ""
    return "" if found.state == "processing" else f" [dim]due[/] {screen.moment_text(found.at)}"


def move(
    topic: TopicName,
    ids: MessageIds = None,
    at: At = None,
    in_: In = None,
    file: IdFile = None,
    producer_group: ProducerGroup = DEFAULT_NAME,
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Reschedule messages of your producer group. A message with an active lease stays as it is.

    In a file each line may have its own moment, "at" or "in":
    {"id": "a", "at": "2026-11-20T08:00:00Z"}

    [bold]Examples[/]

      batchline move parcels a b --in 1h
      batchline move parcels a --at 2026-11-20T08:00:00Z
      batchline move parcels --file moments.jsonl
    """
    with timeline_on(store, topic) as timeline:
        reading = Reading(topic, due_of(at, in_))
        named = read_all(ids, file, "id", reading.move)
        with reported("moved", json) as report:
            for part in in_parts(named, lambda one: one[0]):
                report.add(timeline.move(topic, dict(part), producer_group=producer_group))


def cancel(
    topic: TopicName,
    ids: MessageIds = None,
    file: IdFile = None,
    producer_group: ProducerGroup = DEFAULT_NAME,
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Take messages of yours off the line. Not while somebody has leased them.

    What cannot be cancelled is said on standard error, a line for each; the
    exit code is then 1. The rest is cancelled.

    [bold]Examples[/]

      batchline cancel parcels a b
      batchline cancel parcels --file ids.txt
      batchline messages --json | jq -c 'select(.topic == "parcels")' | batchline cancel parcels -
    """
    with timeline_on(store, topic) as timeline:
        named = read_all(ids, file, "id", Reading(topic).id)
        with reported("cancelled", json) as report:
            for part in in_parts(named, lambda one: one):
                report.add(timeline.cancel(topic, part, producer_group=producer_group))


def message(
    topic: Annotated[
        str | None,
        typer.Argument(metavar="TOPIC", help="The name of the topic.", show_default=False, autocompletion=topic_names),
    ] = None,
    id: Annotated[str | None, typer.Argument(metavar="ID", help="The id of the message.", show_default=False)] = None,
    lease: Annotated[
        str | None, typer.Option("--lease", help="Read as who holds this lease; it names the message.", metavar="LEASE")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Print the body alone, as it is.")] = False,
    producer_group: ProducerGroup = DEFAULT_NAME,
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Show a message, its state and its history: to its owner, or to who holds its lease.

    [bold]Examples[/]

      batchline message parcels a
      batchline message parcels a --raw > label.pdf
      batchline message parcels a --json | jq .version
      batchline message --lease "$lease"
    """
    if (lease is None) != (topic is not None and id is not None) or (lease is not None and topic is not None):
        raise typer.BadParameter("name a topic and an id, or a lease alone", param_hint="TOPIC ID")
    with timeline_on(store, topic) as timeline:
        found = _read(timeline, topic or "", id or "", lease, producer_group)
    if raw:
        _say_bytes(found.body)
    elif json:
        screen.say_json_lines([message_data(found)])
    else:
        screen.out.print(message_panel(found, screen.out.width, screen.out.is_terminal), highlight=False)


def _read(timeline: Timeline, topic: str, id: str, lease: str | None, producer_group: str) -> Message:
    if lease is None:
        return timeline.read(topic, id, producer_group=producer_group)
    held = lease_of(lease)
    return timeline.read(held.topic, held.id, lease=held)


def _say_bytes(body: bytes) -> None:
    try:
        sys.stdout.buffer.write(body)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        screen.out.on_broken_pipe()


def messages(
    limit: Annotated[int, typer.Option("--limit", help="How many to show.", min=1)] = 100,
    after: Annotated[
        str | None, typer.Option("--after", help="Go on where the page before ended.", metavar="CURSOR")
    ] = None,
    producer_group: ProducerGroup = DEFAULT_NAME,
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """List the messages of a producer group, on all topics, as they were put there.

    In a pipe a line has id, topic, state, moment, version and attempts, with
    tabs between.

    [bold]Examples[/]

      batchline messages
      batchline messages --producer-group shop-7 --limit 100000 --json > messages.jsonl
      batchline messages | grep -w parcels | cut -f 1
    """
    any_yet, missing = False, limit
    with timeline_on(store) as timeline:
        while missing:
            page = timeline.my_messages(producer_group, after=after, limit=min(missing, PAGE))
            _say_page(page.messages, json)
            any_yet, missing, after = any_yet or bool(page.messages), missing - len(page.messages), page.next
            if after is None:
                break
    screen.say_rest(any_yet, f"{screen.plain(producer_group)} has no message", after, False)


def _say_page(found: tuple[Message, ...], json: bool) -> None:
    if json:
        screen.say_json_lines(map(message_data, found))
    elif not screen.out.is_terminal:
        screen.say_lines(map(message_row, found))
    elif found:
        screen.out.print(message_table(found, screen.out.width), highlight=False)
