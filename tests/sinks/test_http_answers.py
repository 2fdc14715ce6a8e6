import json
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchline.core.moment import us_of
from batchline.errors import DeliveryError, PartlyDelivered, RefusedParcel, Throttled, Undelivered
from batchline.sinks.http_answers import Reply, check_reply, pause_of

NOON_US = us_of(datetime(2026, 11, 15, 12, tzinfo=UTC))


def said(status: int, body: Any = b"", **headers: str) -> Reply:
    return Reply(status, headers, body if isinstance(body, bytes) else json.dumps(body).encode())


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_2xx_is_delivered(status: int) -> None:
    check_reply(said(status), 3)


@pytest.mark.parametrize("status", [301, 302, 304, 307, 401, 403, 404, 408, 425, 500, 502, 504, 599])
def test_what_may_pass_is_sent_again(status: int) -> None:
    with pytest.raises(Undelivered, match=f"the receiver answered {status}: not now"):
        check_reply(said(status, b" not\n now "), 3)


@pytest.mark.parametrize("status", [400, 402, 409, 410, 413, 415, 422])
def test_what_does_not_pass_is_refused_with_the_beginning_of_the_answer(status: int) -> None:
    with pytest.raises(RefusedParcel, match=f"answered {status}: no+$") as caught:
        check_reply(said(status, b"n" + b"o" * 100_000), 3)
    assert len(str(caught.value)) < 350


@pytest.mark.parametrize("status", [429, 503])
def test_too_much_is_throttled_for_as_long_as_it_says(status: int) -> None:
    with pytest.raises(Throttled) as caught:
        check_reply(said(status, **{"retry-after": "7"}), 3)
    assert caught.value.retry_after == timedelta(seconds=7)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "9" * 5000}, 86_400),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "²"}, None),
        ({"retry-after": "Sun, 15 Nov 2026 12:00:30 GMT"}, 30),
        ({"retry-after": "Sun, 15 Nov 2026 11:00:00 GMT"}, 0),
        ({"retry-after": "Sun, 15 Nov 2126 11:00:00 GMT"}, 86_400),
        # By the receiver's own clock, if it tells the time, whatever ours is.
        ({"retry-after": "Sun, 15 Nov 2026 10:00:09 GMT", "date": "Sun, 15 Nov 2026 10:00:00 GMT"}, 9),
        ({"retry-after": "Sun, 15 Nov 99999 10:00:09 GMT"}, None),
    ],
)
def test_retry_after_is_a_number_of_seconds_or_a_date(headers: dict[str, str], seconds: int | None) -> None:
    assert pause_of(headers, NOON_US) == (None if seconds is None else timedelta(seconds=seconds))


def test_a_date_means_nothing_to_who_knows_no_time() -> None:
    assert pause_of({"retry-after": "Sun, 15 Nov 2026 12:00:30 GMT"}) is None


@pytest.mark.parametrize("wrap", [lambda answers: answers, lambda answers: {"results": answers}])
def test_207_tells_of_each_measurement(wrap: Any) -> None:
    statuses = [200, 422, 503, 429, 302, 201]
    answers = [{"status": status, "error": f"because of {status}"} for status in statuses]
    with pytest.raises(PartlyDelivered) as caught:
        check_reply(said(207, wrap(answers)), 6)
    assert caught.value.refused == {1: "422: because of 422", 4: "302: because of 302"}
    assert caught.value.again == {2: "503: because of 503", 3: "429: because of 429"}


def test_207_may_name_only_some_by_their_index() -> None:
    with pytest.raises(PartlyDelivered) as caught:
        check_reply(said(207, [{"index": 5, "status": 400}]), 6)
    assert (caught.value.refused, caught.value.again) == ({5: "400"}, {})


def test_what_207_says_of_a_measurement_is_told_in_short_and_without_secrets() -> None:
    body = json.dumps([{"index": 0, "status": 400, "error": "s3cret\n" + "x" * 1000}]).encode()
    with pytest.raises(PartlyDelivered) as caught:
        check_reply(Reply(207, {}, body, ("s3cret", "status")), 1)
    assert caught.value.refused == {0: ("400: *** " + "x" * 1000)[:300]}


@pytest.mark.parametrize("answers", [[], [{"index": 1, "status": 204}], {"results": [{"status": 200}] * 3}])
def test_207_with_nothing_wrong_is_delivered(answers: Any) -> None:
    check_reply(said(207, answers), 3)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<multistatus/>",
        b"[" * 100_000,
        b"\xff",
        {"ok": 1},
        [1, 2, 3],
        [{"status": 200}],  # which one?
        [{"status": "200"}] * 3,
        [{"index": 3, "status": 200}],
        [{"index": -1, "status": 200}],
        [{"index": True, "status": 200}],
        [{"index": 0, "status": 200}, {"index": 0, "status": 400}],
        [{"index": 0}],
    ],
)
def test_a_207_that_cannot_be_read_is_sent_again(body: Any) -> None:
    with pytest.raises(Undelivered, match="expected an answer for each measurement"):
        check_reply(said(207, body), 3)


@given(st.integers(100, 999), st.binary(max_size=40), st.integers(1, 5), st.text(max_size=20))
def test_whatever_is_answered_a_parcel_is_delivered_or_has_a_reason_why_not(
    status: int, body: bytes, count: int, after: str
) -> None:
    fine = 200 <= status < 300 and status != 207
    with nullcontext() if fine else pytest.raises((DeliveryError, Throttled)):
        check_reply(Reply(status, {"retry-after": after}, body), count, NOON_US)
