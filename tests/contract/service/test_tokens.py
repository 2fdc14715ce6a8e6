"""Tokens made, checked, listed and revoked, on every store."""

import re
from datetime import timedelta
from typing import Any

import pytest

from batchline import Store
from batchline.core.moment import moment_of
from batchline.errors import InvalidInput, InvalidRules, Unauthorized, UnknownToken
from batchline.runtime.tokens import MOST_REMEMBERED, REMEMBERED_FOR, Tokens
from batchline.stores.memory import MemoryStore
from batchline.stores.opening import open_store
from batchline.stores.token_rows import TokenRow
from tests.doubles import HandClock

A_MOMENT_US = 1_000
LATER_US = REMEMBERED_FOR // timedelta(microseconds=1)


@pytest.fixture
def tokens(store: Store, clock: HandClock) -> Tokens:
    return Tokens(store, clock)


@pytest.fixture
def memory() -> MemoryStore:
    store = open_store("memory://")
    assert isinstance(store, MemoryStore)
    return store


def test_what_was_created_is_what_a_check_tells(tokens: Tokens, clock: HandClock) -> None:
    made, text = tokens.create(
        "robot", producer_group="g", consumers=["c*"], topics=["t*"], admin=True, expires=timedelta(hours=1)
    )
    assert tokens.check(text) == made
    assert made in tokens.list()
    assert (made.name, made.producer_group, made.consumers, made.topics) == ("robot", "g", ("c*",), ("t*",))
    assert made.created_at is not None
    assert made.expires_at == made.created_at + timedelta(hours=1)
    assert made.created_at <= moment_of(clock())
    assert tokens.any()


def test_the_text_is_kept_nowhere(memory: MemoryStore, clock: HandClock) -> None:
    made, text = Tokens(memory, clock).create("robot")
    secret = text.rpartition("_")[2]
    (row,) = memory.read(lambda rows: rows.tokens())
    assert secret not in repr(row)
    assert secret not in repr(made)


def test_unknown_wrong_expired_and_revoked_are_told_alike(tokens: Tokens, clock: HandClock) -> None:
    token, good = tokens.create()
    expired = tokens.create(expires=timedelta(milliseconds=1))[1]
    ended, revoked = tokens.create()
    tokens.revoke(ended.id)
    clock.us += A_MOMENT_US
    wrong = good[:-1] + ("0" if good[-1] != "0" else "1")
    unknown = re.sub("^bl_.{12}", "bl_000000000000", good)
    said = set()
    for text in (None, "", "Bearer", good.upper(), unknown, wrong, expired, revoked):
        for _ in range(2):  # remembered or not
            with pytest.raises(Unauthorized) as raised:
                tokens.check(text)
            said.add(str(raised.value))
            assert not text or text not in str(raised.value)
    assert len(said) == 1
    assert tokens.check(good) == token


def test_revoking_counts_at_once_here_and_soon_elsewhere(store: Store, clock: HandClock) -> None:
    here, elsewhere = Tokens(store, clock), Tokens(store, clock)
    made, text = here.create()
    assert here.check(text) == elsewhere.check(text) == made
    revoked = here.revoke(made.id)
    assert revoked.revoked_at is not None
    with pytest.raises(Unauthorized):
        here.check(text)
    clock.us += LATER_US - 1
    assert elsewhere.check(text) == made
    clock.us += 1
    with pytest.raises(Unauthorized):
        elsewhere.check(text)
    assert here.revoke(made.id) == revoked


def test_a_remembered_token_still_ends_at_its_moment(memory: MemoryStore, clock: HandClock) -> None:
    tokens = Tokens(memory, clock)
    made, text = tokens.create(expires=timedelta(seconds=1))
    assert tokens.check(text) == made
    clock.us += 1_000_000
    with pytest.raises(Unauthorized):
        tokens.check(text)


def test_most_checks_read_nothing(memory: MemoryStore, clock: HandClock) -> None:
    tokens = Tokens(memory, clock)
    made, text = tokens.create()
    assert tokens.remembered(text) is None
    assert tokens.check(text) == tokens.remembered(text) == made
    memory.transact(lambda rows: rows.revoke_token(made.id, 0))
    assert tokens.check(text) == made
    clock.us -= 1  # a clock that was put back: what is remembered is not fresh
    assert tokens.remembered(text) is None
    with pytest.raises(Unauthorized):
        tokens.remembered("bl_")


