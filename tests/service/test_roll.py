"""Who has a socket here, in virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import pytest

from batchline import NewMessage, Store, Timeline, open_store
from batchline.core.session import Standing
from batchline.errors import (
    BatchlineError,
    ConsumerReplaced,
    InvalidCount,
    InvalidName,
    StoreUnavailable,
    TopicDeleted,
    UnknownTopic,
)
from batchline.runtime.consumer_session import ConsumerSession
from batchline.runtime.tokens import Tokens
from batchline.runtime.virtual_time import run_virtually, virtual_seconds, virtual_wall_us
from batchline.service.roll import Roll
from batchline.stores.timeline_rows import ConsumerRow
from batchline.wire.push import Close
from tests.doubles import HandClock


class HasTimeline(Protocol):
    """What a socket is opened on."""

    @property
    def timeline(self) -> Timeline: ...


class OneSocket:
    """A socket as the roll knows it."""

    def __init__(
        self,
        parts: "HasTimeline",
        consumer: str,
        token_id: str | None = None,
        topic: str = "jobs",
        session: int | None = None,
    ) -> None:
        self.topic, self.consumer, self.token_id = topic, consumer, token_id
        self.session = ConsumerSession(parts.timeline, topic, consumer, number=session, process="")
        self.retired = 0
        self.standings: list[Standing] = []
        self.ended = asyncio.Event()
        self.told: list[tuple[int, type[BatchlineError]]] = []
        self.swept = 0

    def seen(self, now_ms: int) -> ConsumerRow:
        return ConsumerRow(self.consumer, now_ms, 7, 2.5)

    def sweep(self, now_ms: int) -> None:
        self.swept = now_ms

    def retire(self, error: ConsumerReplaced) -> None:
        assert "give each process a name of its own" in str(error)
        self.retired += 1

    async def stand(self, standing: Standing) -> None:
        self.standings.append(standing)

    def end(self, code: int, error: BatchlineError) -> None:
        self.told.append((code, type(error)))
        self.ended.set()


class Scene:
    def __init__(self) -> None:
        self.store = open_store("memory://")
        self.timeline = Timeline(self.store, clock=virtual_wall_us)
        self.tokens = Tokens(self.store, virtual_wall_us)
        self.timeline.create_topic("jobs")
        self.calls = 0
        self.away: BatchlineError | None = None
        self.roll = Roll(self.timeline, self.tokens, self.in_thread)

    async def in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        self.calls += 1
        if self.away is not None:
            raise self.away
        return work(*arguments)

    async def enter(self, one: OneSocket) -> None:
        """Begin a session, and enter the roll with it."""
        one.session.begin()
        await self.roll.enter(one)

    def seen(self) -> list[str]:
        return [row.consumer for row in self.timeline.consumers("jobs")]


def play(story: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    async def begin() -> None:
        await story(Scene())

    run_virtually(begin(), inline=True)


def test_consumers_are_seen_as_long_as_they_have_a_socket_in_few_calls_however_many_they_are() -> None:
    async def story(scene: Scene) -> None:
        sockets = [OneSocket(scene, f"c{number:03d}") for number in range(200)]
        for one in sockets:
            await scene.enter(one)
        entered = scene.calls
        await asyncio.sleep(300)
        assert scene.seen() == [one.consumer for one in sockets]
        assert scene.calls - entered == pytest.approx(60 + 30 + 30, abs=3)
        assert all(one.swept for one in sockets)
        (row, *_) = scene.timeline.consumers("jobs")
        assert (row.drift_ms, row.messages_per_second) == (7, 2.5)
        for one in sockets:
            await scene.roll.leave(one, is_over=True)
        assert scene.seen() == []
        calls = scene.calls
        await asyncio.sleep(300)
        assert scene.calls == calls

    play(story)


def test_an_older_socket_makes_room_and_does_not_take_the_newer_one_along() -> None:
    async def story(scene: Scene) -> None:
        older = OneSocket(scene, "c")
        await scene.enter(older)
        newer = OneSocket(scene, "c", session=older.session.number)
        await scene.enter(newer)
        assert [code for code, _ in older.told] == [Close.REPLACED]
        await scene.roll.leave(older, is_over=True)
        assert scene.seen() == ["c"]
        assert len(scene.roll) == 1
        await scene.roll.leave(newer, is_over=True)
        assert scene.seen() == []

    play(story)


def test_an_older_session_retires_and_leaves_the_newer_one_there() -> None:
    async def story(scene: Scene) -> None:
        older, newer = OneSocket(scene, "c"), OneSocket(scene, "c")
        await scene.enter(older)
        await scene.enter(newer)
        assert (older.retired, older.told, newer.retired) == (1, [], 0)
        await asyncio.sleep(11)
        assert [one.replaced for one in older.standings] == [True]
        assert [(one.replaced, len(one.others)) for one in newer.standings] == [(False, 1)]
        await scene.roll.leave(older, is_over=True)
        assert scene.seen() == ["c"]
        await asyncio.sleep(10)
        assert [len(one.others) for one in newer.standings] == [1, 0]
        await scene.roll.leave(newer, is_over=True)


def test_a_session_that_is_not_over_counts_as_alive_for_a_while() -> None:
    async def story(scene: Scene) -> None:
        lost = OneSocket(scene, "c")
        await scene.enter(lost)
        await scene.roll.leave(lost, is_over=False)
        next_one = OneSocket(scene, "c")
        await scene.enter(next_one)
        await asyncio.sleep(45)
        assert [len(one.others) for one in next_one.standings] == [1, 1, 1, 0]
        await scene.roll.leave(next_one, is_over=True)

    play(story)


def test_a_token_that_is_revoked_or_expires_is_noticed_within_ten_seconds() -> None:
    async def story(scene: Scene) -> None:
        revoked, short = scene.tokens.create(admin=True), scene.tokens.create(expires=timedelta(seconds=60))
        first, second = OneSocket(scene, "a", revoked[0].id), OneSocket(scene, "b", short[0].id)
        await scene.enter(first)
        await scene.enter(second)
        await asyncio.sleep(30.001)
        Tokens(scene.store, virtual_wall_us).revoke(revoked[0].id)  # by another process
        begin = virtual_seconds()
        await first.ended.wait()
        assert virtual_seconds() - begin <= 10.1
        assert (second.told, first.told[0][0]) == ([], Close.POLICY)
        await asyncio.wait_for(second.ended.wait(), 40)
        for one in (first, second):
            await scene.roll.leave(one, is_over=True)

    play(story)


def test_a_socket_of_the_time_before_there_were_tokens_ends_when_there_are() -> None:
    async def story(scene: Scene) -> None:
        one = OneSocket(scene, "c")
        await scene.enter(one)
        await asyncio.sleep(60)
        assert one.told == []
        Tokens(scene.store, virtual_wall_us).create(admin=True)
        await asyncio.wait_for(one.ended.wait(), 11)
        assert one.told[0][0] == Close.POLICY
        await scene.roll.leave(one, is_over=True)

    play(story)


def test_nobody_loses_a_socket_while_the_store_is_away_and_all_do_when_the_topic_is_deleted() -> None:
    async def story(scene: Scene) -> None:
        one = OneSocket(scene, "c")
        await scene.enter(one)
        scene.away = StoreUnavailable("away")
        await asyncio.sleep(60)
        scene.away = None
        assert one.told == []
        scene.timeline.create("jobs", [NewMessage()], producer_group="p")
        scene.timeline.delete_topic("jobs")
        await asyncio.wait_for(one.ended.wait(), 11)
        assert one.told[0] == (Close.TOPIC, TopicDeleted)
        await scene.roll.leave(one, is_over=True)

    play(story)


def test_who_cannot_enter_is_not_there() -> None:
    async def story(scene: Scene) -> None:
        with pytest.raises(UnknownTopic):
            await scene.enter(OneSocket(scene, "c", topic="nowhere"))
        assert len(scene.roll) == 0

    play(story)


@pytest.fixture(params=["memory", "sqlite", "postgresql", "mariadb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param in ("memory", "sqlite"):
        return open_store("memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'batchline.db'}")
    return open_store(request.getfixturevalue(f"{request.param}_database"))


def test_those_for_whom_somebody_leases_are_seen_and_have_all_buckets(store: Store) -> None:
    clock = HandClock()
    with store:
        timeline = Timeline(store, clock=clock)
        timeline.create_topic("jobs")
        assert timeline.next_due("jobs") is None
        now_ms = timeline.now_ms()
        timeline.attend("jobs", [ConsumerRow(name, now_ms, 0, 1.0) for name in "abc"])
        assert [row.consumer for row in timeline.consumers("jobs")] == [*"abc"]
        later = NewMessage(at=now_ms + 500)
        timeline.create("jobs", [NewMessage(id=f"m{n}") for n in range(20)] + [later], producer_group="p")
        assert timeline.next_due("jobs") == now_ms
        assert len(timeline.lease("jobs", "a", limit=20)) == 20
        assert timeline.next_due("jobs") == now_ms + 500
        with pytest.raises(InvalidName):
            timeline.attend("jobs", [ConsumerRow("", now_ms, 0, 1.0)])
        with pytest.raises(InvalidCount):
            timeline.attend("jobs", [ConsumerRow("a", now_ms, 0, -1.0)])


def test_a_beat_that_fails_is_shown_until_a_beat_succeeds_and_other_topics_are_seen() -> None:
    async def story(scene: Scene) -> None:
        timeline: Any = scene.timeline
        timeline.create_topic("other")
        good, attend = OneSocket(scene, "good", topic="other"), timeline.attend_sessions
        for one in (OneSocket(scene, "bad"), good):
            await scene.enter(one)
        timeline.attend_sessions = lambda topic, rows: 1 // 0 if topic == "jobs" else attend(topic, rows)
        await asyncio.sleep(11)
        shown = 0
        for _ in range(120):
            await asyncio.sleep(0.5)
            shown += [one.loop for one in scene.roll.supervisor.troubles()] == ["sockets"]
        assert shown == 120
        assert len(good.standings) > 5
        assert timeline.consumers("other")[0].seen_ms > timeline.now_ms() - 10_000
        timeline.attend_sessions = attend
        await asyncio.sleep(11)
        assert scene.roll.supervisor.troubles() == []

    play(story)
