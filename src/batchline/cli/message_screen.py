"""Messages and leases: as a person sees them, and as data for a program."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from batchline.cli import screen
from batchline.core.message import Attempt, LeasedMessage, Message, lease_text, moment_ms

__all__ = [
    "COLOURS",
    "WIDEST",
    "body_data",
    "body_line",
    "ids_text",
    "leased_data",
    "leased_row",
    "leased_text",
    "message_data",
    "message_panel",
    "message_row",
    "message_table",
]

COLOURS: Final = {"waiting": "blue", "processing": "yellow", "available": "green"}
WIDEST: Final = 100
#: Ids that a terminal shows one by one; lines and bytes of a body.
SHOWN: Final = 8
LINES_SHOWN: Final = 20
BYTES_SHOWN: Final = 2_000
HEX_SHOWN: Final = 24


# --- bodies -----------------------------------------------------------------------------------------------------------


def _text_of(body: bytes) -> str | None:
    """The body as text, if it is one."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def body_data(body: bytes) -> dict[str, str]:
    """A body in JSON: as text, or, if it is none, in Base64."""
    text = _text_of(body)
    return {"body_base64": b64encode(body).decode()} if text is None else {"body": text}


def body_line(body: bytes) -> str:
    """A body on a line, all of it."""
    return screen.one_line(body.decode(errors="backslashreplace"))


def _body_start(body: bytes, width: int) -> Text:
    """The beginning of a body, on a line."""
    if _text_of(body) is None:
        return Text(_hex(body), "dim italic", no_wrap=True, overflow="ellipsis")
    # The cut may go through a character, which is then left out.
    line = screen.one_line(body[: 4 * width].decode(errors="ignore"))
    return Text(line, no_wrap=True, overflow="ellipsis") if body else Text("empty", "dim italic")


def _body_block(body: bytes) -> Text:
    """A body as it is written, but not too much of it."""
    if not body or _text_of(body) is None:
        return _body_start(body, WIDEST)
    lines = body[:BYTES_SHOWN].decode(errors="ignore").split("\n")[:LINES_SHOWN]
    block = Text("\n".join(map(screen.one_line, lines)), overflow="fold")
    left = len(body) - len("\n".join(lines).encode())
    if left > 0:
        block.append(f"\n… {left:,} bytes more, with --raw", "dim")
    return block


def _hex(body: bytes) -> str:
    more = " …" if len(body) > HEX_SHOWN else ""
    return f"{len(body):,} bytes: {body[:HEX_SHOWN].hex(' ')}{more}"


# --- leases -----------------------------------------------------------------------------------------------------------


def leased_data(message: LeasedMessage, *, due: bool = True) -> dict[str, Any]:
    """A leased message for a program."""
    lease = message.lease
    data = {"topic": lease.topic, "id": message.id, "attempts": message.attempts}
    if due:
        data["at"] = message.at
    more = {"producer_group": message.producer_group, "until": lease.until, "lease": lease_text(lease)}
    return data | more | body_data(message.body)


def leased_row(message: LeasedMessage) -> str:
    """A leased message as a line for a pipe, the lease first; no lease has a tab in it."""
    return "\t".join([lease_text(message.lease), message.id, str(message.attempts), body_line(message.body)])


def leased_text(message: LeasedMessage, width: int, *, due: bool = True) -> RenderableType:
    """A leased message for a person, without its lease: that is said on a line of its own, never broken."""
    attempts = f"attempt {message.attempts:,}"
    facts = [f"[yellow]{attempts}[/]" if message.attempts > 1 else attempts]
    facts += [f"due {screen.when(message.at)}"] if due else [f"on {screen.plain(message.lease.topic)}"]
    facts += [f"lease ends {screen.when(message.lease.until)}"]
    table = Table.grid(padding=0)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(ratio=1)
    table.add_row("  body   ", _body_start(message.body, width))
    return Group(f"[bold]{screen.plain(message.id)}[/] [dim]· {' · '.join(facts)}[/]", table)


