"""Where an MQTT broker is: `mqtt://user:password@host:1883/`, or `mqtts://` with TLS."""

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from batchline.errors import InvalidInput, did_you_mean

__all__ = ["MqttAddress"]

PORTS: Final = {"mqtt": 1883, "mqtts": 8883}
OPTIONS: Final = ("ca",)
EXPECTED: Final = "expected an address such as mqtt://host or mqtts://user:password@host:8883/?ca=ca.pem"


@dataclass(frozen=True, slots=True)
class MqttAddress:
    """A broker, and how to reach it."""

    host: str
    port: int
    tls: bool = False
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    #: A file with the certificates to trust; without it, those of the machine.
    ca: str | None = None

    @classmethod
    def from_text(cls, text: str) -> "MqttAddress":
        """The broker that an address names. What is refused is not repeated: it may have a password in it."""
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError:
            # Not chained, nor told: `mqtt://user:password` has its password where a port should be.
            raise InvalidInput(f"{EXPECTED}; got a port that is none") from None
        if parts.scheme not in PORTS:
            raise InvalidInput(f"{EXPECTED}; got the scheme {parts.scheme!r}{did_you_mean(parts.scheme, PORTS)}")
        if not parts.hostname or parts.path not in ("", "/") or parts.fragment:
            raise InvalidInput(f"{EXPECTED}; got the host {parts.hostname or ''!r} and the path {parts.path!r}")
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        for name in options:
            if name not in OPTIONS or parts.scheme != "mqtts":
                raise InvalidInput(f"{EXPECTED}; got the option {name!r}{did_you_mean(name, OPTIONS)}")
        user, password = (unquote(part) if part else None for part in (parts.username, parts.password))
        return cls(parts.hostname, port or PORTS[parts.scheme], parts.scheme == "mqtts", user, password, **options)
