"""One consumer name at two service processes: they never hold the same message, whatever happens to them."""

import asyncio
import json
import os
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from socket import SHUT_RDWR
from typing import Any, NamedTuple

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from batchline import Consumer, LeasedMessage, Timeline, open_store
from batchline.client import Client
from batchline.core.message import read_lease
from batchline.errors import ConsumerReplaced
from batchline.wire.push import Close
from tests.benchmarks.service import served
from tests.doubles import leases_of_all_sessions, new_id
from tests.servers.database import fresh_mariadb, fresh_postgresql
from tests.service.serving import Place
from tests.service.test_push import closed, heard, pushed, put, say, socket
from tests.waiting import wait_until

HOUR = timedelta(hours=1)
FRESH = {"postgresql": fresh_postgresql, "mariadb": fresh_mariadb}


class Pair(NamedTuple):
    """Two processes of the service on one store, and the store itself."""

    store_url: str
    one: Place
    two: Place
    timeline: Timeline


@pytest.fixture(scope="module", params=["sqlite", "postgresql", "mariadb"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with ExitStack() as stack:
        if request.param == "sqlite":
            url = f"sqlite:///{tmp_path_factory.mktemp('pair') / 'batchline.db'}"
        else:
            url = stack.enter_context(FRESH[request.param](request.getfixturevalue(f"{request.param}_url")))
        timeline = Timeline(stack.enter_context(open_store(url)))
        places = [Place(stack.enter_context(served(url))[1]) for _ in range(2)]
        yield Pair(url, places[0], places[1], timeline)


@pytest.fixture
def topic(pair: Pair) -> str:
    return pair.timeline.create_topic(f"jobs-{new_id()}", lease=HOUR).name


@contextmanager
def third(pair: Pair) -> Iterator[tuple[subprocess.Popen[str], Place]]:
    """Another process of the service, to be killed or stopped."""
    with served(pair.store_url) as (process, address):
        try:
            yield process, Place(address)
        finally:
            process.kill()


def outcomes_of(opened: ClientConnection, verb: str, messages: list[dict[str, Any]]) -> list[str]:
    say(opened, verb, request=1, leases=[message["lease"] for message in messages])
    return [one["outcome"] for one in heard(opened, "outcomes")["outcomes"]]


def ends_as_replaced(opened: ClientConnection) -> bool:
    problem = heard(opened, "problem")["problem"]
    return problem["type"] == "/problems/ConsumerReplaced" and closed(opened) == Close.REPLACED


def test_an_older_session_at_another_process_gets_nothing_once_a_newer_one_was_greeted(pair: Pair, topic: str) -> None:
    put(pair.timeline, topic, 1)
    with socket(pair.one, topic) as older:
        heard(older, "subscribed")
        held = pushed(older, 1)
        with socket(pair.two, topic, "consumer=c&prefetch=0") as newer:
            assert heard(newer, "subscribed")["resumed"] == 0
            put(pair.timeline, topic, 1, first=1)  # only the older one has room for it
            assert outcomes_of(older, "done", held) == ["done"]
            assert ends_as_replaced(older)
            say(newer, "prefetch", prefetch=1)
            (message,) = pushed(newer, 1)
            assert (message["id"], message["attempts"]) == ("m1", 1)


def test_a_session_named_at_another_process_ends_its_socket_at_the_first_whose_tokens_are_void(
    pair: Pair, topic: str
) -> None:
    put(pair.timeline, topic, 3)
    with socket(pair.one, topic) as older:
        session = heard(older, "subscribed")["session"]
        old = pushed(older, 3)
        with socket(pair.two, topic, f"consumer=c&prefetch=3&session={session}") as newer:
            assert heard(newer, "subscribed")["resumed"] == 3
            new = pushed(newer, 3)
            assert {one["attempts"] for one in new} == {1}
            assert not {one["lease"] for one in old} & {one["lease"] for one in new}
            put(pair.timeline, topic, 1, first=3)
            assert outcomes_of(older, "extend", old) == ["lost"] * 3
            assert ends_as_replaced(older)
            void = [read_lease(one["lease"]) for one in old]
            for verb in (pair.timeline.release, pair.timeline.done):
                assert [one.outcome for one in verb(void)] == ["lost"] * 3
            assert outcomes_of(newer, "done", new) == ["done"] * 3
            assert [one["id"] for one in pushed(newer, 1)] == ["m3"]


def test_a_session_whose_service_was_killed_goes_on_at_another_with_the_same_attempts(pair: Pair, topic: str) -> None:
    put(pair.timeline, topic, 2)
    with third(pair) as (process, place), socket(place, topic) as opened:
        session = heard(opened, "subscribed")["session"]
        old = pushed(opened, 2)
        process.kill()
        with pytest.raises(ConnectionClosed):
            opened.recv(20)
    with socket(pair.two, topic, f"consumer=c&prefetch=3&session={session}") as again:
        assert heard(again, "subscribed")["resumed"] == 2
        new = pushed(again, 2)
        assert {one["attempts"] for one in new} == {1}
        assert [one.outcome for one in pair.timeline.done([read_lease(one["lease"]) for one in old])] == ["lost"] * 2
        assert outcomes_of(again, "done", new) == ["done"] * 2


# Not SQLite: a process that is frozen while it writes holds the only lock of the file.
@pytest.mark.parametrize("pair", ["postgresql", "mariadb"], indirect=True)
def test_a_service_that_was_frozen_pushes_nothing_to_a_session_that_went_on_elsewhere(pair: Pair, topic: str) -> None:
    put(pair.timeline, topic, 1)
    with third(pair) as (process, place), socket(place, topic, "consumer=c&prefetch=1") as frozen:
        session = heard(frozen, "subscribed")["session"]
        old = pushed(frozen, 1)
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        with socket(pair.two, topic, f"consumer=c&prefetch=1&session={session}", open_timeout=60) as again:
            heard(again, "subscribed")
            new = pushed(again, 1)
            put(pair.timeline, topic, 1, first=1)
            process.send_signal(signal.SIGCONT)
            assert outcomes_of(frozen, "done", old) == ["lost"]
            assert ends_as_replaced(frozen)
            assert outcomes_of(again, "done", new) == ["done"]
            assert [(one["id"], one["attempts"]) for one in pushed(again, 1)] == [("m1", 1)]


@pytest.mark.parametrize("first", ["embedded", "service"])
def test_a_rolling_update_between_processes_handles_each_message_once(pair: Pair, topic: str, first: str) -> None:
    """The old consumer is not told to stop: it learns that it was replaced, drains, and ends with an error."""
    handled: Counter[str] = Counter()
    by_new = 0

    async def update() -> None:
        is_replaced = asyncio.Event()

        async def handle_old(message: LeasedMessage) -> None:
            await is_replaced.wait()
            handled[message.id] += 1

        async def handle_new(message: LeasedMessage) -> None:
            nonlocal by_new
            handled[message.id] += 1
            by_new += 1

        with Client(pair.one.url) as one, Client(pair.two.url) as two:
            source = pair.timeline if first == "embedded" else one
            old = Consumer(source, topic, handle_old, consumer="w", concurrency=5)
            new = Consumer(two, topic, handle_new, consumer="w", concurrency=5)
            put(pair.timeline, topic, 5)
            older = asyncio.ensure_future(old.run())
            await until(lambda: old.in_hand == 5)
            newer = asyncio.ensure_future(new.run())
            await until(lambda: len(sessions_of(pair, topic)) == 2)
            put(pair.timeline, topic, 20, first=5)
            await until(lambda: by_new == 20)
            is_replaced.set()
            put(pair.timeline, topic, 20, first=25)
            with pytest.raises(ConsumerReplaced):
                await asyncio.wait_for(older, 60)
            await until(lambda: pair.timeline.count(topic).total == 0)
            new.stop()
            await asyncio.wait_for(newer, 60)

    asyncio.run(update())
    assert handled == {f"m{number}": 1 for number in range(45)}
    assert by_new == 40


def sessions_of(pair: Pair, topic: str) -> list[Any]:
    number = pair.timeline.topic(topic).number
    return pair.timeline._store.read(lambda rows: rows.sessions(number, 0))


async def until(wanted: Any) -> None:
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(wanted):
            await asyncio.sleep(0.01)


# --- at random --------------------------------------------------------------------------------------------------------


class OneSocket(NamedTuple):
    """A socket of the play."""

    number: int
    session: int
    connection: ClientConnection


class Play:
    """Sockets and requests under one name at two processes, by dice; notes all tokens, and who was given each."""

    def __init__(self, pair: Pair, topic: str, stack: ExitStack, seed: str) -> None:
        self._pair, self._topic, self._stack = pair, topic, stack
        self._dice = random.Random(seed)
        self._sockets: list[OneSocket] = []
        self._sessions: list[int] = []
        self._opened = self._created = 0
        #: Of each message the tokens, in the order in which they were heard of; of each token who was given it.
        self._tokens: dict[str, list[str]] = {}
        self._given: dict[str, str] = {}
        self._released: set[str] = set()
        self._done: set[str] = set()
        self.happened: Counter[str] = Counter()

    def step(self) -> None:
        """Do something."""
        steps = (self._create, self._open, self._go_on, self._cut, self._lease, self._show, *[self._act] * 6)
        self._dice.choice(steps)()

    def _place(self) -> Place:
        return self._dice.choice((self._pair.one, self._pair.two))

    def _ask(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        answer = httpx2.request(method, f"{self._place().url}/v1/{path}", timeout=60, **options)
        answer.raise_for_status()
        return dict(answer.json())

    def _note(self, messages: list[dict[str, Any]], holder: str) -> None:
        for one in messages:
            giver = self._given.setdefault(one["lease"], holder)
            assert giver == holder, f"{giver} and {holder} hold {one['id']} by the same token"
            if one["lease"] not in self._tokens.setdefault(one["id"], []):
                self._tokens[one["id"]].append(one["lease"])

    def _create(self) -> None:
        put(self._pair.timeline, self._topic, 3, first=self._created)
        self._created += 3

    def _open(self, session: str = "") -> None:
        opening = socket(self._place(), self._topic, f"consumer=c&prefetch=3{session}")
        connection = self._stack.enter_context(opening)
        self._opened += 1
        greeting = heard(connection, "subscribed")
        self.happened["resumed" if session and greeting["resumed"] else "opened"] += 1
        self._sessions.append(greeting["session"])
        self._sockets.append(OneSocket(self._opened, greeting["session"], connection))

    def _go_on(self) -> None:
        if self._sessions:
            self._open(f"&session={self._dice.choice(self._sessions[-4:])}")

    def _cut(self) -> None:
        if self._sockets:
            one = self._dice.choice(self._sockets)
            with suppress(OSError):
                one.connection.socket.shutdown(SHUT_RDWR)

    def _lease(self) -> None:
        form = {"consumer": "c", "limit": self._dice.randint(1, 2)}
        self._note(self._ask("POST", f"topics/{self._topic}/messages/lease", json=form)["messages"], "requests")

    def _show(self) -> None:
        shown = self._ask("GET", "leases", params={"consumer": "c", "topic": self._topic})["messages"]
        self.happened["shown"] += len(shown)
        self._note(shown, "requests")

    def _listen(self) -> None:
        """Read what was pushed until now."""
        for one in list(self._sockets):
            try:
                while True:
                    frame = json.loads(one.connection.recv(0.02))
                    self._note(frame.get("messages", []), f"socket {one.number}")
            except TimeoutError:
                pass
            except ConnectionClosed:
                self.happened[f"closed {one.connection.close_code}"] += 1
                self._sockets.remove(one)

    def _act(self) -> None:
        """Use any token, new or old: only the newest of a message may have an effect."""
        self._listen()
        if not self._tokens:
            return
        id = self._dice.choice(sorted(self._tokens))
        tokens, verb = self._tokens[id], self._dice.choice(("extend", "release", "done", "done"))
        newest = max(tokens, key=lambda token: read_lease(token).version)
        token = self._dice.choice((newest, self._dice.choice(tokens)))
        path = f"topics/{self._topic}/messages/{verb}"
        (told,) = self._ask("POST", path, json={"leases": [token]})["outcomes"]
        self.happened[told["outcome"]] += 1
        if told["outcome"] == "lost" or (verb == "done" and id in self._done) or token in self._released:
            return
        assert token == newest, f"{verb} had an effect by an old token of {id}: {told}, {tokens}"
        assert id not in self._done, f"{verb} had an effect after {id} was done: {told}"
        if verb == "done":
            self._done.add(id)
        elif verb == "release":
            self._released.add(token)
        else:
            self._note([{"id": id, "lease": told["lease"]}], self._given[token])

    def finish(self) -> None:
        """Finish all that is left."""
        timeline, topic = self._pair.timeline, self._topic
        self._listen()
        for one in self._sockets:
            one.connection.close()
        wait_until(lambda: not timeline.done(leases_of_all_sessions(timeline, "c", topic)) and not self._rest())

    def _rest(self) -> int:
        """Finish what no consumer has leased. Return how many messages are left after that."""
        self._pair.timeline.done(self._pair.timeline.lease(self._topic, "d", limit=100))
        return self._pair.timeline.count(self._topic).total


@pytest.mark.parametrize("seed", ["a", "b"])
def test_whatever_happens_no_token_has_two_holders_and_only_the_newest_has_an_effect(
    pair: Pair, topic: str, seed: str
) -> None:
    with ExitStack() as stack:
        play = Play(pair, topic, stack, seed)
        for _ in range(60):
            play.step()
        play.finish()
    assert play.happened["resumed"] > 0
    assert play.happened["done"] > 0
    assert play.happened["lost"] > 0
    assert pair.timeline.count(topic).total == 0
