"""The processes of a run: who they are, and over which links each reaches its servers."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tests.faults.network import Link, Network
from tests.faults.parts import Part
from tests.faults.pipeline import write_pipeline
from tests.faults.plan import WORKERS
from tests.servers.own import OwnServer
from tests.sinks.own_receiver import OwnReceiver

__all__ = ["PART_ORDER", "Cast", "Places"]

PER_SECOND: Final = 60
#: In which they are stopped: from the source on.
PART_ORDER: Final = ("device", "ingest", "driver", *WORKERS, "service")
DATABASE: Final = "postgresql"


@dataclass(frozen=True, slots=True)
class Places:
    """Where a run keeps what it makes."""

    home: Path
    landing: Path
    out: Path
    #: The port of the service.
    service: int

    @property
    def device_log(self) -> Path:
        """What the device has sent."""
        return self.home / "device.jsonl"

    @property
    def service_url(self) -> str:
        """The service, past the network."""
        return f"http://127.0.0.1:{self.service}"


@dataclass(slots=True)
class Cast:
    """The parts of a run by their names, and the links between each and the servers that it talks to."""

    places: Places
    network: Network
    servers: dict[str, OwnServer]
    receiver: OwnReceiver
    links: dict[tuple[str, str], Link] = field(default_factory=dict)
    parts: dict[str, Part] = field(default_factory=dict)

    def hire(self, seed: int) -> None:
        """Make all parts; none is started."""
        mqtt = {name: self.address(name, "mosquitto") for name in ("device", "ingest")}
        log, landing = self.places.device_log, self.places.landing
        service = ["serve", "--store", self.address("service", DATABASE)]
        self._add("device", "tests.faults.device", mqtt["device"], log, PER_SECOND, seed)
        self._add("ingest", "batchline", "ingest", "mqtt", mqtt["ingest"], "--into", landing, "--json")
        self._add("driver", "batchline", "run", self._pipeline("driver"), "--json")
        self._add("service", "batchline", *service, "--listen", f"127.0.0.1:{self.places.service}")
        for name in WORKERS:
            words = "work", self._pipeline(name), "--name", name, "--json"
            self._add(name, "tests.faults.frozen", "worker", *words)

    def address(self, part: str, server: str) -> str:
        """The address of a server, over a link of this part's own."""
        url = self.receiver.url if server == "receiver" else self.servers[server].url
        parts = urlsplit(url)
        link = self.links[part, server] = self.network.link(parts.port or 0)
        user = f"{parts.username}@" if parts.username else ""
        return parts._replace(netloc=f"{user}127.0.0.1:{link.port}").geturl()

    def links_of(self, target: str) -> list[Link]:
        """The links of a part, to all servers; or of a server, from all parts."""
        return [link for ends, link in self.links.items() if target in ends]

    def _pipeline(self, name: str) -> Path:
        path, places = self.places.home / f"{name}.toml", self.places
        addresses = [self.address(name, server) for server in (DATABASE, "redis", "receiver")]
        write_pipeline(path, places.landing, places.out, *addresses)
        return path

    def _add(self, name: str, module: str, *words: object) -> None:
        self.parts[name] = Part(name, module, words, self.places.home)
