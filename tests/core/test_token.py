"""Tokens: what may be done with one, and how its text is read."""

from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.core.token import Token, TokenText, hash_of, is_secret, read_token_text
from batchline.errors import InvalidInput, InvalidName

NOW = datetime(2026, 11, 16, tzinfo=UTC)
HEX = "0123456789abcdef"
IDS = st.text(HEX, min_size=12, max_size=12)
SECRETS = st.text(HEX, min_size=64, max_size=64)
NAMES = st.text("ab.-/*?[]!", min_size=1, max_size=8)
PATTERNS = st.lists(NAMES, max_size=4).map(tuple)
TOKENS = st.builds(
    Token,
    st.just("0123456789ab"),
    producer_group=st.none() | NAMES,
    consumers=PATTERNS,
    topics=PATTERNS.filter(bool),
    admin=st.booleans(),
)


@given(IDS, SECRETS)
def test_a_text_is_read_as_it_was_made_and_shows_its_secret_to_nobody(id: str, secret: str) -> None:
    made = TokenText(id, secret)
    assert made.text == f"bl_{id}_{secret}"
    assert read_token_text(made.text) == made
    assert secret not in repr(made)
    assert secret not in f"{made}"


@given(st.text() | st.none() | st.integers() | st.binary())
def test_any_other_text_is_no_token(text: object) -> None:
    assert read_token_text(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "bl_" + "a" * 12 + "_" + "b" * 63,
        "bl_" + "a" * 12 + "_" + "b" * 65,
        "bl_" + "a" * 12 + "_" + "B" * 64,
        "bl_" + "a" * 12 + "_" + "b" * 64 + "\n",
        " bl_" + "a" * 12 + "_" + "b" * 64,
        "bl_" + "a" * 12 + "_" + "٣" * 64,
        "BL_" + "a" * 12 + "_" + "b" * 64,
        "bl_" + "a" * 77,
        "",
    ],
)
def test_a_text_that_is_nearly_one_is_none(text: str) -> None:
    assert read_token_text(text) is None


@given(SECRETS, SECRETS)
def test_a_hash_is_that_of_its_secret_and_of_no_other(secret: str, other: str) -> None:
    assert len(hash_of(secret)) == 64
    assert is_secret(secret, hash_of(secret))
    assert is_secret(other, hash_of(secret)) == (other == secret)
    assert secret not in hash_of(secret)


@given(st.integers(-3, 3), st.none() | st.integers(-3, 3), st.none() | st.integers(-3, 3))
def test_a_token_is_valid_before_its_end_and_unless_revoked(now: int, expires: int | None, revoked: int | None) -> None:
    def at(seconds: int | None) -> datetime | None:
        return None if seconds is None else NOW + timedelta(seconds=seconds)

    token = Token("a", expires_at=at(expires), revoked_at=at(revoked))
    assert token.is_valid(NOW + timedelta(seconds=now)) == (revoked is None and (expires is None or now < expires))


@given(TOKENS, NAMES, NAMES, NAMES)
def test_rights_are_those_of_the_patterns_or_all(token: Token, topic: str, consumer: str, group: str) -> None:
    assert token.may_use(topic) == (token.admin or any(fnmatchcase(topic, one) for one in token.topics))
    assert token.names(topic) == (token.admin or topic in token.topics)
    assert token.may_lease_as(consumer) == (token.admin or any(fnmatchcase(consumer, one) for one in token.consumers))
    assert token.owns(group) == (token.admin or group == token.producer_group)
    assert token.owns(None) == token.admin
    assert token.may_produce == (token.producer_group is not None)
    assert token.may_lease or not token.may_lease_as(consumer)
    assert token.only_reads == (not token.may_produce and not token.admin and not token.consumers)


@pytest.mark.parametrize(
    ("pattern", "topic", "matches"),
    [
        ("*", "any/thing", True),
        ("t*", "t", True),
        ("t*", "T1", False),
        ("t*", "at", False),
        ("orders.?", "orders.1", True),
        ("orders.?", "ordersx1", False),
        ("[ab]/x", "b/x", True),
        ("parcels", "parcels-dead", False),
    ],
)
def test_patterns_mind_case_and_match_the_whole_name(pattern: str, topic: str, matches: bool) -> None:
    assert Token("a", topics=(pattern,)).may_use(topic) == matches


def test_a_token_that_says_nothing_reads_every_topic_and_changes_nothing() -> None:
    token = Token("a")
    assert token.may_use("anything")
    assert token.only_reads


def test_an_admin_without_a_group_owns_everything_and_creates_nothing() -> None:
    token = Token("a", admin=True, topics=("t",))
    assert token.owns("anybody")
    assert token.may_use("another")
    assert token.may_lease_as("anybody")
    assert not token.may_produce


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"topics": ()}, "topics must be a tuple of 1 to 100 patterns, got ()"),
        ({"topics": "t*"}, "topics must be a tuple of 1 to 100 patterns, got 't*'"),
        ({"consumers": ("c",) * 101}, "consumers must be a tuple of 0 to 100 patterns, got ('c', 'c', "),
    ],
)
def test_patterns_that_are_none_are_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        Token("a", **given)  # type: ignore[arg-type]
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize(
    "given", [{"name": "a\nb"}, {"producer_group": ""}, {"consumers": ("",)}, {"topics": ("*", "a\0")}, {"name": None}]
)
def test_names_that_no_store_keeps_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(InvalidName):
        Token("a", **given)  # type: ignore[arg-type]
