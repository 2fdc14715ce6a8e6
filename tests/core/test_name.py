"""Names: kept to the character, or refused with what is wrong."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.core.name import LONGEST_NAME, LONGEST_REASON, check_name, reason_text
from batchline.errors import InvalidName

ANY = st.text(st.characters())


@given(ANY)
def test_a_name_is_kept_as_it_is_or_refused(name: str) -> None:
    wrong = [character for character in name if unicodedata.category(character) in ("Cc", "Cs")]
    if wrong or not 1 <= len(name) <= LONGEST_NAME:
        with pytest.raises(InvalidName, match=r"the name must have "):
            check_name("the name", name)
    else:
        assert check_name("the name", name) is name
        assert name.encode().decode() == name


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "it must have 1 to 255 characters, got 0: ''"),
        ("é" * 1256, f"it must have 1 to 255 characters, got 1,256: '{'é' * 40}'"),
        ("a\tb", r"it must have no control characters, got '\t' at 1 of 'a\tb'"),
        ("x" * 100 + "\0", rf"it must have no control characters, got '\x00' at 100 of '{'x' * 40}'"),
        ("\udc00", r"it must have no control characters, got '\udc00' at 0 of '\udc00'"),
        (None, "it must be a text, got None (NoneType)"),
        (True, "it must be a text, got True (bool)"),
        (b"x" * 10_000, f"it must be a text, got b'{'x' * 298} (bytes)"),
    ],
)
def test_a_refusal_says_what_was_expected_and_what_came(name: object, said: str) -> None:
    with pytest.raises(InvalidName) as raised:
        check_name("it", name)
    assert str(raised.value) == said


@given(ANY)
def test_a_reason_is_something_that_every_database_can_hold(reason: str) -> None:
    kept = reason_text(reason)
    assert len(kept) == min(len(reason), LONGEST_REASON)
    assert "\0" not in kept
    assert kept.encode().decode() == kept
    for before, after in zip(reason, kept, strict=False):
        assert before == after or before == "\0" or unicodedata.category(before) == "Cs"


def test_a_reason_may_be_anything_that_has_a_text() -> None:
    assert [reason_text(reason) for reason in (None, 5, ValueError("no"))] == ["None", "5", "no"]
