"""A consumer's session: what tells its process apart from others that run under the same name."""

from datetime import timedelta

from batchline.core.message import LeasedMessage
from batchline.core.session import SessionRow, Standing
from batchline.errors import ConsumerReplaced
from batchline.runtime.process_name import has_ended, process_name
from batchline.runtime.timeline import Timeline
from batchline.stores.fresh_numbers import fresh_number, number_after

__all__ = ["ConsumerSession", "replaced"]


def replaced(consumer: str) -> ConsumerReplaced:
    """Say that a consumer was started elsewhere under the same name."""
    return ConsumerReplaced(
        f"consumer {consumer!r} was started again by another process, so this one takes no more messages: "
        "give each process a name of its own, or stop the old one first"
    )


class ConsumerSession:
    """One for each run of a consumer. Calls wait for the store."""

    def __init__(
        self,
        timeline: Timeline,
        topic: str,
        consumer: str,
        *,
        lease: timedelta | None = None,
        number: int | None = None,
        process: str | None = None,
    ) -> None:
        """A new session of this process; or one that goes on, by its number, of a process that is elsewhere."""
        self._timeline, self._topic, self._consumer, self._lease = timeline, topic, consumer, lease
        self._process = process
        self._others: tuple[SessionRow, ...] = ()
        self._is_new = number is None
        #: Zero until it has begun.
        self.number = number or 0

    def begin(self) -> list[LeasedMessage]:
        """Become the consumer. Return what the session holds: what ended sessions had leased, under new leases.

        It can be repeated after an error. Raises ConsumerReplaced if a session that goes on is not the newest.
        """
        if not self.number:
            self.number = fresh_number(self._timeline.now_ms(), 1)
        standing = self._attend()
        if standing.replaced and self._is_new:  # the others' clock is ahead of this one
            self._timeline.end_session(self._topic, self._consumer, self.number)
            self.number = number_after(max(other.session for other in standing.others))
            standing = self._attend()
        if standing.replaced:
            raise replaced(self._consumer)
        self._take_over(standing)
        return self.held()

    def beat(self, *, takes_over: bool = True) -> list[LeasedMessage]:
        """Say that the session is alive. If it `takes_over`, return the messages of sessions that ended meanwhile.

        Raises ConsumerReplaced once a newer session is the consumer.
        """
        return self.stand(self._attend(), takes_over=takes_over)

    def stand(self, standing: Standing, *, takes_over: bool = True) -> list[LeasedMessage]:
        """As `beat`, by what the store has answered already."""
        if standing.replaced:
            raise replaced(self._consumer)
        if takes_over and self._others:
            return self._take_over(standing)
        self._others = standing.others
        return []

    def end(self) -> None:
        """Leave the topic, unless another session is the consumer."""
        if self.number:
            self._timeline.end_session(self._topic, self._consumer, self.number)

    def held(self) -> list[LeasedMessage]:
        """List what the session itself has leased and not finished."""
        return self._timeline.my_leases(self._consumer, topic=self._topic, session=self.number)

    def row(self) -> SessionRow:
        """Describe it as it is now."""
        if self._process is None:  # not when it is built: a daemon may fork after that
            self._process = process_name()
        return SessionRow(self._consumer, self.number, self._timeline.now_ms(), self._process)

    def _attend(self) -> Standing:
        (standing,) = self._timeline.attend_sessions(self._topic, [self.row()])
        return standing

    def _take_over(self, standing: Standing) -> list[LeasedMessage]:
        ended = [other for other in standing.others if has_ended(other.process)]
        for other in ended:
            self._timeline.end_session(self._topic, self._consumer, other.session)
        self._others = tuple(other for other in standing.others if other not in ended)
        return self._timeline.take_over(self._topic, self._consumer, self.number, duration=self._lease)
