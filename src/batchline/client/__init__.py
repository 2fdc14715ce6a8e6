"""The tracker and the timeline from afar: the same verbs, over HTTP."""

from batchline.errors import MissingExtra

try:
    import httpx2 as _httpx2  # noqa: F401  # what else a client needs comes with the same extra
    import msgspec as _msgspec  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingExtra(f"a client needs {error.name}: pip install 'batchline[client]'") from error

from batchline.client.client import AsyncClient, Client

__all__ = ["AsyncClient", "Client"]
