"""Tokens: as a person sees them, and as data for a program."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from batchline.cli import screen
from batchline.core.token import Token

__all__ = ["rights_text", "token_data", "token_row", "token_table"]


def token_data(token: Token, now: datetime) -> dict[str, Any]:
    """A token for a program; nothing of its secret."""
    return {
        "id": token.id,
        "name": token.name,
        "producer_group": token.producer_group,
        "consumers": list(token.consumers),
        "topics": list(token.topics),
        "admin": token.admin,
        "state": _state(token, now),
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
    }


def token_row(token: Token, now: datetime) -> str:
    """A token as a line for a pipe; no name has a tab in it."""
    lists = (",".join(patterns) or "-" for patterns in (token.consumers, token.topics))
    admin = "admin" if token.admin else "-"
    return "\t".join([token.id, _state(token, now), token.producer_group or "-", *lists, admin, token.name or "-"])


def token_table(tokens: Iterable[Token], now: datetime) -> Table:
    """A row per token."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("id", no_wrap=True)
    for title in ("name", "may", "topics", "until"):
        table.add_column(title, overflow="fold")
    for one in tokens:
        style = "" if one.is_valid(now) else "dim"
        topics = "every" if one.admin else ", ".join(one.topics)
        table.add_row(one.id, Text(one.name), Text(rights_text(one)), Text(topics), _until(one, now), style=style)
    return table


def rights_text(token: Token) -> str:
    """What may be done with a token, in words."""
    parts = [
        "everything" if token.admin else "",
        f"produce as {token.producer_group}" if token.producer_group is not None else "",
        f"lease as {', '.join(token.consumers)}" if token.consumers and not token.admin else "",
    ]
    return "; ".join(filter(None, parts)) or "only read"


def _state(token: Token, now: datetime) -> str:
    if token.is_valid(now):
        return "valid"
    return "expired" if token.revoked_at is None else "revoked"


def _until(token: Token, now: datetime) -> str:
    if not token.is_valid(now):
        return f"[red]{_state(token, now)}[/]"
    return "no end" if token.expires_at is None else screen.when(token.expires_at)
