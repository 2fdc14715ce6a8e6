"""A consumer's session: what tells its process apart from others that run under the same name."""

from datetime import timedelta

from batchline.core.message import LeasedMessage, LeasesPage
from batchline.core.session import RESUMES, SessionRow, Standing, replaced, resumed_from
from batchline.runtime.process_name import has_ended, process_name
from batchline.runtime.timeline import Timeline
from batchline.stores.fresh_numbers import fresh_number, number_after

__all__ = ["ConsumerSession"]


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
        """A new session of this process; or one of a process elsewhere, which goes on with the session of a number."""
        self._timeline, self._topic, self._consumer, self._lease = timeline, topic, consumer, lease
        self._process = process
        self._others: tuple[SessionRow, ...] = ()
        #: The session that it goes on with; None if it is new.
        self.resumes = number
        #: Whether the last take-over found something: it takes over a limited number of bytes, and there may be more.
        self._has_more = False
        #: Zero until it has begun.
        self.number = 0

    def begin(self) -> list[LeasedMessage]:
        """Become the consumer. Return what the session holds: what ended sessions had leased, under new leases.

        It can be repeated after an error. Raises ConsumerReplaced if a session that goes on is not the newest; it has
        its leases then all the same, so that it can finish them.
        """
        self.enter()
        return self.held()

    def enter(self) -> None:
        """Do as `begin`, but read nothing of what it holds: `held_page` does that in parts."""
        if self.resumes is not None:
            self.number = self._timeline.resume_session(self._topic, self.row(self.resumes))
        elif not self.number:
            self.number = fresh_number(self._timeline.clock.checked_ms(), RESUMES)
        standing = self._attend()
        if standing.replaced and self.resumes is None:  # the others' clock is ahead of this one
            self._timeline.end_session(self._topic, self._consumer, self.number)
            self.number = number_after(max(other.session for other in standing.others) + RESUMES)
            standing = self._attend()
        if standing.replaced:
            raise replaced(self._consumer)
        while self._take_over(standing):
            pass

    def beat(self, *, takes_over: bool = True) -> list[LeasedMessage]:
        """Say that the session is alive. If it `takes_over`, return the messages of sessions that ended meanwhile.

        Raises ConsumerReplaced once a newer session is the consumer.
        """
        return self.stand(self._attend(), takes_over=takes_over)

    def stand(self, standing: Standing, *, takes_over: bool = True) -> list[LeasedMessage]:
        """As `beat`, by what the store has answered already."""
        if standing.replaced:
            raise replaced(self._consumer)
        if takes_over and (self._others or self._has_more):
            return self._take_over(standing)
        self._others = standing.others
        return []

    def goes_on_with(self, number: int) -> bool:
        """Whether this session has the leases of another by now, because its client has connected again."""
        return self.resumes is not None and number in resumed_from(self.resumes)

    def end(self) -> None:
        """Leave the topic, unless another session is the consumer."""
        if self.number:
            is_resumed = self.resumes is not None
            self._timeline.end_session(self._topic, self._consumer, self.number, is_resumed=is_resumed)

    def held(self) -> list[LeasedMessage]:
        """List what the session itself has leased and not finished."""
        return self._timeline.my_leases(self._consumer, topic=self._topic, session=self.number)

    def held_page(self, after: str | None = None) -> LeasesPage:
        """List a part of what the session itself has leased and not finished: `after` is the `next` of the last."""
        return self._timeline.leases_page(self._consumer, topic=self._topic, session=self.number, after=after)

    def row(self, number: int | None = None) -> SessionRow:
        """Describe it as it is now, by its number or another."""
        if self._process is None:  # not when it is built: a daemon may fork after that
            self._process = process_name()
        return SessionRow(self._consumer, number or self.number, self._timeline.now_ms(), self._process)

    def _attend(self) -> Standing:
        (standing,) = self._timeline.attend_sessions(self._topic, [self.row()])
        return standing

    def _take_over(self, standing: Standing) -> list[LeasedMessage]:
        ended = [other for other in standing.others if has_ended(other.process)]
        for other in ended:
            self._timeline.end_session(self._topic, self._consumer, other.session)
        self._others = tuple(other for other in standing.others if other not in ended)
        found = self._timeline.take_over(self._topic, self._consumer, self.number, duration=self._lease)
        self._has_more = bool(found)
        return found
