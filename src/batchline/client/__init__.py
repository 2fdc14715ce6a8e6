"""The tracker and the timeline from afar: the same verbs, over HTTP."""

from batchline.client.client import AsyncClient, Client

__all__ = ["AsyncClient", "Client"]
