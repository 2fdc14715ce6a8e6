"""Messages, ids and leases as they come in: on the command line, or line by line from a file."""

import binascii
import json
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, NoReturn, TextIO, TypeVar

import typer

from batchline.cli.timeline_options import read_after, read_moment
from batchline.core.due_time import Due, check_at, check_due
from batchline.core.message import Lease, NewMessage, check_id, check_messages, read_lease
from batchline.errors import InvalidInput, InvalidMessage, did_you_mean, shown

__all__ = ["Reading", "in_parts", "lease_of", "new_message", "read_all", "read_lines", "text_bytes"]

T = TypeVar("T")
KEYS: Final = ("id", "at", "in", "body", "body_base64", "priority")
EXAMPLE: Final = '{"id": "a", "at": "2026-11-20T08:00:00Z", "body": "hello"}'
#: What one call takes on; as many as one transaction of the timeline does.
AT_ONCE: Final = 5_000
#: Bodies that wait in memory for their call, in bytes.
BYTES_AT_ONCE: Final = 8 << 20


def read_all(words: Iterable[str] | None, file: TextIO | None, what: str, read: Callable[[str], T]) -> Iterator[T]:
    """What is named on the command line and in the file; - on the command line is standard input."""
    words = list(words or ())
    if not words and file is None:
        raise typer.BadParameter(f"name at least one {what}, or give --file", param_hint=what.upper())
    return _read_all(words, file, read)


def _read_all(words: Iterable[str], file: TextIO | None, read: Callable[[str], T]) -> Iterator[T]:
    for word in words:
        if word == "-":
            yield from read_lines(typer.get_text_stream("stdin", "utf-8-sig", "surrogateescape"), read)
        else:
            yield read(word)
    if file is not None:
        yield from read_lines(file, read)


def read_lines(file: TextIO, read: Callable[[str], T]) -> Iterator[T]:
    """What the lines of a file say, empty ones aside; an error says which line it is in."""
    for number, line in enumerate(file, 1):
        said = line.strip("\r\n")
        if said.strip():
            try:
                found = read(said)
            except (InvalidInput, typer.BadParameter) as error:
                before = " (the lines before it count)" if number > 1 else ""
                raise InvalidMessage(f"line {number:,}: {error}{before}") from error
            yield found


def in_parts(
    items: Iterable[T], key: Callable[[T], object], size: Callable[[T], int] = lambda _: 0
) -> Iterator[list[T]]:
    """Parts that one call takes on, none with a key twice; what stands before an error still is one."""
    part: list[T] = []
    keys: set[object] = set()
    room = BYTES_AT_ONCE
    rest = iter(items)
    while True:
        try:
            item = next(rest, None)
        except InvalidInput:
            if part:
                yield part
            raise
        if item is None:
            break
        name = key(item)
        room -= size(item)
        if part and (len(part) == AT_ONCE or room < 0 or (name is not None and name in keys)):
            yield part
            part, keys, room = [], set(), BYTES_AT_ONCE - size(item)
        part.append(item)
        keys.add(name)
    if part:
        yield part


def new_message(body: bytes, due: Due | None, id: str | None, priority: int) -> NewMessage:
    """Return a message that is due at a moment, after a span, or at once."""
    if isinstance(due, timedelta):
        return NewMessage(body, None, id, priority, due)
    return NewMessage(body, due, id, priority)


@dataclass(frozen=True)
class Reading:
    """How texts are read: on one topic, with what the options say for all of them."""

    topic: str = ""
    #: The due time of what names none of its own.
    due: Due | None = None
    priority: int = 0

    def message(self, line: str) -> NewMessage:
        """A new message from a line of JSON."""
        found = _object(line)
        for key in found:
            if key not in KEYS:
                raise InvalidMessage(f"a message has {', '.join(KEYS)}, got {shown(key)}{did_you_mean(key, KEYS)}")
        priority = found.get("priority")
        message = new_message(
            _body(found), self._due(found), found.get("id"), self.priority if priority is None else priority
        )
        check_messages([message], None)
        return message

    def id(self, line: str) -> str:
        """The id of a message, plain or in a line of JSON."""
        return check_id(self._named(line)["id"])

    def move(self, line: str) -> tuple[str, Due]:
        """Return the id of a message and its new due time: that of --at or --in, or that of its line."""
        found = self._named(line)
        due = self._due(found) if self.due is None else self.due
        if due is None:
            raise InvalidMessage(f"message {found['id']!r} needs a moment to go to: --at, --in, or at in its line")
        check_due("the moment of a message", due, None)
        return check_id(found["id"]), due

    def _named(self, line: str) -> dict[str, Any]:
        if not line.startswith("{"):
            return {"id": line}
        found = _object(line)
        if found.get("topic", self.topic) != self.topic:
            raise InvalidMessage(f"the message is on topic {shown(found['topic'])}, not on {self.topic!r}")
        return {"id": None} | found

    def _due(self, found: dict[str, Any]) -> Due | None:
        at, in_ = found.get("at"), found.get("in")
        if at is None and in_ is None:
            return self.due
        if in_ is not None:
            if at is not None:
                _refuse("at and in", "one of them", "both")
            if not isinstance(in_, str):
                _refuse("in", "a span such as 10m", in_)
            return read_after(in_)
        return read_moment(at) if isinstance(at, str) else check_at("at", at)


def lease_of(line: str) -> Lease:
    """A lease as `lease` prints it: alone, before a tab, or in a line of JSON."""
    if not line.startswith("{"):
        return read_lease(line.partition("\t")[0].strip())
    return read_lease(_object(line).get("lease"))


def _object(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        where = f": {error.msg} at column {error.colno:,}" if isinstance(error, json.JSONDecodeError) else ""
        raise InvalidMessage(f"expected a JSON object such as {EXAMPLE}, got {shown(line[:80])}{where}") from error
    if not isinstance(found, dict):
        raise InvalidMessage(f"expected a JSON object such as {EXAMPLE}, got {shown(line[:80])}")
    return found


def _body(found: dict[str, Any]) -> bytes:
    text, coded = found.get("body"), found.get("body_base64")
    if coded is None:
        return text_bytes("" if text is None else text)
    if text is not None:
        _refuse("body and body_base64", "one of them", "both")
    try:
        return b64decode(coded, validate=True)
    except (TypeError, ValueError, binascii.Error):
        _refuse("body_base64", "bytes in Base64", coded)


def text_bytes(text: object) -> bytes:
    """The body that a text is."""
    try:
        return (
            text.encode() if isinstance(text, str) else _refuse("body", "a text; for bytes there is body_base64", text)
        )
    except UnicodeEncodeError:
        _refuse("body", "text in UTF-8; for bytes there is body_base64", text)


def _refuse(what: str, expected: str, got: object) -> NoReturn:
    raise InvalidMessage(f"{what} must be {expected}, got {shown(got)[:80]}")
