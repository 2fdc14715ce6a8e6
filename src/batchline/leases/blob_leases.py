"""Leases in Azure's blob storage: Azure's own leases on blobs without content, one for each partition."""

from __future__ import annotations

import logging
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from batchline.core.name import check_name
from batchline.core.partitions import Asking
from batchline.errors import ResourceMismatch
from batchline.leases.blob_container import blob_part, connect, shown_place, translated
from batchline.leases.checks import acquired_from, check_asking, check_lease, check_provision, distinct_partitions
from batchline.leases.lease_manager import LeaseManager, Provisioned
from batchline.stores.sharing import FORGET_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from azure.storage.blob import BlobClient, BlobLeaseClient, BlobProperties

__all__ = ["BlobLeases"]

log = logging.getLogger("batchline")
#: What Azure allows.
SHORTEST_MS: Final = 15_000
LONGEST_MS: Final = 60_000
#: Azure takes a call for each partition: so many are under way at once.
THREADS: Final = 8
LEASE_IDS: Final = uuid.UUID("6d7c1b0e-52a5-4c0e-9d7b-3a8f0c6f2f11")


class BlobLeases(LeaseManager):
    """Leases on the blobs `resource/0`, `resource/1`, … of a container.

    `resource/size` says what they are worth, `resource/asking/instance` what an instance asks for: both in metadata.
    A lease's id is made of the instance's name, so that nothing has to be remembered. Azure renews a lease for as long
    as it was acquired for, also one that has run out, if nobody else has had it since.
    """

    def __init__(self, account_url: str, container: str, resource: str, *, credential: Any = None):
        self.resource = check_name("resource", resource)
        self._folder = blob_part("resource", resource)
        self._where = shown_place(account_url, container)
        self._container = connect(account_url, container, credential)
        #: Leases that may have been given without our hearing of it: no listing tells whose they are.
        self._unclear: set[tuple[str, int]] = set()

    def provision(self, count: int, size: str, now_us: int, *, replace: bool = False) -> Provisioned:  # noqa: ARG002
        """Create what is missing, and verify what is there; created is whether the container is new."""
        check_provision(count, size)
        with translated(self._where):
            created = self._create_container()
            self._agree_on(size, replace)
            self._forget_askings()
            known = self._partitions()
            missing = [number for number in range(count) if number not in known]
            made = self._each(self._create, missing)
        return Provisioned(self._where, created, made, [number for number in range(count) if number not in made])

    def _create_container(self) -> bool:
        from azure.core.exceptions import ResourceExistsError

        # First a look, which needs fewer rights.
        if self._container.exists():
            return False
        try:
            self._container.create_container()
        except ResourceExistsError:
            return False
        return True

    def _agree_on(self, size: str, replace: bool) -> None:
        from azure.core.exceptions import ResourceExistsError

        blob = self._blob("size")
        try:
            blob.upload_blob(b"", metadata={"size": quote(size)}, overwrite=replace)
        except ResourceExistsError:
            before = unquote(blob.get_blob_properties().metadata.get("size", ""))
            if before != size:
                raise ResourceMismatch(
                    f"{self.resource!r} is provisioned with {before}, got {size}: "
                    "give every instance the same, or replace it"
                ) from None

    def _create(self, number: int) -> bool:
        from azure.core.exceptions import ResourceExistsError

        try:
            self._blob(number).upload_blob(b"", overwrite=False)
        except ResourceExistsError:
            return False
        return True

    def ask(self, asking: Asking, lease_ms: int, now_us: int) -> list[Asking]:  # noqa: ARG002 - Azure has a clock
        """Say what an instance wants and holds, and learn what all said within a lease, to the second."""
        check_asking(asking)
        check_lease(lease_ms, SHORTEST_MS, LONGEST_MS)
        blob = self._blob("asking", blob_part("instance", asking.instance))
        with translated(self._where):
            if asking.wanted or asking.held:
                said = " ".join(map(str, (asking.wanted, *asking.held)))
                blob.upload_blob(b"", metadata={"asking": said}, overwrite=True)
            else:
                _delete(blob)
            heard = [one for one, age_ms in self._askings() if age_ms <= lease_ms]
        return sorted(map(_asking, heard), key=lambda one: one.instance)

    def _askings(self) -> list[tuple[BlobProperties, float]]:
        """What instances said, and how long ago by Azure's clock."""
        shown: list[str] = []
        found = list(
            self._container.list_blobs(
                name_starts_with=f"{self._folder}/asking/",
                include=["metadata"],
                raw_response_hook=lambda answer: shown.append(answer.http_response.headers["Date"]),
            )
        )
        now = parsedate_to_datetime(shown[-1])
        return [(one, (now - one.last_modified).total_seconds() * 1_000) for one in found]

    def _forget_askings(self) -> None:
        for one, age_ms in self._askings():
            if age_ms > FORGET_MS:
                _delete(self._container.get_blob_client(one.name))

    def acquire(
        self,
        instance: str,
        partitions: Sequence[int],
        most: int,
        lease_ms: int,
        now_us: int,  # noqa: ARG002
    ) -> list[int]:
        """Lease at most so many of these partitions, tried in this order, of those that are listed as free."""
        numbers = acquired_from(instance, partitions, most)
        check_lease(lease_ms, SHORTEST_MS, LONGEST_MS)
        if not numbers:
            return []
        with translated(self._where):
            listed = self._partitions()
            known = [one for one in numbers if one in listed]
            free = [one for one in known if self._may_have(instance, one, _holder(listed[one]))]
            return self._take(instance, free, most, -(-lease_ms // 1_000))

    def _may_have(self, instance: str, number: int, holder: str | None) -> bool:
        return holder in (None, instance) or (instance, number) in self._unclear

    def _take(self, instance: str, free: list[int], most: int, lease_s: int) -> list[int]:
        """Try as many as are still to be had, until there are enough, or no more.

        An error with one partition does not undo the leases on others: it is raised only if there are none.
        """
        taken: list[int] = []
        order = list(free)
        try:
            while free and len(taken) < most:
                wave, free = free[: most - len(taken)], free[most - len(taken) :]
                self._each(lambda number: self._lease(number, instance, lease_s, taken), wave)
        except Exception as error:
            if not taken:
                raise
            log.warning("%s: leased %d of %d partitions, then %s", self._where, len(taken), most, type(error).__name__)
        return sorted(taken, key=order.index)

    def _lease(self, number: int, instance: str, lease_s: int, taken: list[int]) -> bool:
        lease = self._lease_of(number, instance)
        self._unclear.add((instance, number))
        done = _done(lambda: lease.acquire(lease_duration=lease_s))
        if done:
            # Azure tells nobody who has a lease.
            self._blob(number).set_blob_metadata({"holder": quote(instance)}, lease=lease)
            taken.append(number)
        self._unclear.discard((instance, number))
        return done

    def renew(self, instance: str, partitions: Sequence[int], lease_ms: int, now_us: int) -> list[int]:  # noqa: ARG002
        """Hold these partitions for another lease from now; tells which it still held."""
        numbers = distinct_partitions(instance, partitions)
        check_lease(lease_ms, SHORTEST_MS, LONGEST_MS)
        with translated(self._where):
            return self._each(lambda number: _done(self._lease_of(number, instance).renew), numbers)

    def release(self, instance: str, partitions: Sequence[int], now_us: int) -> None:  # noqa: ARG002
        """Give partitions back."""
        numbers = distinct_partitions(instance, partitions)
        with translated(self._where):
            self._each(lambda number: _done(self._lease_of(number, instance).release), numbers)

    def holders(self, now_us: int) -> dict[int, str]:  # noqa: ARG002
        """Who holds which partition now."""
        with translated(self._where):
            holders = {number: _holder(blob) for number, blob in sorted(self._partitions().items())}
        return {number: holder for number, holder in holders.items() if holder}

    def close(self) -> None:
        """Close the connections."""
        self._container.close()

    def _partitions(self) -> dict[int, BlobProperties]:
        """The blobs of partitions, by number."""
        begin = f"{self._folder}/"
        found = self._container.list_blobs(name_starts_with=begin, include=["metadata"])
        parts = ((blob.name.removeprefix(begin), blob) for blob in found)
        return {int(part): blob for part, blob in parts if part.isdecimal()}

    def _blob(self, *parts: str | int) -> BlobClient:
        return self._container.get_blob_client("/".join(map(str, (self._folder, *parts))))

    def _lease_of(self, number: int, instance: str) -> BlobLeaseClient:
        from azure.storage.blob import BlobLeaseClient

        return BlobLeaseClient(self._blob(number), lease_id=str(uuid.uuid5(LEASE_IDS, instance)))

    def _each(self, call: Callable[[int], bool], numbers: list[int]) -> list[int]:
        """Do the same to each, some at once; tells with which it could be done. After an error none is begun."""
        if len(numbers) <= 1:
            return [number for number in numbers if call(number)]
        failed = threading.Event()

        def unless_failed(number: int) -> bool:
            if failed.is_set():
                return False
            try:
                return call(number)
            except BaseException:
                failed.set()
                raise

        with ThreadPoolExecutor(min(THREADS, len(numbers))) as threads:
            done = list(threads.map(unless_failed, numbers))
        return [number for number, was_done in zip(numbers, done, strict=True) if was_done]


def _done(call: Callable[[], object]) -> bool:
    """Whether a lease is the caller's: it is not if another has it, or nobody, or there is no such partition."""
    from azure.core.exceptions import ResourceExistsError, ResourceModifiedError, ResourceNotFoundError

    try:
        call()
    except (ResourceExistsError, ResourceModifiedError):
        return False
    except ResourceNotFoundError as error:
        if getattr(error, "error_code", None) == "ContainerNotFound":
            raise
        return False
    return True


def _delete(blob: BlobClient) -> None:
    from azure.core.exceptions import ResourceNotFoundError

    with suppress(ResourceNotFoundError):
        blob.delete_blob()


def _holder(blob: BlobProperties) -> str | None:
    """Who holds a partition; an empty text if somebody does who has not said who."""
    if blob.lease.status != "locked":
        return None
    return unquote((blob.metadata or {}).get("holder", ""))


def _asking(blob: BlobProperties) -> Asking:
    wanted, *held = map(int, (blob.metadata or {})["asking"].split())
    return Asking(unquote(blob.name.rpartition("/")[2]), wanted, tuple(held))
