"""The sequential model of one id on a topic: what each call may be answered, given all calls before it.

    create ──▶ alive ──▶ done        the id is taken for the topic's `keep`
                     ──▶ cancelled   the id is free; a repeated cancel succeeds until the record is pruned
                     ──▶ buried      the id is free; the message goes on under the dead-letter topic

States are immutable, so that a search can try several orders of calls that overlapped.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from batchline.core.message import made_place
from tests.stores.events import DEAD, KEEP_MS, LINE, LIVE_FOR_MS, MAX_ATTEMPTS, Event, SessionEvent

__all__ = ["FREE", "Background", "Life", "next_life"]


class Life(NamedTuple):
    """The message that an id names, or named last."""

    #: The number of its bundle; zero if the id was never taken.
    bundle: int = 0
    group: str = ""
    body: bytes = b""
    at_ms: int = 0
    version: int = 1
    attempts: int = 0
    consumer: str | None = None
    session: int | None = None
    #: How it ended: done, cancelled, buried, or pruned once that was seen; empty while it is alive.
    ended: str = "pruned"
    ended_ms: int = 0
    #: Leases that were released, of this life and of those before: bundle and version.
    released: frozenset[tuple[int, int]] = frozenset()

    def is_leased(self, now_ms: int) -> bool:
        """Whether a lease is active."""
        return not self.ended and self.consumer is not None and self.at_ms > now_ms

    def is_held_by(self, event: Event) -> bool:
        """Whether the token of a call is the active lease."""
        token = event.token
        assert token is not None
        held = (self.bundle, self.version, self.consumer, self.at_ms)
        return held == (token.bundle, token.version, token.consumer, token.until_ms) and self.is_leased(event.now_ms)

    def is_kept(self, now_ms: int) -> bool:
        """Whether the message was done so shortly ago that its id is still taken."""
        return self.ended == "done" and now_ms < self.ended_ms + KEEP_MS

    def end(self, how: str, now_ms: int) -> "Life":
        """Let it end."""
        return self._replace(ended=how, ended_ms=now_ms, consumer=None, session=None)


FREE: Final = Life()


class Background:
    """What happened beside the calls for an id: prunes, sessions, and which lives were buried."""

    def __init__(self, prunes: Iterable[Event], sessions: Iterable[SessionEvent], buried: Iterable[int]):
        self.buried = frozenset(buried)
        self._begun: list[float] = []
        #: The latest end, exclusive, of what the prunes up to each one may have removed.
        self._before_ms: list[int] = []
        for prune in sorted(prunes, key=lambda event: event.begun):
            self._begun.append(prune.begun)
            self._before_ms.append(max(prune.at_ms, *self._before_ms[-1:], 0))
        self._sessions: dict[int, list[SessionEvent]] = {}
        for one in sessions:
            self._sessions.setdefault(one.session, []).append(one)

    def may_be_pruned(self, life: Life, event: Event) -> bool:
        """Whether the record of an ended life may have been removed before a call ended."""
        begun = bisect_right(self._begun, event.ended)
        return begun > 0 and life.ended_ms < self._before_ms[begun - 1]

    def is_alive(self, session: int, event: Event) -> bool:
        """Whether a session was certainly alive during a call."""
        known = [one for one in self._sessions.get(session, ()) if one.begun <= event.ended]
        if not known or any(one.verb == "end" for one in known):
            return False
        near = [abs(event.now_ms - one.seen_ms) <= LIVE_FOR_MS for one in known]
        return all(near[-2:]) and any(one.ended < event.begun for one in known)


Step = Callable[[Life, Event, Background], Life | None]


def next_life(life: Life, event: Event, beside: Background) -> Life | None:
    """What a call makes of a life; None if it cannot have been answered as it was."""
    return STEPS[event.verb](life, event, beside)


def _if(life: Life, holds: bool) -> Life | None:
    return life if holds else None


# --- producers --------------------------------------------------------------------------------------------------------


def _create(life: Life, event: Event, beside: Background) -> Life | None:
    if life.bundle and made_place(event.id):
        return _if(life, event.outcome in _made_again(life, event, beside))
    is_free = bool(life.ended) and not life.is_kept(event.now_ms)
    if event.outcome == "created":
        if not is_free and not (life.ended and beside.may_be_pruned(life, event)):
            return None
        return Life(event.bundle, event.group, event.body, event.at_ms, ended="", released=life.released)
    return _if(life, not is_free and event.outcome == _twin(life, event))


def _twin(life: Life, event: Event) -> str:
    return "exists" if (life.group, life.body) == (event.group, event.body) else "conflict"


def _made_again(life: Life, event: Event, beside: Background) -> set[str]:
    """What a call may be answered that names a made id again: it is never created anew."""
    is_free = life.ended not in ("", "buried") and not life.is_kept(event.now_ms)
    twin = "conflict" if is_free else _twin(life, event)
    # On the dead-letter topic it may be done by now. Once pruned, its bundle may be there, with other messages.
    is_gone = life.ended == "buried" or (life.ended and beside.may_be_pruned(life, event))
    return {twin, "conflict", "invalid"} if is_gone else {twin}


def _refusal(life: Life, event: Event) -> str | None:
    """Why an owner may not change the message."""
    if life.ended:
        return "unknown"
    if life.group != event.group:
        return "foreign"
    return "leased" if life.is_leased(event.now_ms) else None


def _move(life: Life, event: Event, _: Background) -> Life | None:
    refused = _refusal(life, event)
    if refused or event.outcome != "moved":
        return _if(life, event.outcome == refused)
    return life._replace(at_ms=event.at_ms, consumer=None, session=None, version=life.version + 1)


def _cancel(life: Life, event: Event, beside: Background) -> Life | None:
    if life.ended == "cancelled" and life.group == event.group:
        if event.outcome == "cancelled":
            return life
        pruned = event.outcome == "unknown" and beside.may_be_pruned(life, event)
        return life._replace(ended="pruned") if pruned else None
    refused = _refusal(life, event)
    if refused or event.outcome != "cancelled":
        return _if(life, event.outcome == refused)
    return life.end("cancelled", event.now_ms)


def _read(life: Life, event: Event, _: Background) -> Life | None:
    if life.ended or life.group != event.group:
        return _if(life, event.outcome == ("unknown" if life.ended else "foreign"))
    shown = (event.version, event.at_ms, event.attempts, event.body)
    return _if(life, event.outcome == "read" and shown == (life.version, life.at_ms, life.attempts, life.body))


# --- consumers --------------------------------------------------------------------------------------------------------


def _lease(life: Life, event: Event, _: Background) -> Life | None:
    return _taken(life, event) if life.at_ms <= event.now_ms else None


def _take_over(life: Life, event: Event, beside: Background) -> Life | None:
    """A newer session has taken the lease of one that is not alive; one without a session is taken by any."""
    if not life.is_leased(event.now_ms) or (life.consumer, life.session) == (event.consumer, event.session):
        return None
    if life.consumer != event.consumer or (life.session is not None and beside.is_alive(life.session, event)):
        return None
    return _taken(life, event)


def _taken(life: Life, event: Event) -> Life | None:
    lease = event.lease
    assert lease is not None
    exhausted = event.topic == LINE and life.attempts >= MAX_ATTEMPTS
    if life.ended or exhausted or (life.bundle, life.at_ms, life.body) != (lease.bundle, event.at_ms, event.body):
        return None
    if (lease.version, event.attempts) != (life.version + 1, life.attempts + 1):
        return None
    taken = life._replace(version=lease.version, attempts=event.attempts, at_ms=lease.until_ms)
    return taken._replace(consumer=lease.consumer, session=event.session)


def _extend(life: Life, event: Event, _: Background) -> Life | None:
    if not life.is_held_by(event):
        return _if(life, event.outcome == "lost")
    if event.outcome != "extended" or event.lease is None or event.lease.version != life.version + 1:
        return None
    return life._replace(version=event.lease.version, at_ms=event.lease.until_ms)


def _release(life: Life, event: Event, beside: Background) -> Life | None:
    assert event.token is not None
    token = (event.token.bundle, event.token.version)
    if life.is_held_by(event):
        if event.outcome != "released":
            return None
        back = life._replace(at_ms=max(event.at_ms, event.now_ms), version=life.version + 1, consumer=None)
        return back._replace(session=None, released=life.released | {token})
    if token not in life.released:
        return _if(life, event.outcome == "lost")
    is_gone = token[0] != life.bundle or (life.ended and beside.may_be_pruned(life, event))
    return _if(life, event.outcome == "released" or bool(is_gone))


def _done(life: Life, event: Event, beside: Background) -> Life | None:
    assert event.token is not None
    if life.is_held_by(event):
        return life.end("done", event.now_ms) if event.outcome == "done" else None
    is_gone = bool(life.ended) or event.token.bundle != life.bundle
    if is_gone and event.token.bundle in beside.buried:
        return life  # whether it is done by now, the dead-letter topic's history says
    return _if(life, event.outcome == ("done" if is_gone else "lost"))


def _bury(life: Life, event: Event, _: Background) -> Life | None:
    """What was leased too often left for the dead-letter topic, when it was due or its session had ended."""
    exhausted = not life.ended and life.attempts >= MAX_ATTEMPTS and life.bundle == event.bundle
    was_due = life.at_ms <= event.now_ms or life.session is not None
    if not exhausted or not was_due or event.version != life.version + 1:
        return None
    return life.end("buried", event.now_ms)


def _unbury(life: Life, event: Event, _: Background) -> Life | None:
    """The other end: it begins anew on the dead-letter topic."""
    assert event.topic == DEAD
    return life._replace(bundle=event.bundle, body=event.body, at_ms=event.now_ms, version=event.version, ended="")


STEPS: Final[Mapping[str, Step]] = {
    "create": _create,
    "move": _move,
    "cancel": _cancel,
    "read": _read,
    "lease": _lease,
    "lease_one": _lease,
    "take_over": _take_over,
    "extend": _extend,
    "release": _release,
    "done": _done,
    "bury": _bury,
    "unbury": _unbury,
}
