"""What a sink is: a class with one method."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping, Sequence

from batchline.core.consignment import Consignment
from batchline.errors import DeliveryError

__all__ = ["Answer", "Sink"]

#: Of the parcels that did not arrive, by id, why; None, or nothing, if all did.
Answer = Mapping[str, DeliveryError] | None


class Sink(ABC):
    """Where parcels go. It is given one or several, no two of a lane, and says what became of them."""

    #: How many parcels it takes at once.
    most: int = 1

    @abstractmethod
    def send(self, parcels: Sequence[Consignment]) -> Awaitable[Answer] | Answer:
        """Deliver parcels: by an async function, or by a plain one, which is run in a thread.

        A parcel may come again that has arrived before: its id tells. What it raises holds for all of them:
        Throttled, Undelivered, RefusedParcel, PartlyDelivered; anything else counts as Undelivered.
        """

    async def close(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Let go of what is open."""
