"""`batchline ingest mqtt` and `batchline ingest http`: what comes over the network lands in a directory."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from batchline.cli import screen
from batchline.cli.completion import words
from batchline.cli.following import stopping
from batchline.cli.ingest_reports import ingest_reports
from batchline.cli.options import Json, read_span
from batchline.errors import InvalidRules, check_choice
from batchline.runtime.clock import elapsed_seconds, now_us
from batchline.sources.collectd import parse_collectd
from batchline.sources.landing import Landing
from batchline.sources.mapped_json import MeasurementMapping
from batchline.sources.measured import Parser
from batchline.sources.mqtt_address import MqttAddress
from batchline.sources.thin_edge import parse_thin_edge

__all__ = ["app", "parser_of", "topics_of"]

app = typer.Typer(
    name="ingest",
    help="Sources that land: what comes over the network is put into a directory that `batch --follow` follows.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)

#: The topics that a format is found on, unless one says.
TOPICS: Final[Mapping[str, list[str]]] = {"thin-edge": ["te/+/+/+/+/m/+"], "collectd": ["collectd/+/+/+"], "json": []}

SERIES: Final = typer.Option(
    "--series", help="What its files are called; of several into one directory each has its own.", metavar="NAME"
)
Into = Annotated[Path, typer.Option("--into", help="The directory to land in; made if it is not there.", metavar="DIR")]

Reports = Annotated[
    str | None, typer.Option("--store", help="A store to report to, for the pages of the service.", metavar="URL")
]


def _span(name: str, text: str, shown: str) -> Any:
    return typer.Option(name, help=text, parser=read_span, metavar="SPAN", show_default=shown)


@app.command("mqtt")
def mqtt(
    address: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS", help="The broker: mqtt://user:password@host:1883/, or mqtts://.", envvar="BATCHLINE_MQTT"
        ),
    ],
    into: Into,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            help="A topic to subscribe to; any number of them.",
            metavar="FILTER",
            show_default="that of the format",
        ),
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            "--format", help="thin-edge, collectd or json.", autocompletion=words("thin-edge", "collectd", "json")
        ),
    ] = "thin-edge",
    mapping: Annotated[
        str,
        typer.Option(
            "--map", help="Of json: where a measurement's parts are, key=topic:2,type=sensor.", metavar="PART=PLACE,…"
        ),
    ] = "",
    series: Annotated[str, SERIES] = "mqtt",
    client_id: Annotated[
        str | None,
        typer.Option(
            "--client-id", help="By which the broker knows us again.", metavar="ID", show_default="batchline-SERIES"
        ),
    ] = None,
    linger: Annotated[
        timedelta, _span("--linger", "How long a message waits for others to land with.", "200ms")
    ] = timedelta(milliseconds=200),
    most: Annotated[
        int, typer.Option("--most", help="Messages to land at once; the broker keeps the others.", metavar="N")
    ] = 10_000,
    session: Annotated[
        timedelta, _span("--session", "How long the broker keeps messages while we are away.", "7d")
    ] = timedelta(days=7),
    store: Reports = None,
    json: Json = False,
) -> None:
    """Land what an MQTT broker sends, until Ctrl-C or SIGTERM.

    A message is acknowledged when it is safely on disk. After a crash, a broker
    that keeps messages (QoS 1) sends the others again, and the batcher removes
    duplicates. What is no measurement is kept in DIR/malformed, with its reason.

    [bold]Examples[/]

      batchline ingest mqtt mqtt://localhost --into landing
      batchline ingest mqtt mqtt://localhost --format collectd --into landing
      batchline ingest mqtt mqtts://me:secret@broker --into landing --format json \\
        --topic 'plant/+/temp' --map key=topic:2,type=text:temp,value=v,event_time=t
      batchline batch landing --out results --follow --order sequence
    """
    from batchline.sources.mqtt import MqttIngest, MqttRules

    parse, topics = parser_of(kind, mapping), topics_of(kind, topic or [])
    rules = MqttRules(client_id or f"batchline-{series}", linger, most, session)
    broker, stop = MqttAddress.from_text(address), threading.Event()
    with (
        Landing(into, series) as landing,
        ingest_reports(store, "mqtt", series) as note,
        screen.live("connecting") as say,
        stopping(stop),
    ):
        ingest = MqttIngest(
            broker, topics, parse, landing, rules, now_us=now_us, elapsed=elapsed_seconds, tell=_teller()
        )
        counts = ingest.run(stop, _progress(say, note))
    _show(asdict(counts), into, json)


def topics_of(kind: str, topics: Sequence[str]) -> Sequence[str]:
    """What is subscribed to: these, or those of the format."""
    found = topics or TOPICS[kind]
    if not found:
        raise typer.BadParameter("json is on topics of your own: name them", param_hint="--topic")
    return found


def parser_of(kind: str, mapping: str) -> Parser:
    """What makes measurements of messages in a format."""
    check_choice("--format", kind, tuple(TOPICS), InvalidRules)
    if (kind == "json") != bool(mapping):
        raise typer.BadParameter("it goes with --format json, which needs it", param_hint="--map")
    if kind == "json":
        return MeasurementMapping.from_text(mapping)
    return parse_thin_edge if kind == "thin-edge" else parse_collectd


@app.command("http")
def http(
    into: Into,
    listen: Annotated[
        str, typer.Option("--listen", help="Where to listen; port 0 for any that is free.", metavar="HOST:PORT")
    ] = "127.0.0.1:8080",
    series: Annotated[str, SERIES] = "http",
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen where others can reach it: anybody may then send anything.")
    ] = False,
    store: Reports = None,
    json: Json = False,
) -> None:
    """Land what is posted to /v1/measurements, until Ctrl-C or SIGTERM.

    A request has a JSON array, or JSON lines, of measurements with key, type,
    event_time and value. It is answered when they are safely on disk.

    [bold]Examples[/]

      batchline ingest http --into landing
      curl http://127.0.0.1:8080/v1/measurements --json \\
        '[{"key": "pump", "type": "temp", "event_time": "2026-11-15T12:00:00Z", "value": 21.5}]'
    """
    from batchline.cli.landing_server import serve_measurements

    with (
        Landing(into, series) as landing,
        ingest_reports(store, "http", series) as note,
        screen.live("starting") as say,
    ):
        counts = serve_measurements(landing, listen, _progress(say, note), _teller(), insecure=insecure)
    _show(counts, into, json)


def _progress(say: Callable[[str], None], note: Callable[[Any], None]) -> Callable[[Any], None]:
    """Notes and says how it goes; the rate is that of all the time since the start."""
    began = elapsed_seconds()

    def look(counts: Any) -> None:
        note(counts)
        rate = counts.landed / max(elapsed_seconds() - began, 0.001)
        say(
            f"{counts.received:,} received · {counts.landed:,} landed · {counts.malformed:,} malformed · "
            f"{rate:,.0f} a second"
        )

    return look


def _teller() -> Callable[[str], None]:
    """Says what happens, beside the results; what is the same as before it says once."""
    last: list[str] = []

    def tell(text: str) -> None:
        if last != [text]:
            last[:] = [text]
            screen.err.print(screen.plain(screen.one_line(text)), style="dim", highlight=False, soft_wrap=True)

    return tell


def _show(counts: Mapping[str, int], into: Path, json: bool) -> None:
    if json:
        screen.say_json({**counts, "into": str(into)})
        return
    screen.say(f"[bold]{counts['landed']:,}[/] landed in {counts['files']:,} files · {counts['malformed']:,} malformed")
    if counts.get("refused"):
        screen.say(f"[yellow]{counts['refused']:,} messages found no room[/]: with QoS 1 they come again")
    screen.say(f"[dim]in {screen.plain(str(into))}/[/]")
