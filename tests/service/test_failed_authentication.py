"""Wrong tokens are limited by address: beyond, they are refused before the store is asked, and others go on."""

import inspect
import logging
import secrets
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import httpx2
import pytest

from batchline import Timeline, open_store
from batchline.core.connection_limits import ConnectionLimits
from batchline.core.failure_budget import BURST, FailureBudget
from batchline.errors import StoreUnavailable
from batchline.runtime import tokens as tokens_module
from batchline.runtime.broker_clock import BrokerClock
from batchline.runtime.tokens import Tokens
from batchline.service import token_guard
from batchline.service.service import Service
from tests.service.serving import placed
from tests.waiting import wait_until

PATIENCE_S = 20.0
PATH = "/v1/topics/t"
#: So slowly that no failure is forgotten during a test, on whatever machine.
PER_SECOND = 0.001


@dataclass
class Guarded:
    """A service that asks for tokens, and the store's tokens."""

    url: str
    tokens: Tokens
    service: Service
    stack: ExitStack

    def client(self, token: str, source: str = "127.0.0.1", **headers: str) -> httpx2.Client:
        transport = httpx2.HTTPTransport(local_address=source)
        headers = {"authorization": f"Bearer {token}"} | headers
        client = httpx2.Client(transport=transport, base_url=self.url, headers=headers, timeout=PATIENCE_S)
        return self.stack.enter_context(client)

    def token(self) -> str:
        return self.tokens.create(producer_group="g", topics=["*"])[1]

    def flood(self, source: str = "127.0.0.1", **headers: str) -> list[int]:
        """Twice as many wrong tokens as an address may send at once."""
        client = self.client("", source, **headers)
        wrong = [{"authorization": f"Bearer {wrong_token()}"} for _ in range(2 * BURST)]
        return [client.get(PATH, headers=one).status_code for one in wrong]

    def reads(self) -> float:
        """How often the store was read."""
        name = "batchline_store_call_duration_seconds_count"
        return self.service.parts.metrics.registry.get_sample_value(name, {"call": "read"}) or 0.0


def wrong_token() -> str:
    return f"bl_{secrets.token_hex(6)}_{secrets.token_hex(32)}"


@contextmanager
def guarding(delay_s: float = 0.0, **limits: object) -> Iterator[Guarded]:
    with open_store("memory://") as store, ExitStack() as stack:
        Timeline(store).create_topic("t")
        budget = FailureBudget(per_second=PER_SECOND, delay_s=delay_s)
        given = ConnectionLimits(**limits)  # type: ignore[arg-type]
        place = stack.enter_context(placed(store, limits=given, failures=budget))
        assert place.service is not None
        tokens = Tokens(store)
        tokens.create("first", admin=True)
        yield Guarded(place.url, tokens, place.service, stack)


