"""What one connection of the service may send, hold and take its time for, and how many there may be. No I/O.

    accepted ─► handshake ─► head ─► body ─► answer ─► idle ─► head …
    (counted)   handshake_s  head_s  a rate            idle_s

Moments are seconds of a clock that never runs back.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from batchline.errors import InvalidInput, shown

__all__ = ["ConnectionCounts", "ConnectionLimits", "Progress", "address_key", "overflowing"]

K = TypeVar("K")
KEY_BITS_V6: Final = 64


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits on connections of one process, enforced before tokens are read."""

    #: Connections in all, and from one address; None for half of all.
    connections: int = 5_000
    per_address: int | None = None
    #: Headers of a request, bytes of its head, and bytes of the address in it.
    headers: int = 100
    head_bytes: int = 32 << 10
    url_bytes: int = 16_000
    #: Requests that one connection sends before the first of them is answered.
    pipelined: int = 128
    #: Bytes of those that wait, beyond which no more are taken.
    pipelined_bytes: int = 64 << 10
    #: How long a TLS handshake and a head may take, and how long a connection rests between requests.
    handshake_s: float = 10.0
    head_s: float = 10.0
    idle_s: float = 30.0
    #: A body arrives, and an answer is read, at this rate at least, after a grace of this number of seconds.
    bytes_per_s: float = 1_024.0
    grace_s: float = 10.0
    #: How long a client has to read a refusal before it is cut off.
    linger_s: float = 2.0
    #: Bytes of answers that all clients together have not read yet.
    unread_bytes: int = 256 << 20
    #: Bytes of large messages that all WebSockets together are sending; one address has half of them at most.
    frame_bytes: int = 128 << 20
    #: Proxies whose word on the client's address is taken, by their own addresses or networks.
    proxies: tuple[str, ...] = ()
    #: How often connections are looked at.
    every_s: float = 0.5

    def __post_init__(self) -> None:
        for name in ("connections", "per_address"):
            if (given := getattr(self, name)) is not None and given < 1:
                raise InvalidInput(f"{name.replace('_', ' ')}: expected at least 1, got {given}")
        for proxy in self.proxies:
            try:
                ipaddress.ip_network(proxy)
            except ValueError as error:
                raise InvalidInput(
                    f"a trusted proxy: expected its address or network, such as 10.0.0.0/24, got {shown(proxy)}"
                ) from error


@dataclass(slots=True)
class ConnectionCounts:
    """Connections that are open, in all and by address."""

    limits: ConnectionLimits
    #: Connections in all; fewer than the limit where the process may open too few files.
    most: int
    total: int = 0
    _by_address: dict[str, int] = field(default_factory=dict)

    def refusal(self, address: str) -> str | None:
        """Return why one more from this address is refused; None if there is room."""
        most = self.limits.per_address or max(self.most // 2, 1)
        # An address that may have all, a proxy, is limited by them alone: there, idle ones make room.
        if most < self.most and self._by_address.get(address, 0) >= most:
            return "per_address"
        return "total" if self.total >= self.most else None

    def enter(self, address: str) -> None:
        """Count one more."""
        self.total += 1
        self._by_address[address] = self._by_address.get(address, 0) + 1

    def leave(self, address: str) -> None:
        """Count one less. Addresses without a connection take no memory."""
        self.total -= 1
        left = self._by_address[address] - 1
        if left:
            self._by_address[address] = left
        else:
            del self._by_address[address]


@dataclass(slots=True)
class Progress:
    """Bytes that move in one direction: whether they keep to the least rate."""

    since_s: float
    moved: int = 0

    def restart(self, now_s: float) -> None:
        """Begin a new grace: what was waited for until now was not the client's fault."""
        self.since_s, self.moved = now_s, 0

    def is_too_slow(self, now_s: float, limits: ConnectionLimits) -> bool:
        """Whether fewer bytes have moved than the rate demands, after the grace."""
        return self.moved < (now_s - self.since_s - limits.grace_s) * limits.bytes_per_s


def address_key(host: str) -> str:
    """Return the key under which an address is counted: of IPv6 its /64, because one host can use all of it."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host[:100]
    if address.version == 4:
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address) >> KEY_BITS_V6 << KEY_BITS_V6, KEY_BITS_V6)))


def overflowing(unread: Mapping[K, tuple[float, int]], most: int) -> list[K]:
    """Return whose unread answers to drop, the oldest first, so that the others hold at most this number of bytes.

    Each has the moment since which its client has not read everything, and the bytes that are left.
    """
    excess = sum(size for _, size in unread.values()) - most
    dropped: list[K] = []
    for one in sorted(unread, key=lambda one: unread[one][0]) if excess > 0 else ():
        if excess <= 0:
            break
        dropped.append(one)
        excess -= unread[one][1]
    return dropped
