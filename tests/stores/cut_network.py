"""A network of the test's own that can be cut: a router between two namespaces that drops what it should forward.

    client's namespace ── router's namespace ── this one, with the server

Neither end sees that a link is down, nothing is refused, and no FIN arrives: as when a cable is cut far away.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

import pytest

__all__ = ["CutNetwork", "cut_network", "server_side"]

TAG: Final = f"bl{os.getpid() % 100_000}"
NET: Final = f"10.{200 + os.getpid() // 120 % 50}.{os.getpid() % 120 * 2}"
FAR_NET: Final = f"10.{200 + os.getpid() // 120 % 50}.{os.getpid() % 120 * 2 + 1}"


def server_side() -> str:
    """The address at which a server is reached from the client's namespace."""
    return f"{NET}.2"


@dataclass(frozen=True, slots=True)
class CutNetwork:
    """Namespaces with a router between them."""

    client: str
    router: str

    def within(self, command: list[str]) -> list[str]:
        """The command that runs another in the client's namespace."""
        return ["ip", "netns", "exec", self.client, *command]

    def cut(self) -> None:
        """Drop everything from now on, silently."""
        self._forward("0")

    def mend(self) -> None:
        """Let everything through again."""
        self._forward("1")

    def _forward(self, value: str) -> None:
        _run("ip", "netns", "exec", self.router, "sh", "-c", f"echo {value} > /proc/sys/net/ipv4/ip_forward")


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, text=True)


@contextmanager
def cut_network() -> Iterator[CutNetwork]:
    """A network until the block ends; without root's rights, or ip, the test is skipped."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and iproute2")
    network = CutNetwork(f"{TAG}c", f"{TAG}r")
    try:
        try:
            _make(network)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr.strip()}")
        yield network
    finally:
        for command in (("netns", "del", network.client), ("netns", "del", network.router), ("link", "del", f"{TAG}s")):
            with suppress(subprocess.CalledProcessError):  # it was not made, or went with a namespace
                _run("ip", *command)


def _make(network: CutNetwork) -> None:
    client, router = network.client, network.router
    near, far = f"{TAG}n", f"{TAG}f"
    for command in (
        f"netns add {client}",
        f"netns add {router}",
        f"link add {TAG}k netns {client} type veth peer name {far} netns {router}",
        f"link add {TAG}s type veth peer name {near} netns {router}",
        f"-n {client} addr add {FAR_NET}.2/24 dev {TAG}k",
        f"-n {client} link set {TAG}k up",
        f"-n {router} addr add {FAR_NET}.1/24 dev {far}",
        f"-n {router} link set {far} up",
        f"addr add {NET}.2/24 dev {TAG}s",
        f"link set {TAG}s up",
        f"-n {router} addr add {NET}.1/24 dev {near}",
        f"-n {router} link set {near} up",
        f"-n {client} route add default via {FAR_NET}.1",
        f"route add {FAR_NET}.0/24 via {NET}.1",
    ):
        _run("ip", *command.split())
    network.mend()
