"""Rules of the packer are checked when they are built."""

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from batchline import PackRules
from batchline.errors import InvalidRules


def test_the_defaults_are_those_of_the_spec() -> None:
    expected = {"max_items": 500, "max_bytes": None, "order": "time", "together": "timestamp", "split": None}
    assert PackRules().as_data() == expected


def test_as_data_gives_the_same_rules_again() -> None:
    rules = PackRules(7, 900, "subject", "timestamp", "$")
    assert PackRules(**rules.as_data()) == rules


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_items": 0}, "max_items must lie between 1 and 2**31, got 0"),
        ({"max_items": 2**31 + 1}, "max_items must lie between 1 and 2**31, got 2147483649"),
        ({"max_items": "500"}, "max_items must be a whole number, got '500' (str)"),
        ({"max_items": True}, "max_items must be a whole number, got True (bool)"),
        ({"max_bytes": 0}, "max_bytes must lie between 1 and 2**40, got 0"),
        ({"max_bytes": 1.5}, "max_bytes must be a whole number or None, got 1.5 (float)"),
        ({"order": "subjects"}, "order must be one of 'time', 'subject', got 'subjects'; did you mean 'subject'?"),
        ({"together": "batches"}, "got 'batches'; did you mean 'batch'?"),
        ({"together": None}, "together must be one of 'timestamp', 'batch', got None"),
        ({"split": ""}, "split must be the text between subject and metric, or None, got ''"),
        ({"split": 3}, "split must be the text between subject and metric, or None, got 3"),
        ({"split": "$", "together": "batch"}, "split needs together 'timestamp'"),
    ],
)
def test_what_is_wrong_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRules) as caught:
        PackRules(**wrong)
    assert message in str(caught.value)


def test_rules_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        PackRules().max_items = 3  # type: ignore[misc]