def test_what_is_remembered_has_a_bound(memory: MemoryStore, clock: HandClock) -> None:
    tokens = Tokens(memory, clock)
    texts = [tokens.create()[1] for _ in range(MOST_REMEMBERED + 1)]
    for text in texts:
        tokens.check(text)
    assert tokens.remembered(texts[0]) is None
    assert tokens.remembered(texts[1]) is not None
    assert len(tokens._remembered) == MOST_REMEMBERED


def test_whether_there_is_any_is_seen_at_once_here_and_soon_elsewhere(fresh_store: Store, clock: HandClock) -> None:
    here, elsewhere = Tokens(fresh_store, clock), Tokens(fresh_store, clock)
    assert not here.any()
    assert not elsewhere.any()
    made, _ = here.create()
    assert here.any()
    assert not elsewhere.any()
    clock.us += LATER_US
    assert elsewhere.any()
    here.revoke(made.id)
    assert Tokens(fresh_store, clock).any()


def test_an_id_that_is_taken_is_replaced(
    memory: MemoryStore, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = iter(["a" * 12, "1" * 64, "b" * 12, "2" * 64])
    monkeypatch.setattr("secrets.token_hex", lambda _: next(drawn))
    taken = TokenRow("a" * 12, "", "0" * 64, None, (), ("*",), False, 0, None, None)
    memory.transact(lambda rows: rows.insert_token(taken))
    assert Tokens(memory, clock).create()[0].id == "b" * 12
    assert memory.read(lambda rows: rows.token(taken.id)) == taken


def test_revoking_what_is_not_there_says_what_was_meant(memory: MemoryStore, clock: HandClock) -> None:
    tokens = Tokens(memory, clock)
    made, _ = tokens.create()
    with pytest.raises(UnknownToken, match=rf"there is no token '{made.id[:-1]}'; did you mean '{made.id}'\?"):
        tokens.revoke(made.id[:-1])


def test_what_cannot_be_is_refused_and_nothing_is_made(memory: MemoryStore, clock: HandClock) -> None:
    tokens = Tokens(memory, clock)
    with pytest.raises(InvalidInput, match="consumers must be several patterns, got the text 'c'"):
        tokens.create(consumers="c")
    with pytest.raises(InvalidInput, match="topics must be a tuple of 1 to 100 patterns"):
        tokens.create(topics=[])
    with pytest.raises(InvalidRules, match="expires must be longer than 0"):
        tokens.create(expires=timedelta(0))
    with pytest.raises(InvalidInput, match="'dead parcels' is what workers call themselves"):
        tokens.create(producer_group="dead parcels", topics=["*"])
    assert not tokens.any()


@pytest.mark.parametrize("rights", [{"producer_group": "g"}, {"consumers": ["c"]}], ids=str)
def test_a_token_that_produces_or_consumes_names_its_topics(memory: MemoryStore, rights: dict[str, Any]) -> None:
    tokens = Tokens(memory)
    with pytest.raises(InvalidInput, match=r"names its topics, got none: give --topic 'orders\*'"):
        tokens.create(**rights)
    assert not tokens.any()
    assert tokens.create(**rights, topics=["*"])[0].topics == ("*",)


def test_admins_and_readers_without_topics_are_for_every_topic(memory: MemoryStore) -> None:
    tokens = Tokens(memory)
    assert tokens.create(admin=True, producer_group="g")[0].topics == ("*",)
    assert tokens.create("reader")[0].topics == ("*",)


def test_a_token_of_every_topic_from_before_keeps_its_rights(memory: MemoryStore) -> None:
    row = TokenRow("a" * 12, "", "0" * 64, "g", (), ("*",), False, 0, None, None)
    memory.transact(lambda rows: rows.insert_token(row))
    (kept,) = Tokens(memory).list()
    assert (kept.may_use("orders"), kept.names("orders"), kept.is_wide) == (True, False, True)
