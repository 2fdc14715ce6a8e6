"""Numbers of one process of the service, for Prometheus; each service has a registry of its own."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from batchline import __version__
from batchline.errors import MissingExtra
from batchline.runtime.supervisor import Supervisor
from batchline.service.connection_gate import REASONS, ConnectionGate
from batchline.service.observer import Sighting
from batchline.service.under_way import UnderWay

try:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
except ModuleNotFoundError as error:
    raise MissingExtra("the service needs prometheus-client: pip install 'batchline[service]'") from error

__all__ = ["METRICS_TEXT", "Metrics"]

METRICS_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
REQUEST_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
STORE_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)


class Metrics:
    """Counts requests, calls of the store and failures of background loops. An observer of requests."""

    def __init__(self, supervisor: Supervisor | None = None) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        registry.register(_Loops(supervisor or Supervisor()))
        build = Gauge("batchline_build_info", "The version of this process.", ["version"], registry=registry)
        build.labels(__version__).set(1)
        self._requests = Counter(
            "batchline_http_requests", "Requests that have ended.", ["operation", "status"], registry=registry
        )
        self._seconds = Histogram(
            "batchline_http_request_duration_seconds",
            "How long requests took; of those that wait for messages, with the wait.",
            ["operation"],
            buckets=REQUEST_S,
            registry=registry,
        )
        self._under_way = 0
        under_way = Gauge("batchline_http_requests_under_way", "Requests under way.", registry=registry)
        under_way.set_function(lambda: self._under_way)
        self._refused = Counter(
            "batchline_http_refused", "Requests that were refused, by their problem.", ["problem"], registry=registry
        )
        self._store_seconds = Histogram(
            "batchline_store_call_duration_seconds",
            "How long calls of the store took.",
            ["call"],
            buckets=STORE_S,
            registry=registry,
        )
        self._store_failed = Counter(
            "batchline_store_call_failures", "Calls that the store has failed.", ["call"], registry=registry
        )
        self._lost: Callable[[], int] = lambda: 0
        registry.register(_LostConnections(lambda: self._lost()))
        self._known: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self._waiting = Gauge("batchline_http_requests_waiting", "Requests that wait for messages.", registry=registry)
        self._sockets = Gauge("batchline_sockets", "WebSockets that are open.", registry=registry)

        self._connections = Gauge("batchline_connections", "Connections that are open.", registry=registry)
        self._refused_connections = Counter(
            "batchline_connections_refused", "Connections refused or dropped, by reason.", ["reason"], registry=registry
        )
        for reason in REASONS:
            self._refused_connections.labels(reason)

    def watch(self, under_way: UnderWay, gate: ConnectionGate) -> None:
        """Show connections, and those who wait for messages."""
        self._connections.set_function(lambda: gate.open)
        self._waiting.set_function(lambda: under_way.waiting - under_way.sockets)
        self._sockets.set_function(lambda: under_way.sockets)

    def watch_store(self, lost: Callable[[], int]) -> None:
        """Count the connections to the store that were lost."""
        self._lost = lost

    def refused_connection(self, reason: str) -> None:
        """Count a connection that was refused, or dropped."""
        self._refused_connections.labels(reason).inc()

    def began(self) -> None:
        """A request has come."""
        self._under_way += 1

    def ended(self, sighting: Sighting) -> None:
        """A request was answered."""
        self._under_way -= 1
        requests, seconds = self._of(sighting.operation, sighting.status)
        requests.inc()
        seconds.observe(sighting.seconds)
        if sighting.problem:
            self._refused.labels(sighting.problem).inc()

    def _of(self, operation: str, status: int) -> tuple[Counter, Histogram]:
        # Kept, for looking labels up costs more than counting.
        found = self._known.get((operation, status))
        if found is None:
            found = self._known[operation, status] = (
                self._requests.labels(operation, status),
                self._seconds.labels(operation),
            )
        return found

    def store_called(self, call: str, seconds: float, failed: bool) -> None:
        """The store was called, from any thread."""
        self._store_seconds.labels(call).observe(seconds)
        if failed:
            self._store_failed.labels(call).inc()

    def text(self, more: Iterable[Metric] = ()) -> bytes:
        """All of it, and more, as Prometheus reads it."""
        return generate_latest(self.registry) + generate_latest(_Some(lambda: more))


class _Loops:
    """The background loops of a process, as Prometheus collects them."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def collect(self) -> Iterator[Metric]:
        """Return a counter of failed steps and whether the last step failed, for each loop."""
        failures = CounterMetricFamily("batchline_loop_failures", "Steps that failed, by loop.", labels=["loop"])
        degraded = GaugeMetricFamily(
            "batchline_loop_degraded", "1 if the last step of a loop failed, else 0.", labels=["loop"]
        )
        failing = {trouble.loop for trouble in self._supervisor.troubles()}
        for name, count in sorted(self._supervisor.failures().items()):
            failures.add_metric([name], count)
            degraded.add_metric([name], name in failing)
        yield failures
        yield degraded


class _LostConnections:
    """A counter that the store keeps."""

    def __init__(self, lost: Callable[[], int]) -> None:
        self._lost = lost

    def collect(self) -> Iterator[Metric]:
        """Return the counter."""
        text = "Connections to the store that were lost while a call used them."
        yield CounterMetricFamily("batchline_store_connections_lost", text, value=self._lost())


class _Some:
    """What looks like a registry to who writes its text."""

    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self.collect = collect