# --- messages ---------------------------------------------------------------------------------------------------------


def message_data(message: Message) -> dict[str, Any]:
    """A message for a program."""
    names = "topic", "id", "state", "at", "producer_group", "consumer", "version", "attempts", "priority", "bucket"
    data = {name: getattr(message, name) for name in names} | body_data(message.body)
    return data | {"history": [_attempt_data(one) for one in message.history]}


def _attempt_data(one: Attempt) -> dict[str, Any]:
    return {
        "attempt": one.attempt,
        "consumer": one.consumer,
        "ending": one.ending,
        "ended_at": moment_ms(one.ended_ms),
        "reason": one.reason,
    }


def message_panel(message: Message, width: int, boxed: bool) -> RenderableType:
    """All that is known of a message; in a box, on a terminal."""
    colour = COLOURS[message.state]
    title = f"[bold]{screen.plain(message.id)}[/] on {screen.plain(message.topic)} · [{colour}]{message.state}[/]"
    parts: list[RenderableType] = [_body_block(message.body), "", _facts(message)]
    if message.history:
        parts += ["", _history(message.history)]
    if not boxed:
        return Group(title, *parts)
    box = Group(*parts)
    return Panel(box, title=title, title_align="left", border_style=colour, width=min(width, WIDEST), padding=(0, 1))


def _facts(message: Message) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("lease ends" if message.consumer is not None else "due", screen.moment_text(message.at))
    if message.consumer is not None:
        table.add_row("consumer", Text(message.consumer))
    table.add_row("owner", Text(message.producer_group))
    table.add_row("attempts", f"{message.attempts:,}")
    table.add_row("version", f"{message.version:,}")
    if message.priority:
        table.add_row("priority", f"{message.priority}")
    table.add_row("bucket", f"{message.bucket}")
    return table


def _history(history: Iterable[Attempt]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("attempt", justify="right", no_wrap=True)
    table.add_column("ended", no_wrap=True)
    table.add_column("how", no_wrap=True)
    table.add_column("consumer", overflow="fold")
    table.add_column("reason", overflow="fold")
    for one in history:
        ending = f"[{'red' if one.ending == 'lost' else 'yellow'}]{screen.plain(one.ending)}[/]"
        reason = Text(screen.one_line(one.reason))
        table.add_row(f"{one.attempt:,}", screen.when(moment_ms(one.ended_ms)), ending, Text(one.consumer), reason)
    return table


def message_table(messages: Iterable[Message], width: int) -> Table:
    """A row per message; what does not fit a narrow terminal is left out."""
    wide = width >= 80
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("message", overflow="fold", max_width=40)
    table.add_column("topic", overflow="fold", max_width=24)
    table.add_column("state", no_wrap=True)
    table.add_column("due", justify="right", no_wrap=True)
    if wide:
        table.add_column("tries", justify="right", no_wrap=True)
        table.add_column("body", no_wrap=True, overflow="ellipsis")
    for one in messages:
        state = f"[{COLOURS[one.state]}]{one.state}[/]"
        more = (f"{one.attempts:,}", _body_start(one.body, width)) if wide else ()
        table.add_row(Text(one.id), Text(one.topic), state, screen.when(one.at), *more)
    return table


def message_row(message: Message) -> str:
    """A message as a line for a pipe; neither id nor topic has a tab in it."""
    counts = (str(message.version), str(message.attempts))
    return "\t".join([message.id, message.topic, message.state, message.at.isoformat(), *counts])


def ids_text(ids: Sequence[str]) -> list[str]:
    """Ids, a line each, the first and the last of many."""
    few = len(ids) <= SHOWN
    lines = [f"  {screen.plain(id)}" for id in (ids if few else ids[:3])]
    if not few:
        lines += [f"  [dim]… {len(ids) - 4:,} more[/]", f"  {screen.plain(ids[-1])}"]
    return lines
