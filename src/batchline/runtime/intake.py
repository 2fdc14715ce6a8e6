"""What a consumer takes messages from: a timeline that it asks, or a service that pushes them."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Protocol, runtime_checkable

from batchline.core.message import Lease, LeasedMessage, Outcome

__all__ = ["Finished", "Intake", "Pushing"]

#: Messages that are done, each with the lease that it has by now.
Finished = Sequence[tuple[LeasedMessage, Lease]]


class Intake(Protocol):
    """Where messages come from, and where their ends are told. Whatever does not answer raises what says so:
    StoreError, Degraded, ServiceUnavailable or Overloaded; then the call is repeated after a pause."""

    @property
    def lease_ms(self) -> int:
        """How long a lease is; known once `resume` was called."""

    def now_ms(self) -> int:
        """What the clock shows by which leases end."""

    def on_arrival(self, wake: Callable[[], None]) -> None:
        """Have `wake` called, in the loop's thread, when there is something to take or to look after."""

    async def resume(self) -> list[LeasedMessage]:
        """Take part. Return what the consumer had leased before it was started again."""

    async def take(self, most: int) -> list[LeasedMessage]:
        """Return at most `most` due messages, and those that it held before.

        Raises ConsumerReplaced once another process is the consumer.
        """

    async def until_due(self) -> float:
        """For how many seconds there is nothing to take, as far as is known."""

    async def extend(self, leases: Sequence[Lease]) -> list[Outcome]:
        """Hold messages for a lease from now on."""

    async def release(self, leases: Sequence[Lease], after: timedelta | None, reason: str) -> list[Outcome]:
        """Give messages back, due after a span by the broker's clock, or at once."""

    async def done(self, finished: Finished) -> list[Outcome]:
        """Finish messages."""

    async def beat(self, speed: float) -> list[LeasedMessage]:
        """Say that the consumer is there, and how many messages a second it has done.

        Return what other processes have left that were this consumer and have ended. Raises ConsumerReplaced once
        another process is the consumer.
        """

    async def enough(self) -> None:
        """Take no more: what has come and was not taken is given back."""

    async def leave(self) -> None:
        """Take part no more."""

    def abort(self) -> None:
        """Let go of what is still open, without a word; again changes nothing."""

    def hurry(self) -> None:
        """Repeat no call for long from now on: the process is about to end."""

    def pause_s(self) -> float:
        """How long to wait before what did not answer is asked again."""


@runtime_checkable
class Pushing(Protocol):
    """What pushes messages: a client of the service."""

    def subscription(self, topic: str, consumer: str, *, prefetch: int, duration: timedelta | None) -> Intake:
        """Messages of a topic for a consumer, at most `prefetch` of them unfinished, each leased for so long."""
