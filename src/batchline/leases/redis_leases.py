"""Leases in Redis: a hash of partitions, by the server's clock. Each verb is one script, run as a whole."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote

from batchline.core.name import check_name
from batchline.core.partitions import Asking
from batchline.errors import ResourceMismatch, StoreUnavailable
from batchline.leases.checks import acquired_from, check_asking, check_lease, check_provision, distinct_partitions
from batchline.leases.lease_manager import LeaseManager, Provisioned
from batchline.stores.redis.connection import connect, translated, without_secrets
from batchline.stores.sharing import FORGET_MS

__all__ = ["RedisLeases"]

VERBS: Final = ("provision", "ask", "acquire", "renew", "release", "holders")
#: What stands in braces decides where a key is in a cluster: all keys of a resource are in one place.
KEY: Final = "batchline:capacity:{{{resource}}}:{part}"
PARTS: Final = ("size", "partitions", "askings")


class RedisLeases(LeaseManager):
    """Leases in a Redis server; each verb is one round trip.

    A verb whose answer was lost is sent once more over a new connection.

    A server may forget all it knew when it is started again. Then renewing answers that all is lost, and who acquires
    makes the partitions again, as they were provisioned, but to be had only a lease later: until then somebody may
    believe that it holds what it held. Who provisions first, as one does who has just been started, does not know that
    anything was forgotten. Where instances come and go, let Redis write what it knows (`appendonly yes`).
    """

    def __init__(self, url: str, resource: str):
        self.resource = check_name("resource", resource)
        self._client = connect(url)
        self._where = without_secrets(url)
        # A brace in the name would end what stands in braces.
        name = quote(resource, safe=" ")
        self._keys = [KEY.format(resource=name, part=part) for part in PARTS]
        #: What was provisioned here: how many, and of which size.
        self._provisioned: tuple[int, str] | None = None
        self._scripts = {verb: self._client.register_script(_script(verb)) for verb in VERBS}

    def provision(self, count: int, size: str, now_us: int, *, replace: bool = False) -> Provisioned:  # noqa: ARG002
        """Create what is missing, and verify what is there; created is whether the resource is new in this server."""
        check_provision(count, size)
        before, *made = self._call("provision", count, size, int(replace), 0)
        if before not in ("", size) and not replace:
            raise ResourceMismatch(
                f"{self.resource!r} is provisioned with {before}, got {size}: "
                "give every instance the same, or replace it"
            )
        self._provisioned = (count, size)
        verified = sorted(set(range(count)) - set(made))
        return Provisioned(self._where.strip("'\""), not before, made, verified)

    def ask(self, asking: Asking, lease_ms: int, now_us: int) -> list[Asking]:  # noqa: ARG002 - Redis has a clock
        """Say what an instance wants and holds, and learn what all said within a lease."""
        check_asking(asking)
        check_lease(lease_ms)
        held = " ".join(map(str, asking.held))
        said = self._call("ask", asking.instance, lease_ms, FORGET_MS, asking.wanted, held)
        return sorted(map(_asking, said), key=lambda one: one.instance)

    def acquire(
        self,
        instance: str,
        partitions: Sequence[int],
        most: int,
        lease_ms: int,
        now_us: int,  # noqa: ARG002
    ) -> list[int]:
        """Lease at most so many of these partitions, tried in this order."""
        numbers = acquired_from(instance, partitions, most)
        check_lease(lease_ms)
        if not numbers:
            return []
        taken: list[int] | None = self._call("acquire", instance, lease_ms, most, *numbers)
        if taken is None and self._provisioned:
            self._call("provision", *self._provisioned, 0, lease_ms)
        return taken or []

    def renew(self, instance: str, partitions: Sequence[int], lease_ms: int, now_us: int) -> list[int]:  # noqa: ARG002
        """Hold these partitions for another lease from now; tells which it still held."""
        numbers = distinct_partitions(instance, partitions)
        check_lease(lease_ms)
        still: list[int] = self._call("renew", instance, lease_ms, *numbers) if numbers else []
        return still

    def release(self, instance: str, partitions: Sequence[int], now_us: int) -> None:  # noqa: ARG002
        """Give partitions back."""
        numbers = distinct_partitions(instance, partitions)
        if numbers:
            self._call("release", instance, *numbers)

    def holders(self, now_us: int) -> dict[int, str]:  # noqa: ARG002
        """Who holds which partition now."""
        return dict(sorted(self._call("holders")))

    def close(self) -> None:
        """Close the connections; a later call would open new ones."""
        self._client.close()

    def _call(self, verb: str, *arguments: int | str) -> Any:
        try:
            return self._send(verb, arguments)
        except StoreUnavailable:
            return self._send(verb, arguments)

    def _send(self, verb: str, arguments: tuple[int | str, ...]) -> Any:
        with translated(self._where):
            return self._scripts[verb](self._keys, arguments)


def _script(verb: str) -> str:
    scripts = files("batchline.leases") / "scripts"
    return "\n".join((scripts / f"{name}.lua").read_text(encoding="utf-8") for name in ("capacity", verb))


def _asking(said: Sequence[str]) -> Asking:
    instance, wanted, held = said
    return Asking(instance, int(wanted), tuple(map(int, held.split())))
