"""`batchline topic`: the lines that messages stand on."""

from datetime import timedelta
from typing import Annotated, Any

import typer

from batchline.cli import screen
from batchline.cli.completion import topic_names
from batchline.cli.options import DEFAULT_STORE, Json, Store, read_span
from batchline.cli.outcomes import messages_text
from batchline.cli.stores import open_or_make
from batchline.cli.timeline_options import TopicName, timeline_on
from batchline.cli.topic_screen import consumer_data, counts_data, topic_data, topic_panel, topic_row, topic_table
from batchline.core.topic import Topic
from batchline.runtime.timeline import Timeline

__all__ = ["app"]

app = typer.Typer(
    name="topic",
    help="Topics: what messages with a moment are put on.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _rule(name: str, text: str, **more: Any) -> Any:
    return typer.Option(name, help=text, rich_help_panel="Rules", **more)


def _span(name: str, text: str) -> Any:
    return _rule(name, text, parser=read_span, metavar="SPAN")


Buckets = Annotated[
    int | None, _rule("--buckets", "Into how many its messages fall, for consumers to share; 1024 unless you say.")
]
MaxAhead = Annotated[timedelta | None, _span("--max-ahead", "How far ahead a message may be; 365d at first.")]
LeaseSpan = Annotated[timedelta | None, _span("--lease", "How long a lease is unless one says; 5m at first.")]
LongestLease = Annotated[timedelta | None, _span("--longest-lease", "How long it may be at a time; 12h at first.")]
MaxAttempts = Annotated[
    int | None, _rule("--max-attempts", "Leased so often, a message goes to the dead-letter topic.", metavar="N")
]
DeadLetter = Annotated[
    str | None,
    _rule(
        "--dead-letter", "The topic for those; made if it is not there.", metavar="TOPIC", autocompletion=topic_names
    ),
]
RateLimit = Annotated[
    float | None, _rule("--rate-limit", "Messages a second that a producer group may put there.", metavar="N")
]

Keep = Annotated[timedelta | None, _span("--keep", "How long the id of a done message stays taken; 1m by default.")]


def _given(**rules: object) -> dict[str, Any]:
    return {name: value for name, value in rules.items() if value is not None}


@app.command()
def create(
    name: TopicName,
    buckets: Buckets = None,
    max_ahead: MaxAhead = None,
    lease: LeaseSpan = None,
    longest_lease: LongestLease = None,
    max_attempts: MaxAttempts = None,
    dead_letter: DeadLetter = None,
    rate_limit: RateLimit = None,
    keep: Keep = None,
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Create a topic. Creating it again in the same way changes nothing.

    The store is made if it is not there.

    [bold]Examples[/]

      batchline topic create parcels
      batchline topic create parcels --lease 1m --max-attempts 5 --dead-letter parcels.dead
      batchline topic create mails --max-ahead 30d --rate-limit 1000
      batchline topic create jobs --keep 1d
    """
    rules = _given(
        buckets=buckets,
        max_ahead=max_ahead,
        lease=lease,
        longest_lease=longest_lease,
        max_attempts=max_attempts,
        dead_letter=dead_letter,
        rate_limit=rate_limit,
        keep=keep,
    )
    with open_or_make(store) as opened:
        _say_topic(Timeline(opened).create_topic(name, **rules), "is there", json)


@app.command()
def update(
    name: TopicName,
    max_ahead: MaxAhead = None,
    lease: LeaseSpan = None,
    longest_lease: LongestLease = None,
    max_attempts: MaxAttempts = None,
    dead_letter: DeadLetter = None,
    rate_limit: RateLimit = None,
    keep: Keep = None,
    no_dead_letter: Annotated[
        bool, _rule("--no-dead-letter", "Lease messages any number of times; no --max-attempts.")
    ] = False,
    no_rate_limit: Annotated[bool, _rule("--no-rate-limit", "Any number of messages a second.")] = False,
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Change rules of a topic; those that are not named stay. It keeps its buckets.

    [bold]Examples[/]

      batchline topic update parcels --lease 10m
      batchline topic update parcels --max-attempts 10
      batchline topic update parcels --no-dead-letter --no-rate-limit
    """
    if no_dead_letter and not (max_attempts is None and dead_letter is None):
        raise typer.BadParameter("not with --max-attempts or --dead-letter", param_hint="--no-dead-letter")
    if no_rate_limit and rate_limit is not None:
        raise typer.BadParameter("not with --rate-limit", param_hint="--no-rate-limit")
    rules = _given(
        max_ahead=max_ahead,
        lease=lease,
        longest_lease=longest_lease,
        max_attempts=max_attempts,
        dead_letter=dead_letter,
        rate_limit=rate_limit,
        keep=keep,
    )
    rules |= {"max_attempts": None, "dead_letter": None} if no_dead_letter else {}
    rules |= {"rate_limit": None} if no_rate_limit else {}
    if not rules:
        raise typer.BadParameter("name at least one rule to change, such as --lease 10m", param_hint="RULES")
    with timeline_on(store, name) as timeline:
        _say_topic(timeline.update_topic(name, **rules), "is changed", json)


def _say_topic(found: Topic, became: str, json: bool) -> None:
    if json:
        screen.say_json_lines([topic_data(found)])
    elif screen.out.is_terminal:
        screen.say(f"[green]✓[/] topic [bold]{screen.plain(found.name)}[/] {became}")
        screen.out.print(topic_table([found], screen.out.width), highlight=False)
    else:
        screen.say_lines([found.name])


@app.command()
def delete(name: TopicName, store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """Delete a topic with all its messages. It takes no more from now on; its name is free when they are removed.

    [bold]Examples[/]

      batchline topic delete parcels
    """
    with timeline_on(store, name) as timeline:
        left = timeline.count(name)
        timeline.delete_topic(name)
    if json:
        screen.say_json_lines([{"name": name, "deleted": True, "messages": left.total}])
        return
    gone = f", and its {messages_text(left.total)} will be removed" if left.total else ""
    screen.say(f"topic [bold]{screen.plain(name)}[/] takes no more messages{gone}")


@app.command("list")
def list_(store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """List topics and their rules, by name.

    In a pipe a line has name, buckets, max-ahead, lease, max-attempts,
    dead-letter topic and rate limit, with tabs between; - for none.

    [bold]Examples[/]

      batchline topic list
      batchline topic list --json | jq -r 'select(.deleted | not) | .name'
    """
    with timeline_on(store) as timeline:
        topics = timeline.topics()
    if json:
        screen.say_json_lines(map(topic_data, topics))
    elif not screen.out.is_terminal:
        screen.say_lines(map(topic_row, topics))
    elif topics:
        screen.out.print(topic_table(topics, screen.out.width), highlight=False)
    screen.say_rest(bool(topics), "there is no topic", None, json)


@app.command()
def show(name: TopicName, store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """Show a topic: its rules, its messages by state, and the consumers that take part.

    [bold]Examples[/]

      batchline topic show parcels
      batchline topic show parcels --json | jq .counts.available
    """
    with timeline_on(store, name) as timeline:
        found, counts, consumers = timeline.topic(name), timeline.count(name), timeline.consumers(name)
    if json:
        data = {"counts": counts_data(counts), "consumers": [consumer_data(one) for one in consumers]}
        screen.say_json_lines([topic_data(found) | data])
    else:
        panel = topic_panel(found, counts, consumers, screen.out.width, screen.out.is_terminal)
        screen.out.print(panel, highlight=False)
