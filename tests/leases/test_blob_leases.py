"""What is of Azure alone: how long leases may be, names that are blobs', who is let in; and how leases run out."""

import threading
import uuid
from collections.abc import Iterator

import pytest
from azure.core.exceptions import ServiceRequestError
from azure.storage.blob import ContainerClient

from batchline.core.partitions import Asking
from batchline.errors import InvalidName, InvalidRules, InvalidStore, StoreError, StoreUnavailable
from batchline.leases.blob_leases import BlobLeases
from batchline.leases.lease_manager import LeaseManager
from batchline.leases.opening import open_leases
from batchline.runtime.clock import elapsed_seconds
from tests.leases.keeping import Clock, azure_address, wait_until

SHORTEST_MS = 15_000


@pytest.fixture
def address(azurite_url: str) -> str:
    return azure_address(azurite_url, f"test-{uuid.uuid4().hex}")


@pytest.fixture
def leases(address: str) -> Iterator[LeaseManager]:
    with open_leases(address, "orders") as leases:
        leases.provision(3, "s", 1)
        yield leases


@pytest.fixture
def container(address: str, azurite_url: str) -> Iterator[ContainerClient]:
    """Our own look at what is there."""
    name = address.partition("?")[0].rpartition("/")[2]
    with ContainerClient.from_connection_string(azurite_url, name) as container:
        yield container


def test_leases_run_out_by_azures_clock(leases: LeaseManager, address: str) -> None:
    with open_leases(address, "orders") as other:
        sent = elapsed_seconds()
        assert leases.acquire("a", [0, 1], 2, SHORTEST_MS, 1) == [0, 1]
        leases.ask(Asking("a", 2, (0, 1)), SHORTEST_MS, 1)
        leases.acquire("renews", [2], 1, SHORTEST_MS, 1)
        assert other.acquire("b", [0, 1], 2, SHORTEST_MS, 1) == []
        Clock(real=True).wait(7_000)
        assert leases.renew("renews", [2], SHORTEST_MS, 1) == [2]
        assert other.holders(1) == {0: "a", 1: "a", 2: "renews"}
        Clock(real=True).wait(7_500)
        wait_until(Clock(real=True), lambda: other.acquire("b", [1, 2], 2, SHORTEST_MS, 1) == [1])
        assert elapsed_seconds() - sent >= SHORTEST_MS / 1_000
        assert other.holders(1) == {1: "b", 2: "renews"}
        assert leases.renew("a", [1], SHORTEST_MS, 1) == []
        assert leases.acquire("a", [1, 0], 2, SHORTEST_MS, 1) == [0]
        wait_until(Clock(real=True), lambda: other.ask(Asking("b", 1), SHORTEST_MS, 1) == [Asking("b", 1)])


@pytest.mark.parametrize("lease_ms", [1, 14_999, 60_001])
def test_a_lease_lasts_15_to_60_seconds(leases: LeaseManager, lease_ms: int) -> None:
    said = f"lease_ms must be 15,000 to 60,000, got {lease_ms}"
    with pytest.raises(InvalidRules, match=said):
        leases.acquire("a", [0], 1, lease_ms, 1)
    with pytest.raises(InvalidRules, match=said):
        leases.renew("a", [0], lease_ms, 1)
    with pytest.raises(InvalidRules, match=said):
        leases.ask(Asking("a", 1), lease_ms, 1)
    assert leases.acquire("a", [0], 1, 15_001, 1) == [0], "seconds are rounded up"


def test_blobs_are_empty_and_named_by_what_they_are(leases: LeaseManager, container: ContainerClient) -> None:
    leases.ask(Asking("host/1", 1), SHORTEST_MS, 1)
    found = {blob.name: blob.size for blob in container.list_blobs()}
    assert found == dict.fromkeys(["orders/0", "orders/1", "orders/2", "orders/asking/host%2F1", "orders/size"], 0)


