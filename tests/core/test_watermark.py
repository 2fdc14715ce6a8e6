"""The watermark: the slowest partition that is awake, less the skew."""

import pytest

from batchline.core.watermark import watermark_us


@pytest.mark.parametrize(
    ("highest", "skew_us", "idle_us", "expected"),
    [
        ({}, 0, None, None),
        ({"a": 100}, 0, None, 100),
        ({"a": 100}, 30, None, 70),
        ({"a": 100, "b": 40}, 0, None, 40),
        ({"a": 100, "b": 40}, 5, 60, 35),  # 60 behind is not yet silent
        ({"a": 100, "b": 40}, 5, 59, 95),
        ({"a": 100, "b": 40, "c": 90}, 0, 20, 90),
    ],
)
def test_the_slowest_partition_that_is_awake_holds_it_back(
    highest: dict[str, int], skew_us: int, idle_us: int | None, expected: int | None
) -> None:
    assert watermark_us(highest, skew_us, idle_us) == expected
