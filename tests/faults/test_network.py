"""A link carries bytes, loses them silently while it is cut, and goes on or forgets afterwards."""

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from tests.faults.network import Link, Network

SOON_S, LATER_S = 0.3, 30.0


class Pair:
    """A client and the server's end of its connection, over a link."""

    def __init__(self, link: Link, listener: socket.socket):
        self.client = socket.create_connection(("127.0.0.1", link.port), LATER_S)
        self.client.sendall(b"hello")
        self.server, _ = listener.accept()
        self.server.settimeout(LATER_S)
        assert self.server.recv(10) == b"hello"

    def close(self) -> None:
        self.client.close()
        self.server.close()


Connect = Callable[[Link], Pair]


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(LATER_S)
        yield listener


@pytest.fixture
def connect(listener: socket.socket) -> Iterator[Connect]:
    pairs: list[Pair] = []

    def connect(link: Link) -> Pair:
        pairs.append(Pair(link, listener))
        return pairs[-1]

    yield connect
    for pair in pairs:
        pair.close()


@pytest.fixture
def network() -> Iterator[Network]:
    with Network() as network:
        yield network


def is_silent(end: socket.socket) -> bool:
    """Whether neither bytes nor an end of the connection come within a moment."""
    end.settimeout(SOON_S)
    with suppress(TimeoutError):
        return end.recv(10) is None
    end.settimeout(LATER_S)
    return True


def test_a_link_carries_bytes_both_ways_and_the_end_of_a_connection(
    network: Network, listener: socket.socket, connect: Connect
) -> None:
    link = network.link(listener.getsockname()[1])
    pair = connect(link)
    pair.server.sendall(b"answer")
    assert pair.client.recv(10) == b"answer"
    assert len(link.answers) == 1
    pair.client.close()
    assert pair.server.recv(10) == b""


def test_a_cut_link_is_silent_and_resumes_its_connections(
    network: Network, listener: socket.socket, connect: Connect
) -> None:
    link = network.link(listener.getsockname()[1])
    pair = connect(link)
    network.cut([link])
    pair.client.sendall(b"lost?")
    pair.server.sendall(b"answer")
    assert is_silent(pair.server)
    assert is_silent(pair.client)
    network.mend([link], "resume")
    assert pair.server.recv(10) == b"lost?"
    assert pair.client.recv(10) == b"answer"


def test_a_cut_link_answers_no_new_connection(network: Network, listener: socket.socket, connect: Connect) -> None:
    link = network.link(listener.getsockname()[1])
    network.cut([link])
    with pytest.raises(TimeoutError):
        socket.create_connection(("127.0.0.1", link.port), SOON_S)
    network.mend([link], "resume")
    connect(link)


def test_the_kernel_acknowledges_nothing_on_a_cut_link(
    network: Network, listener: socket.socket, connect: Connect
) -> None:
    link = network.link(listener.getsockname()[1])
    pair = connect(link)
    pair.client.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 300)
    network.cut([link])
    pair.client.sendall(b"lost")
    with pytest.raises(TimeoutError, match="110"):
        pair.client.recv(10)


def test_a_link_that_forgets_never_ends_its_old_connections_and_carries_new_ones(
    network: Network, listener: socket.socket, connect: Connect
) -> None:
    link = network.link(listener.getsockname()[1])
    old = connect(link)
    network.cut([link])
    network.mend([link], "forget")
    connect(link)
    old.client.sendall(b"lost")
    old.client.close()
    assert is_silent(old.server)


def test_a_connection_to_a_server_that_is_down_is_reset(network: Network, listener: socket.socket) -> None:
    link = network.link(listener.getsockname()[1])
    listener.close()
    # Either before the client looks, or when it does.
    with pytest.raises(ConnectionResetError), socket.create_connection(("127.0.0.1", link.port), LATER_S) as client:
        client.recv(10)