@pytest.mark.parametrize("name", [".", "..", "a/../b", "a?b#c", "über %2F"])
def test_names_that_an_address_would_change_stay_what_they_are(address: str, name: str) -> None:
    with open_leases(address, name) as leases:
        leases.provision(2, "s", 1)
        assert leases.acquire(name, [0, 1], 1, SHORTEST_MS, 1) == [0]
        assert leases.holders(1) == {0: name}
        assert leases.ask(Asking(name, 2), SHORTEST_MS, 1) == [Asking(name, 2)]
        assert leases.ask(Asking(name, 0), SHORTEST_MS, 1) == []


def test_a_name_that_is_too_long_for_a_blob_is_refused(leases: LeaseManager, address: str) -> None:
    name = "\N{SNOWMAN}" * 60
    with pytest.raises(InvalidName, match=r"resource must have at most 500 characters, percent-encoded, .* got 540"):
        open_leases(address, name)
    with pytest.raises(InvalidName, match="instance must have at most 500 characters, percent-encoded"):
        leases.ask(Asking(name, 1), SHORTEST_MS, 1)


def test_a_wrong_key_is_no_reason_to_try_again(leases: LeaseManager, address: str) -> None:
    with open_leases(f"{address.partition('?')[0]}?key=aGlkZGVu", "orders") as stranger:
        with pytest.raises(StoreError, match="does not let us in: Auth") as refused:
            stranger.provision(3, "s", 1)
        with pytest.raises(StoreError, match="does not let us in: Auth"):
            stranger.renew("a", [0, 1, 2], SHORTEST_MS, 1)
    assert not isinstance(refused.value, StoreUnavailable)
    assert "aGlkZGVu" not in str(refused.value)


def test_a_key_that_is_none_is_an_error_of_the_store(address: str) -> None:
    with open_leases(f"{address.partition('?')[0]}?key=hidden!", "orders") as leases:
        with pytest.raises(StoreError) as refused:
            leases.holders(1)
        assert "hidden" not in str(refused.value)


def test_a_container_that_is_not_there_is_named_with_what_makes_it(address: str) -> None:
    with open_leases(address, "orders") as leases:
        place = address.partition("?")[0].removeprefix("azblob+")
        said = rf"there is no container {place}: provision\(\) makes it"
        with pytest.raises(StoreError, match=said):
            leases.acquire("a", [0], 1, SHORTEST_MS, 1)
        with pytest.raises(StoreError, match=said):
            leases.renew("a", [0], SHORTEST_MS, 1)


@pytest.mark.parametrize("account_url", ["", "http://", 7])
def test_an_account_must_have_an_address(account_url: str) -> None:
    with pytest.raises(InvalidStore, match=r"expected https://account\.blob\.core\.windows\.net"):
        BlobLeases(account_url, "container", "orders", credential="aGlkZGVu")


class Partial(BlobLeases):
    """Leases where partition 1 fails after another partition was granted."""

    granted = threading.Event()

    def _lease(self, number: int, instance: str, lease_s: int, taken: list[int]) -> bool:
        if number == 1:
            self.granted.wait(30)
            raise ServiceRequestError("no way there")
        done = super()._lease(number, instance, lease_s, taken)
        if done:
            self.granted.set()
        return done


def test_of_one_call_some_partitions_are_granted_though_others_are_refused_or_err(
    leases: LeaseManager, address: str, azurite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with open_leases(address, "orders") as other:
        assert other.acquire("other", [0], 1, SHORTEST_MS, 1) == [0]
    parts = dict(part.split("=", 1) for part in azurite_url.strip(";").split(";"))
    container = address.partition("?")[0].rpartition("/")[2]
    account = {"account_name": parts["AccountName"], "account_key": parts["AccountKey"]}
    with Partial(parts["BlobEndpoint"], container, "orders", credential=account) as mixed:
        assert mixed.acquire("a", [0, 1, 2], 3, SHORTEST_MS, 1) == [2]
        assert "leased 1 of 3 partitions, then ServiceRequestError" in caplog.text
        with pytest.raises(StoreUnavailable):
            mixed.acquire("a", [0, 1], 2, SHORTEST_MS, 1)
    assert leases.holders(1) == {0: "other", 2: "a"}
    assert leases.acquire("a", [1, 2], 2, SHORTEST_MS, 1) == [1, 2]