@pytest.fixture(autouse=True)
def learns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a flood have all tokens read at its begin, and not again."""
    monkeypatch.setattr(token_guard, "LEARN_EVERY_S", 1_000_000.0)


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    with guarding() as guarded:
        yield guarded


def test_wrong_tokens_beyond_the_burst_are_429_without_a_look_into_the_store(guarded: Guarded) -> None:
    statuses = guarded.flood()
    assert statuses == [401] * BURST + [429] * BURST
    before = guarded.reads()
    answer = guarded.client(wrong_token()).get(PATH)
    assert (answer.status_code, answer.json()["type"]) == (429, "/problems/TooManyFailures")
    assert 0 < int(answer.headers["retry-after"]) <= 1 / PER_SECOND
    assert guarded.reads() == before


def test_a_token_that_was_valid_before_the_flood_is_accepted_from_the_same_address(guarded: Guarded) -> None:
    known = guarded.client(guarded.token())
    assert known.get(PATH).status_code == 200
    guarded.flood()
    assert known.get(PATH).status_code == 200
    guarded.service.parts.tokens._clock = later(guarded.service.parts.tokens)
    assert known.get(PATH).status_code == 200  # it is looked up again, for what was read of it is too old


def later(tokens: Tokens) -> BrokerClock:
    clock = tokens._clock
    return BrokerClock(tokens._store, lambda: clock() + 60_000_000)


def test_a_token_from_another_address_is_accepted_during_a_flood(guarded: Guarded) -> None:
    guarded.flood("127.0.0.2")
    assert guarded.client(guarded.token(), "127.0.0.3").get(PATH).status_code == 200
    assert guarded.client(guarded.token(), "127.0.0.2").get(PATH).status_code == 429


def test_a_token_that_the_process_has_never_seen_is_accepted_during_a_flood(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, revoked = guarded.token(), guarded.token()
    guarded.tokens.revoke(revoked.split("_")[1])
    guarded.flood()
    assert guarded.client(first).get(PATH).status_code == 200
    assert guarded.client(revoked).get(PATH).status_code == 429
    later = guarded.client(guarded.token())
    assert later.get(PATH).status_code == 429
    monkeypatch.setattr(token_guard, "LEARN_EVERY_S", 0.0)
    assert later.get(PATH).status_code == 200
    assert guarded.client(wrong_token()).get(PATH).status_code == 429


def test_learning_drops_no_token_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens_module, "MOST_REMEMBERED", 2)
    with open_store("memory://") as store:
        tokens = Tokens(store)
        texts = [tokens.create(name, producer_group="g", topics=["*"])[1] for name in "abc"]
        tokens.check(texts[0])
        tokens.learn()
        assert sum(map(tokens.has_proved, texts)) == 2
        assert tokens.has_proved(texts[0])


def test_a_flood_while_the_store_is_away_is_refused(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise StoreUnavailable

    monkeypatch.setattr(guarded.service.parts.tokens, "learn", away)
    assert guarded.flood() == [401] * BURST + [429] * BURST


def test_a_refusal_is_delayed_so_that_a_flood_is_as_slow_as_it_has_connections() -> None:
    with guarding(delay_s=0.5) as guarded:
        client = guarded.client(wrong_token())
        assert [client.get(PATH).status_code for _ in range(BURST)] == [401] * BURST
        answer = client.get(PATH)
        assert (answer.status_code, answer.elapsed.total_seconds() >= 0.5) == (429, True)


def test_wrong_tokens_that_ask_for_readiness_take_no_place_of_other_requests() -> None:
    with guarding(delay_s=1.0) as guarded, ExitStack() as stack:
        under_way, metrics = guarded.service.parts.under_way, guarded.service.parts.metrics
        assert [guarded.client(wrong_token()).get(PATH).status_code for _ in range(BURST)] == [401] * BURST
        under_way._most = 1
        host, _, port = guarded.url.removeprefix("http://").partition(":")
        for _ in range(5):
            asking = stack.enter_context(socket.create_connection((host, int(port))))
            head = f"GET /health/ready HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {wrong_token()}\r\n\r\n"
            asking.sendall(head.encode())
        wait_until(lambda: metrics._under_way == 5)
        assert guarded.client(guarded.token(), "127.0.0.2").get(PATH).status_code == 200


def test_what_strangers_may_ask_takes_no_thread_from_others(guarded: Guarded) -> None:
    open_to_all = [one for one in guarded.service.operations if one.right == "none"]
    assert len(open_to_all) > 5
    assert [one.name for one in open_to_all if not inspect.iscoroutinefunction(one.handler)] == []


def test_requests_without_a_token_are_401_and_cost_nothing(guarded: Guarded) -> None:
    without = guarded.client("")
    del without.headers["authorization"]
    assert {without.get(PATH).status_code for _ in range(2 * BURST)} == {401}
    assert guarded.client(guarded.token()).get(PATH).status_code == 200


def test_a_client_cannot_name_another_address_unless_a_proxy_is_trusted(guarded: Guarded) -> None:
    statuses = [guarded.flood(**{"x-forwarded-for": f"10.0.0.{one}"}) for one in range(2)]
    assert statuses == [[401] * BURST + [429] * BURST, [429] * 2 * BURST]
    with guarding(proxies=("127.0.0.1",)) as behind:
        behind.flood(**{"x-forwarded-for": "10.0.0.1"})
        token = behind.token()
        assert behind.client(token, **{"x-forwarded-for": "10.0.0.1"}).get(PATH).status_code == 429
        assert behind.client(token, **{"x-forwarded-for": "10.0.0.2"}).get(PATH).status_code == 200


def test_a_flood_is_logged_once_and_counted(guarded: Guarded, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "batchline.service"):
        statuses = guarded.flood()
    assert [record.getMessage() for record in caplog.records] == [
        "too many wrong tokens from 127.0.0.1: its unknown tokens are refused with 429"
    ]
    registry = guarded.service.parts.metrics.registry
    for problem, status in (("TooManyFailures", 429), ("Unauthorized", 401)):
        counted = registry.get_sample_value("batchline_http_refused_total", {"problem": problem})
        assert counted == statuses.count(status)
