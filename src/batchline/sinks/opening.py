"""From an address, and options, to a sink."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from batchline.core.moment import span_of
from batchline.errors import InvalidInput, InvalidSink, did_you_mean, shown
from batchline.sinks.sink import Sink

__all__ = ["EXAMPLES", "open_sink"]

EXAMPLES: Final = (
    "https://api.example/measurements, postgresql://user:password@host/name, mysql://user:password@host/name, "
    "sqlite:///file.db, files:directory, kafka://host:9092/topic, stdout:, python:package.module:ClassName"
)


def open_sink(
    address: str, options: Mapping[str, object] | None = None, *, wall: Callable[[], int] | None = None
) -> Sink:
    """Open the sink of an address; `wall` tells the time in microseconds to one that may be told a date."""
    scheme, rest = _parts(address)
    if scheme == "python":
        from batchline.sinks.plugin import open_plugin

        return open_plugin(rest, options or {})
    kind = KINDS.get(scheme)
    if kind is None:
        raise InvalidSink(f"expected a sink such as {EXAMPLES}; got {shown(scheme)}:{did_you_mean(scheme, KINDS)}")
    read = _read_options(scheme, kind.options, options or {})
    return kind.open(address, read | ({"wall": wall} if kind.knows_time else {}))


def _parts(address: object) -> tuple[str, str]:
    if isinstance(address, str) and ":" in address:
        scheme, _, rest = address.partition(":")
        return scheme, rest
    came = f"a text of {len(address)} characters without a colon" if isinstance(address, str) else shown(address)
    raise InvalidSink(f"expected the address of a sink, such as {EXAMPLES}; got {came}")


def _open_http(address: str, options: dict[str, Any]) -> Sink:
    from batchline.sinks.http import HttpSink

    return HttpSink(address, **options)


def _open_sql(address: str, options: dict[str, Any]) -> Sink:
    from batchline.sinks.sql import SqlSink

    return SqlSink(address, **options)


def _open_files(address: str, options: dict[str, Any]) -> Sink:
    from batchline.sinks.parcel_files import FileSink

    directory = address.removeprefix("files:")
    if not directory or directory.startswith("//"):
        raise InvalidSink(f"expected files:directory or files:/a/directory, got {shown(address)}")
    return FileSink(directory, **options)


def _open_stdout(address: str, options: dict[str, Any]) -> Sink:
    from batchline.sinks.stdout import StdoutSink

    if address != "stdout:":
        raise InvalidSink(f"expected stdout: and nothing after it, got {shown(address)}")
    return StdoutSink(**options)


def _open_kafka(address: str, options: dict[str, Any]) -> Sink:
    from batchline.core.kafka_address import kafka_address
    from batchline.sinks.kafka import KafkaSink

    try:
        kafka_address(address)
    except InvalidInput:
        # Without what came: there may be a password in it.
        raise InvalidSink("expected kafka://host:9092/topic, several hosts with commas; got another address") from None
    return KafkaSink(address, **options)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidSink(f"must be a text, got {shown(value)}")
    return value


def _yes_or_no(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise InvalidSink(f"must be true or false, got {shown(value)}")


def _span(value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    try:
        return span_of(_text(value))
    except ValueError as error:
        raise InvalidSink(str(error)) from None


def _names(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        # Without what came: it may be a header, and so a secret.
        raise InvalidSink(f"must be names and values, got {type(value).__name__}")
    return value


Read = Callable[[object], Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of sink: how it is opened, and how each of its options is read."""

    open: Callable[[str, dict[str, Any]], Sink]
    options: Mapping[str, Read]
    knows_time: bool = False


HTTP: Final = Kind(
    _open_http,
    {"headers": _names, "method": _text, "gzip": _yes_or_no, "timeout": _span, "body": _text},
    knows_time=True,
)
SQL: Final = Kind(_open_sql, {"table": _text, "fields": _names})
KINDS: Final = {
    "https": HTTP,
    "http": HTTP,
    "postgresql": SQL,
    "postgres": SQL,
    "mysql": SQL,
    "mariadb": SQL,
    "sqlite": SQL,
    "files": Kind(_open_files, {}),
    "kafka": Kind(_open_kafka, {"each": _text, "key": _text, "timeout": _span, "settings": _names}),
    "stdout": Kind(_open_stdout, {"each": _text}),
}


def _read_options(scheme: str, known: Mapping[str, Read], options: Mapping[str, object]) -> dict[str, Any]:
    found = {}
    for name, value in options.items():
        if name not in known:
            words = ", ".join(known) or "none"
            raise InvalidSink(f"{scheme}: takes the options {words}, got {name!r}{did_you_mean(str(name), known)}")
        try:
            found[name] = known[name](value)
        except InvalidSink as error:
            raise InvalidSink(f"{name} of {scheme}: {error}") from None
    return found
