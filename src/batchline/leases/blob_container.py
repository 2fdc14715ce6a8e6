"""The way to a container of blobs in Azure: its name is checked, and Azure's errors are translated, here."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from batchline.errors import InvalidName, InvalidStore, MissingExtra, StoreError, StoreUnavailable, shown
from batchline.stores.address import check_characters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from azure.storage.blob import ContainerClient

__all__ = ["blob_part", "connect", "shown_place", "translated"]

#: Two attempts, at most so long each: an account that does not answer is known in about four seconds.
ATTEMPT_S: Final = 2
CONTAINER: Final = re.compile(r"(?!.*--)[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
#: Of 1,024 characters of a blob's name; there may be two such parts.
LONGEST_PART: Final = 500
#: The account does not answer as it should; it may later.
LATER: Final = (408, 429, 500, 502, 503, 504)


def connect(account_url: str, container: object, credential: Any) -> ContainerClient:
    """A client that connects when it is first used."""
    try:
        # Not on top: whoever does not use Azure neither has it nor waits for it.
        from azure.storage.blob import ContainerClient, LinearRetry
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "leases in Azure need azure-storage-blob, which is not installed: pip install 'batchline[azure]'"
        ) from error
    if not isinstance(container, str) or not CONTAINER.fullmatch(container):
        raise InvalidStore(
            "a container's name must have 3 to 63 lower-case letters, digits and single hyphens, "
            f"got {shown(container)}"
        )
    if isinstance(account_url, str):
        check_characters(account_url)
    try:
        return ContainerClient(
            account_url,
            container,
            credential=credential,
            connection_timeout=ATTEMPT_S,
            read_timeout=ATTEMPT_S,
            retry_policy=LinearRetry(backoff=0, random_jitter_range=0, retry_total=1),
        )
    except (ValueError, TypeError, AttributeError):
        # Without what was said of it, which may be a piece of a key.
        raise InvalidStore(
            f"expected https://account.blob.core.windows.net and a key or a SAS token, got {shown_place(account_url)}"
        ) from None


def shown_place(account_url: object, container: str = "") -> str:
    """Where a container is, as people may see it: without a SAS token."""
    if not isinstance(account_url, str):
        return shown(account_url)
    parts = urlsplit(account_url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}".rstrip("/") + (f"/{container}" if container else "")


def blob_part(what: str, name: str) -> str:
    """A name as a part of a blob's name, from which it can be read again."""
    part = quote(name, safe="")
    if not name.strip("."):
        part = part.replace(".", "%2E")  # a part of dots alone would be a way back
    if len(part) > LONGEST_PART:
        raise InvalidName(
            f"{what} must have at most {LONGEST_PART} characters, percent-encoded, to be a blob's name in Azure, "
            f"got {len(part):,}: {name[:40]!r}"
        )
    return part


@contextmanager
def translated(where: str) -> Iterator[None]:
    """What Azure's library raises, as an error of ours that names the container."""
    from azure.core import exceptions

    # Not chained: some of these quote the address that was asked, and with it a SAS token.
    try:
        yield
    except (exceptions.ServiceRequestError, exceptions.ServiceResponseError) as error:
        raise StoreUnavailable(f"Azure at {where} does not answer: {_code(error)}") from None
    except exceptions.HttpResponseError as error:
        if error.status_code in (401, 403):
            raise StoreError(f"Azure at {where} does not let us in: {_code(error)}") from None
        if error.status_code in LATER:
            raise StoreUnavailable(f"Azure at {where} cannot do it now: {_code(error)}") from None
        if _code(error) == "ContainerNotFound":
            raise StoreError(f"there is no container {where}: provision() makes it") from None
        raise StoreError(f"Azure at {where} could not do it: {_code(error)}") from None
    except exceptions.AzureError as error:
        raise StoreError(f"Azure at {where} could not be asked: {_code(error)}") from None


def _code(error: Any) -> str:
    """What went wrong, in Azure's word for it."""
    code = getattr(error, "error_code", None) or getattr(error, "reason", None)
    inner = getattr(error, "inner_exception", None)
    return str(getattr(code, "value", code) or type(inner or error).__name__)
