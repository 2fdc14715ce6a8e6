"""The check of histories refuses what must not happen: a check that accepts everything would show nothing."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from batchline.core.message import Lease
from tests.stores.events import DEAD, KEEP_MS, LINE, LIVE_FOR_MS, MAX_ATTEMPTS, Event, Record, SessionEvent
from tests.stores.history import check_history

ID, BUNDLE = "chosen-1", 7


class Story:
    """Calls for one id, one after the other, each at its second and its millisecond."""

    def __init__(self) -> None:
        self.record = Record()
        self.now_ms = 1_000

    def call(self, verb: str, outcome: str, at_ms: int = 0, *, topic: str = LINE, id: str = ID, **more: Any) -> "Story":
        self.now_ms += 1
        begun = float(self.now_ms)
        event = Event("actor", verb, begun, begun + 0.5, self.now_ms, topic, id, outcome, at_ms)
        self.record.events.append(event._replace(**more))
        return self

    def create(self, outcome: str = "created", bundle: int = BUNDLE, body: bytes = b"body", **more: Any) -> "Story":
        return self.call("create", outcome, 1_000, body=body, group="ours", bundle=bundle, **more)

    def owner(self, verb: str, outcome: str, at_ms: int = 0) -> "Story":
        return self.call(verb, outcome, at_ms, group="ours")

    def lease(self, version: int, at_ms: int, attempts: int = 1, verb: str = "lease", **more: Any) -> "Story":
        given = token(version)._replace(topic=more.get("topic", LINE))
        leased: dict[str, Any] = {"lease": given, "attempts": attempts, "body": b"body", "bundle": BUNDLE}
        return self.call(verb, "leased", at_ms, **(leased | more))

    def use(self, verb: str, outcome: str, version: int) -> "Story":
        return self.call(verb, outcome, token=token(version))

    def wait(self, ms: int) -> "Story":
        self.now_ms += ms
        return self

    def prune(self) -> "Story":
        self.wait(KEEP_MS)
        return self.call("prune", "pruned", self.now_ms + 2 - KEEP_MS, id="")

    def session(self, verb: str, number: int, process: int = 1) -> "Story":
        begun = float(self.now_ms)
        self.record.sessions.append(SessionEvent(verb, number, begun, begun, self.now_ms, process))
        return self


def token(version: int) -> Lease:
    """The lease of a version; those of a message that is leased too often have run out."""
    return Lease(LINE, ID, version, "worker", 9_000 if version > MAX_ATTEMPTS + 1 else 2_000 + version, BUNDLE, 1, 0)


def leased() -> Story:
    return Story().create().lease(2, 1_000)


def exhausted() -> Story:
    story = Story().create()
    story.now_ms = 5_000
    for attempt in range(1, MAX_ATTEMPTS + 1):
        story.lease(attempt + 1, 1_000 if attempt == 1 else 2_000 + attempt, attempt)
    return story


ACCEPTED: Sequence[Callable[[], Story]] = [
    lambda: leased().use("done", "done", 2).use("done", "done", 2),
    lambda: (
        leased().use("done", "done", 2).create("exists", 8).prune().create("created", 9).owner("cancel", "cancelled")
    ),
    lambda: leased().use("done", "done", 2).wait(KEEP_MS - 1).create(bundle=9).owner("cancel", "cancelled"),
    lambda: Story().create().owner("cancel", "cancelled").create(bundle=8, body=b"new").owner("cancel", "cancelled"),
    lambda: (
        Story().create().owner("cancel", "cancelled").owner("cancel", "cancelled").prune().owner("cancel", "unknown")
    ),
    lambda: leased().use("release", "released", 2).use("release", "released", 2).owner("cancel", "cancelled"),
    lambda: leased().owner("move", "leased").use("extend", "lost", 1).use("done", "done", 2),
    lambda: exhausted().lease(7, 5_000 + MAX_ATTEMPTS, 1, topic=DEAD).call("done", "done", topic=DEAD, token=token(7)),
    lambda: (
        Story()
        .create()
        .session("attend", 5)
        .lease(2, 1_000, session=5)
        .session("end", 5)
        .session("attend", 6)
        .lease(3, 2_002, 2, "take_over", session=6)
        .use("done", "lost", 2)
        .use("done", "done", 3)
    ),
]

REFUSED: dict[str, Callable[[], Story]] = {
    "neither done nor cancelled": leased,
    "leased, and never created": lambda: Story().lease(2, 1_000).use("done", "done", 2),
    "leased early": lambda: Story().create().owner("move", "moved", 9_999).lease(3, 9_999).use("done", "done", 3),
    "two leases at once": lambda: leased().lease(3, 2_002, 2).use("done", "done", 3),
    "two leases of one version": lambda: leased().lease(2, 1_000).use("done", "done", 2),
    "done, and leased again": lambda: leased().use("done", "done", 2).lease(3, 2_002, 2),
    "done with a lease that was released": lambda: leased().use("release", "released", 2).use("done", "done", 2),
    "exists after a cancel": lambda: Story().create().owner("cancel", "cancelled").create("exists", 8),
    "conflict after a cancel": lambda: Story().create().owner("cancel", "cancelled").create("conflict", 8),
    "exists with another body": lambda: Story().create().create("exists", 8, b"other").owner("cancel", "cancelled"),
    "created twice": lambda: Story().create().create(bundle=8).owner("cancel", "cancelled"),
    "created anew while the id is kept": lambda: (
        leased().use("done", "done", 2).wait(KEEP_MS - 2).create(bundle=8).owner("cancel", "cancelled")
    ),
    "exists when the id is kept no longer": lambda: (
        leased().use("done", "done", 2).wait(KEEP_MS - 1).create("exists", 8)
    ),
    "a repeated cancel is unknown": lambda: Story().create().owner("cancel", "cancelled").owner("cancel", "unknown"),
    "a repeated release is lost": lambda: (
        leased().use("release", "released", 2).use("release", "lost", 2).owner("cancel", "cancelled")
    ),
    "cancelled in a lease": lambda: leased().owner("cancel", "cancelled"),
    "read as unknown": lambda: Story().create().owner("read", "unknown").owner("cancel", "cancelled"),
    "leased too often": lambda: exhausted().lease(6, 2_000 + MAX_ATTEMPTS, 5).use("done", "done", 6),
    "taken from a live session": lambda: (
        Story()
        .create()
        .session("attend", 5)
        .lease(2, 1_000, session=5)
        .session("attend", 6)
        .lease(3, 2_002, 2, "take_over", session=6)
        .use("done", "done", 3)
    ),
    "taken by another consumer": lambda: (
        Story()
        .create()
        .lease(2, 1_000, lease=token(2)._replace(consumer="other"))
        .lease(3, 2_002, 2, "take_over", session=6)
        .use("done", "done", 3)
    ),
    "a live session is ended by another": lambda: (
        leased().session("attend", 5).session("end", 5, process=2).use("done", "done", 2)
    ),
}


@pytest.mark.parametrize("number", range(len(ACCEPTED)))
def test_what_may_happen_is_accepted(number: int) -> None:
    check_history("", ACCEPTED[number]().record)


@pytest.mark.parametrize("story", REFUSED.values(), ids=REFUSED)
def test_what_must_not_happen_is_refused(story: Callable[[], Story]) -> None:
    with pytest.raises(AssertionError):
        check_history("", story().record)


def test_a_session_that_is_silent_may_be_taken_from() -> None:
    story = Story().create().session("attend", 5).lease(2, 1_000, session=5)
    story.now_ms += LIVE_FOR_MS
    story.session("attend", 6).lease(3, 2_002, 2, "take_over", session=6).use("done", "done", 3)
    check_history("", story.record)


@pytest.mark.parametrize("leased", ["ab", "ba"])
def test_messages_of_one_call_are_leased_in_order_of_creation(leased: str) -> None:
    record = Record()
    for place, id in enumerate("ab"):
        created = Event("p", "create", 1, 2, 1_000, LINE, id, "created", 1_000, body=b"", bundle=BUNDLE, place=place)
        record.events.append(created)
    for id in leased:
        given = token(2)._replace(id=id)
        found = Event("c", "lease", 3, 4, 1_001, LINE, id, "leased", 1_000, lease=given, attempts=1, bundle=BUNDLE)
        record.events += [found, Event("c", "done", 5, 6, 1_002, LINE, id, "done", token=given)]
    if leased == "ab":
        check_history("", record)
    else:
        with pytest.raises(AssertionError, match="created as 1 and 0 of one call"):
            check_history("", record)
