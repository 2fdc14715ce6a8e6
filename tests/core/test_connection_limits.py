"""Limits on connections: counted by address, slow ones found, and the oldest unread answers dropped first."""

import pytest

from batchline.core.connection_limits import (
    ConnectionCounts,
    ConnectionLimits,
    Progress,
    address_key,
    overflowing,
)
from batchline.errors import InvalidInput


def test_connections_are_limited_by_address_and_in_all() -> None:
    counts = ConnectionCounts(ConnectionLimits(connections=3, per_address=2), 3)
    for address in ("a", "a", "b"):
        assert counts.refusal(address) is None
        counts.enter(address)
    assert [counts.refusal(one) for one in ("a", "b", "c")] == ["per_address", "total", "total"]
    counts.leave("a")
    assert [counts.refusal(one) for one in ("a", "b", "c")] == [None, None, None]
    counts.leave("a")
    counts.leave("b")
    assert (counts.total, counts._by_address) == (0, {})


def test_one_address_has_half_of_all_connections_unless_told_otherwise() -> None:
    for limits, most, each in (
        (ConnectionLimits(), 5_000, 2_500),
        (ConnectionLimits(connections=1_000), 1_000, 500),
        (ConnectionLimits(), 768, 384),  # the process may open few files
        (ConnectionLimits(per_address=5_000), 768, 768),
        (ConnectionLimits(connections=1), 1, 1),
    ):
        counts = ConnectionCounts(limits, most)
        while counts.refusal("a") is None:
            counts.enter("a")
        assert counts.total == each


@pytest.mark.parametrize("proxy", ["proxy.example.org", "*", "10.0.0.1/8", "10.0.0.1:80", ""])
def test_a_proxy_that_is_no_address_is_refused(proxy: str) -> None:
    with pytest.raises(InvalidInput, match="a trusted proxy: expected its address or network"):
        ConnectionLimits(proxies=("10.0.0.1", "10.0.0.0/24", "2001:db8::1", proxy))


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(InvalidInput, match="connections: expected at least 1, got 0"):
        ConnectionLimits(connections=0)
    with pytest.raises(InvalidInput, match="per address: expected at least 1, got -1"):
        ConnectionLimits(per_address=-1)


def test_a_transfer_is_too_slow_below_its_rate_after_the_grace() -> None:
    limits = ConnectionLimits(bytes_per_s=100, grace_s=10)
    progress = Progress(1_000.0)
    assert not progress.is_too_slow(1_010.0, limits)
    assert progress.is_too_slow(1_010.1, limits)
    progress.moved = 500
    assert not progress.is_too_slow(1_015.0, limits)
    assert progress.is_too_slow(1_015.1, limits)
    progress.restart(1_015.1)
    assert not progress.is_too_slow(1_025.0, limits)


@pytest.mark.parametrize(
    ("host", "key"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("x" * 200, "x" * 100),
    ],
)
def test_an_owner_of_addresses_has_one_key(host: str, key: str) -> None:
    assert address_key(host) == key


def test_the_oldest_unread_answers_are_dropped_until_the_others_fit() -> None:
    unread = {"new": (3.0, 50), "old": (1.0, 10), "older": (0.5, 10), "newer": (4.0, 5)}
    assert overflowing(unread, 75) == []
    assert overflowing(unread, 74) == ["older"]
    assert overflowing(unread, 60) == ["older", "old"]
    assert overflowing(unread, 0) == ["older", "old", "new", "newer"]
