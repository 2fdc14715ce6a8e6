"""What proves that publishing created a parcel, by lane: read from the store when a lane is seen first."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from batchline.core.consignment import Consignment
from batchline.core.message import LeasedMessage
from batchline.core.signature import LaneProof
from batchline.core.stray import stray_reason

__all__ = ["LaneProofs"]

Key = tuple[str, int]
Proofs = Mapping[Key, LaneProof]
#: Lanes that are remembered.
MOST_KNOWN: Final = 10_000


class LaneProofs:
    """The proofs of the lanes of a topic, for one event loop."""

    def __init__(self, read: Callable[[set[str]], Proofs]) -> None:
        """`read` looks at the store, for all lanes of these publications; it is called in a thread."""
        self._read = read
        self._known: dict[Key, LaneProof] = {}
        #: The publications that the next look is for, and that look.
        self._wanted: set[str] = set()
        self._next: asyncio.Future[Proofs] | None = None
        self._one_at_a_time = asyncio.Lock()

    async def reason(self, message: LeasedMessage, head: Consignment) -> str:
        """Return why a message is a stray, by the head of its parcel; nothing if publishing created it.

        What is not proved by what is remembered is looked up: the topic may have been made anew.
        """
        key = (head.publication, head.lane)
        known = self._known.get(key)
        if known is not None and not stray_reason(message, head, known):
            return ""
        return stray_reason(message, head, (await self._look(head.publication)).get(key))

    async def _look(self, publication: str) -> Proofs:
        """Look at the store, together with all others that wait for the next look."""
        self._wanted.add(publication)
        if self._next is None:
            self._next = asyncio.ensure_future(self._look_once())
            # Its error is raised to those that wait, if any still does.
            self._next.add_done_callback(lambda look: look.cancelled() or look.exception())
        return await asyncio.shield(self._next)

    async def _look_once(self) -> Proofs:
        async with self._one_at_a_time:
            wanted, self._wanted, self._next = self._wanted, set(), None
            found = await asyncio.to_thread(self._read, wanted)
        if len(self._known) + len(found) > MOST_KNOWN:
            self._known.clear()
        self._known.update(found)
        return found
