"""A pipeline described: where measurements come from, what is made of them, and where they go.

    source ──► batch ──► pack ──► publish ──► capacity ──► sink

The same as a file of TOML has it, table by table; see `docs/reference/pipeline.md`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from batchline.core.batch_rules import BatchRules
from batchline.core.moment import check_span
from batchline.core.name import check_name
from batchline.core.pack_rules import PackRules
from batchline.core.pricing import price_of
from batchline.core.retry import RetryRules
from batchline.errors import InvalidRules, check_choice, shown

__all__ = ["RETRY", "Capacity", "Pipeline", "Publication", "SinkAddress", "Source", "Work"]

KINDS: Final = ("files", "kafka", "mqtt", "http")
RETRY: Final = RetryRules(first=timedelta(milliseconds=500), longest=timedelta(minutes=5))
CLOCKS: Final = ("data", "wall")
#: Sources that land, in a directory that is then followed, stamp receive time on the spot.
LANDING: Final = ("mqtt", "http")
#: What messages of MQTT may be.
FORMATS: Final = ("thin-edge", "collectd", "json")


@dataclass(frozen=True, slots=True)
class Source:
    """Where measurements come from."""

    #: A file or directory; the address of a broker, `mqtt://…` or `kafka://…/topic`; where to listen, `127.0.0.1:8080`.
    address: str
    kind: str = "files"
    #: What columns are called there, by ours: `{key = "device"}`.
    columns: Mapping[str, str] = field(default_factory=dict)
    #: Columns that order what was received at the same moment.
    order: tuple[str, ...] = ()
    #: How far out of receive order rows may come.
    skew: timedelta = timedelta(0)
    #: Whether time moves by the data alone, or by the clock on the wall, too: for sources that stamp on the spot.
    clock: str = ""
    #: Of MQTT: what is subscribed to, and in which form it comes.
    topics: tuple[str, ...] = ()
    format: str = "thin-edge"
    #: Of MQTT and HTTP: the directory in which measurements land.
    into: str = ""
    #: Of JSON over MQTT: where a measurement's parts are, `key=topic:2,type=sensor`.
    map: str = ""
    #: Of MQTT and HTTP: what the files are called that land.
    series: str = ""
    #: Of MQTT: by what the broker knows us again, and how long a message waits for others to land with.
    client_id: str = ""
    linger: timedelta = timedelta(milliseconds=200)
    #: Of HTTP: whether others than this machine may send, which is anybody then.
    insecure: bool = False
    #: Of Kafka: further fields of a record's JSON, as in SQL; whose time a record's is; and options of Spark's source.
    others: str = "value double"
    times: str = "append"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS, InvalidRules)
        _check_text("address", self.address)
        for name in ("skew", "linger"):
            check_span(name, getattr(self, name), 0)
        if not isinstance(self.insecure, bool):
            raise InvalidRules(f"insecure must be true or false, got {shown(self.insecure)}")
        if not isinstance(self.client_id, str):
            raise InvalidRules(f"client_id must be a text, got {shown(self.client_id)}")
        if self.clock:
            check_choice("clock", self.clock, CLOCKS, InvalidRules)
        else:
            object.__setattr__(self, "clock", "wall" if self.kind in LANDING else "data")
        if self.kind in LANDING and not self.into:
            raise InvalidRules(f"a source of kind {self.kind!r} needs into, the directory in which measurements land")
        if self.kind == "mqtt":
            _check_format(self.format, self.map, self.topics)

    @property
    def order_by(self) -> tuple[str, ...]:
        """What orders rows of one moment: what lands is numbered."""
        return self.order or (("sequence",) if self.kind in LANDING else ())

    @property
    def directory(self) -> str:
        """Where its files are."""
        return self.into or self.address


@dataclass(frozen=True, slots=True)
class Publication:
    """Where parcels are kept until they have arrived."""

    #: The address of the store.
    store: str
    topic: str = "parcels"
    #: How many lanes there are: of each, one parcel is on its way at a time.
    lanes: int = 16
    #: A column of parcels, such as `last_time`, that says when one is due; and how much later it is.
    at: str | None = None
    delay: timedelta = timedelta(0)
    #: Of a stream: how long a parcel that is not full waits for more, and for how long a fanout is open.
    linger: timedelta = timedelta(seconds=1)
    period: timedelta = timedelta(minutes=1)
    #: A topic that gets a message for each fanout that is complete.
    tell: str | None = None
    #: How many parcels may be refused before a fanout fails; -1 for any number.
    tolerate: int = 0
    #: Columns of measurements that are not sent.
    without: tuple[str, ...] = ("batch_start", "batch_end", "closed_at", "close_reason", "verdict")

    def __post_init__(self) -> None:
        _check_text("store", self.store)
        check_name("topic", self.topic)
        _check_number("lanes", self.lanes, 1)
        _check_number("tolerate", self.tolerate, -1)
        for name in ("delay", "linger"):
            check_span(name, getattr(self, name), 0)
        check_span("period", self.period, 1_000_000)


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much the receiver takes a second."""

    per_second: float
    #: What of it is counted: a parcel, a measurement, a byte, or a field of the measurements, `field:ru`.
    cost: str = "parcel"
    #: Where instances that share it keep their leases; without it, it is this process's own.
    shared: str | None = None
    resource: str = "capacity"
    factor: float = 0

    def __post_init__(self) -> None:
        for name in ("per_second", "factor"):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int | float) or not number >= 0:
                raise InvalidRules(f"{name} must be a number, 0 or above, got {shown(number)}")
        price_of(self.cost)
        check_name("resource", self.resource)

    @property
    def piece(self) -> float:
        """In which pieces it is shared: fifty, unless somebody has said otherwise."""
        return self.factor or max(self.per_second / 50, 1)


@dataclass(frozen=True, slots=True)
class SinkAddress:
    """Where parcels go: the address of a sink, and what it takes beside."""

    address: str = "stdout:"
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Work:
    """How parcels are delivered."""

    in_hand: int = 256
    concurrency: int = 16
    lease: timedelta = timedelta(seconds=30)
    give_up_after: int | None = None
    retry: RetryRules = RETRY

    def __post_init__(self) -> None:
        for name in ("in_hand", "concurrency"):
            _check_number(name, getattr(self, name), 1)
        check_span("lease", self.lease, 1_000_000)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """All of it."""

    name: str
    source: Source
    publish: Publication
    #: The directory for what is rejected, and for what a stream must remember.
    out: str
    batch: BatchRules = field(default_factory=BatchRules)
    pack: PackRules = field(default_factory=PackRules)
    capacity: Capacity | None = None
    sink: SinkAddress = field(default_factory=SinkAddress)
    work: Work = field(default_factory=Work)
    #: The Spark cluster; all cores of this machine, unless somebody has said otherwise.
    master: str | None = None
    #: Settings of Spark.
    spark: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name("name", self.name)
        _check_text("out", self.out)


def _check_format(form: str, mapping: str, topics: Sequence[str]) -> None:
    check_choice("format", form, FORMATS, InvalidRules)
    if form == "json" and not (mapping and topics):
        raise InvalidRules("messages of the format 'json' need map, where a measurement's parts are, and topics")
    if form != "json" and mapping:
        raise InvalidRules(f"map goes with the format 'json', got the format {form!r}")


def _check_text(name: str, text: object) -> None:
    if not isinstance(text, str) or not text:
        raise InvalidRules(f"{name} must be a text, got {shown(text)}")


def _check_number(name: str, number: object, least: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise InvalidRules(f"{name} must be a whole number from {least} on, got {shown(number)}")
