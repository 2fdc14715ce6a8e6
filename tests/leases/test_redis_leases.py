"""What is of Redis alone: where its keys are."""

import pytest
from redis import Redis
from redis.crc import key_slot

from batchline.core.partitions import Asking
from batchline.leases.opening import open_leases
from tests.doubles import new_id


@pytest.mark.parametrize("name", ["orders", "}", "{a}b", "a{b}{c}"])
def test_the_keys_of_a_resource_are_in_one_slot_of_a_cluster(redis_url: str, name: str) -> None:
    resource = f"{name}{new_id()}"
    with open_leases(redis_url, resource) as leases, Redis.from_url(redis_url) as server:
        leases.provision(2, "s", 1)
        leases.ask(Asking("a", 1), 1_000, 1)
        keys = [
            key
            for key in server.scan_iter(match="batchline:capacity:*", count=10_000)
            if resource[-36:].encode() in key
        ]
        assert len(keys) == 3
        assert len({key_slot(key) for key in keys}) == 1


def test_what_was_never_provisioned_cannot_be_had(redis_url: str) -> None:
    with open_leases(redis_url, new_id()) as leases:
        assert leases.acquire("a", [0], 1, 1_000, 1) == []
        assert leases.renew("a", [0], 1_000, 1) == []
        assert leases.holders(1) == {}


def test_what_instances_say_goes_when_nobody_says_anything(redis_url: str) -> None:
    resource = new_id()
    with open_leases(redis_url, resource) as leases, Redis.from_url(redis_url) as server:
        leases.ask(Asking("a", 1), 1_000, 1)
        (key,) = server.scan_iter(match=f"batchline:capacity:*{resource}*", count=10_000)
        assert 0 < server.pttl(key) <= 24 * 3_600_000


def test_who_was_not_heard_of_for_a_day_is_removed(redis_url: str) -> None:
    resource = new_id()
    with open_leases(redis_url, resource) as leases, Redis.from_url(redis_url) as server:
        leases.ask(Asking("a", 1), 1_000, 1)
        (key,) = server.scan_iter(match=f"batchline:capacity:*{resource}*", count=10_000)
        server.hset(key, "died", "1000 2 1")
        assert leases.ask(Asking("a", 2), 1_000, 1) == [Asking("a", 2)]
        assert server.hkeys(key) == [b"a"]
