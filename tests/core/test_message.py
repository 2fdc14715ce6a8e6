"""A message: what can be one, its state, its id, its bucket, and the token of its lease."""

import zlib
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from batchline import Lease, NewMessage, Outcome, lease_text, read_lease
from batchline.core.bucket_ranges import bucket_ranges
from batchline.core.consignment import message_id
from batchline.core.message import (
    LARGEST_BODY,
    LATEST_MS,
    CheckedMessages,
    bucket_of,
    check_at,
    check_leases,
    check_messages,
    made_id,
    made_place,
    moment_ms,
    ms_of,
    state_of,
)
from batchline.core.moment import us_of
from batchline.errors import InvalidMessage, InvalidName, MalformedLease

NOW = 1_800_000_000_000
NOW_US = NOW * 1_000 + 457
PLACES = st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 63))
NAMES = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=30)
MOMENTS = st.datetimes(datetime(1970, 1, 2), datetime(9000, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
LEASES = st.builds(
    Lease,
    topic=NAMES,
    id=NAMES,
    version=st.integers(0, 2**31 - 1),
    consumer=NAMES,
    until_ms=st.integers(0, 2**63 - 1),
    bundle=st.integers(0, 2**63 - 1),
    spot=st.integers(0, 2**63 - 1),
    place=st.integers(0, 63),
)
LEASE = Lease("parcels", "a/b%", 3, "worker-1", NOW, 77, 78, 5)


# --- state ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "consumer", "state"),
    [
        (NOW - 1, None, "available"),
        (NOW, None, "available"),
        (NOW + 1, None, "waiting"),
        (NOW - 1, "w", "available"),
        (NOW, "w", "available"),
        (NOW + 1, "w", "processing"),
    ],
)
def test_the_state_follows_from_now_and_at_the_timestamp_itself_it_is_available(
    at: int, consumer: str | None, state: str
) -> None:
    assert state_of(at, consumer, NOW) == state


@pytest.mark.parametrize("outcome", ["created", "exists", "moved", "cancelled", "extended", "released", "done"])
def test_an_outcome_as_it_was_wanted_is_ok(outcome: Any) -> None:
    assert Outcome("a", outcome).ok


@pytest.mark.parametrize("outcome", ["conflict", "too_far", "limited", "leased", "unknown", "foreign", "lost"])
def test_any_other_outcome_is_not(outcome: Any) -> None:
    assert not Outcome("a", outcome).ok


def test_leased_is_ok_for_who_has_the_lease() -> None:
    assert Outcome("a", "leased", LEASE).ok


# --- moments ----------------------------------------------------------------------------------------------------------


@given(moment=MOMENTS)
@example(moment=datetime(2027, 1, 1, 0, 0, 0, 1, tzinfo=UTC))
@example(moment=datetime(2027, 1, 1, 0, 0, 0, 1_000, tzinfo=UTC))
def test_a_moment_is_rounded_up_to_milliseconds_and_never_early(moment: datetime) -> None:
    assert 0 <= ms_of(moment) * 1_000 - us_of(moment) < 1_000
    assert check_at("at", moment) == ms_of(moment)
    assert moment <= moment_ms(ms_of(moment)) < moment + timedelta(milliseconds=1)


@given(ms=st.integers(0, LATEST_MS))
def test_milliseconds_are_taken_as_they_are(ms: int) -> None:
    assert check_at("at", ms) == ms == ms_of(moment_ms(ms))


def test_a_moment_counts_in_any_time_zone() -> None:
    east = datetime(2027, 1, 1, 5, 30, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    assert check_at("at", east) == check_at("at", datetime(2027, 1, 1, tzinfo=UTC))


def test_what_was_due_before_1970_is_due() -> None:
    assert check_at("at", datetime(1903, 12, 17, tzinfo=UTC)) == 0


@pytest.mark.parametrize(
    "at",
    [-1, LATEST_MS + 1, 10**5000, 1.5, float("nan"), True, "now", None, b"", datetime(2027, 1, 1)],  # noqa: DTZ001
    ids=lambda at: type(at).__name__,
)
def test_what_is_no_moment_is_refused(at: object) -> None:
    with pytest.raises(InvalidMessage, match="the moment"):
        check_at("the moment", at)


@pytest.mark.parametrize(("off_us", "is_expired"), [(-60_000_000, False), (-1, False), (0, True), (1, True)])
def test_a_lease_has_expired_from_its_end_on(off_us: int, is_expired: bool) -> None:
    now = LEASE.until + timedelta(microseconds=off_us)
    assert LEASE.is_expired(now) is is_expired
    assert LEASE.is_expired(now.astimezone(timezone(timedelta(hours=-7)))) is is_expired
    assert LEASE.is_expired(us_of(now) // 1_000) is is_expired


@pytest.mark.parametrize("now", [-1, 1.5, True, None, "now", datetime(2027, 1, 1)], ids=str)  # noqa: DTZ001
def test_what_is_no_moment_says_nothing_about_a_lease(now: Any) -> None:
    with pytest.raises(InvalidMessage, match="now"):
        LEASE.is_expired(now)


# --- new messages -----------------------------------------------------------------------------------------------------


def test_messages_are_checked_in_their_order() -> None:
    new: list[NewMessage | bytes] = [
        NewMessage(b"x", NOW + 5, "b", 3),
        NewMessage(),
        b"z",
        NewMessage(b"y", id="a", priority=-1_000, after=timedelta(milliseconds=7)),
    ]
    checked = CheckedMessages(
        ids=["b", "", "", "a"],
        at_ms=[NOW + 5, NOW, NOW, NOW + 8],
        bodies=[b"x", b"", b"z", b"y"],
        turns=[-3, 0, 0, 1_000],
    )
    assert check_messages(new, NOW_US) == checked
    assert check_messages(new, None) == checked._replace(at_ms=[NOW + 5, -1, -1, -8]), "spans stay spans"


def test_bytes_alone_are_bodies_of_messages_that_are_due_at_once() -> None:
    short, long = check_messages([b"x", b""], NOW_US), check_messages([NewMessage(b"x"), NewMessage(b"")], NOW_US)
    assert short == long


def test_a_body_or_a_text_is_no_list_of_messages() -> None:
    for wrong in (b"body", "text", NewMessage()):
        with pytest.raises(InvalidMessage, match="a list of messages"):
            check_messages(wrong, NOW_US)  # type: ignore[arg-type]


def test_the_largest_body_is_taken() -> None:
    assert len(check_messages([NewMessage(bytes(LARGEST_BODY))], NOW_US).bodies[0]) == 1 << 20


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (NewMessage(bytes(LARGEST_BODY + 1)), "at most 1,048,576 bytes, got 1,048,577"),
        (NewMessage("text"), r"must be bytes, got 'text' \(str\)"),  # type: ignore[arg-type]
        (NewMessage(bytearray(b"x")), "must be bytes"),  # type: ignore[arg-type]
        (NewMessage(at=-1), "the moment of a message must be"),
        (NewMessage(at=True), "the moment of a message must be"),
        (NewMessage(at=datetime(2027, 1, 1)), "a time with a time zone"),  # noqa: DTZ001
        (NewMessage(at=5, after=timedelta(1)), "the moment of a message is given by at and by after"),
        (NewMessage(after=timedelta(-1)), "the moment of a message: after must be 0 or longer"),
        (NewMessage(after=60), "the moment of a message: after must be a timedelta, got 60"),  # type: ignore[arg-type]
        (NewMessage(priority=1_001), "priority must be a whole number from -1000 to 1000, got 1001"),
        (NewMessage(priority=-1_001), "priority"),
        (NewMessage(priority=1.0), "priority"),  # type: ignore[arg-type]
        (NewMessage(priority=True), "priority"),
        ("text", "expected NewMessage"),
        (None, "expected NewMessage"),
        ({"id": "a"}, "expected NewMessage"),
    ],
    ids=lambda value: ascii(value)[:40] if isinstance(value, str) else type(value).__name__,
)
def test_what_is_no_message_is_refused(message: Any, said: str) -> None:
    with pytest.raises(InvalidMessage, match=said):
        check_messages([NewMessage(b"good"), message], NOW_US)


@pytest.mark.parametrize("id", ["", "x" * 256, "a\nb", "a\0b", "half \ud83d", 5, b"x"], ids=ascii)
def test_an_id_that_cannot_be_kept_is_refused(id: Any) -> None:
    with pytest.raises(InvalidName, match="the id of a message"):
        check_messages([NewMessage(id=id)], NOW_US)


def test_an_id_stands_once_in_a_call() -> None:
    with pytest.raises(InvalidMessage, match="the id 'a' stands twice in one call"):
        check_messages([NewMessage(id="a"), NewMessage(id="b"), NewMessage(id="a")], NOW_US)


# --- ids and buckets --------------------------------------------------------------------------------------------------


@given(place=PLACES)
def test_an_id_made_by_us_says_where_its_message_is(place: tuple[int, int]) -> None:
    assert made_place(made_id(*place)) == place


@given(places=st.lists(PLACES, min_size=2, max_size=20))
def test_ids_made_by_us_sort_as_they_were_made(places: list[tuple[int, int]]) -> None:
    assert [made_place(id) for id in sorted(made_id(*place) for place in places)] == sorted(places)


@pytest.mark.parametrize(
    "id",
    [
        "",
        "a",
        made_id(5, 5)[1:],
        made_id(5, 5) + "0",
        "x" + made_id(5, 5)[1:],
        made_id(5, 5)[:-2] + "64",
        made_id(5, 5)[:-2] + "99",
        made_id(5, 5)[:-2] + "-1",
        made_id(5, 5)[:-2] + "٣٣",
        made_id(5, 5)[:-2] + "5²",
        "_" + "l" * 13 + "00",
        "_" + "A" * 13 + "00",
        "_" + "z" * 13 + "00",
    ],
    ids=ascii,
)
def test_any_other_id_was_chosen(id: str) -> None:
    assert made_place(id) is None


@given(id=NAMES, buckets=st.integers(1, 1 << 20))
def test_every_id_has_a_bucket(id: str, buckets: int) -> None:
    assert 0 <= bucket_of(id, buckets) < buckets


def test_a_bucket_never_changes() -> None:
    """Stored messages stand where these say; another hash would lose them."""
    ids = ("a", "parcel-1", "ünï ✓", made_id(12345, 0))
    assert [bucket_of(id, 1024) for id in ids] == [579, 863, 822, 921]


@given(place=PLACES, buckets=st.integers(1, 1024))
def test_ids_made_together_share_a_bucket(place: tuple[int, int], buckets: int) -> None:
    assert bucket_of(made_id(*place), buckets) == bucket_of(made_id(place[0], 0), buckets)


def test_ids_spread_over_the_buckets() -> None:
    counts = [0] * 16
    for number in range(16_000):
        counts[bucket_of(f"parcel-{number}", 16)] += 1
    assert 800 < min(counts) <= max(counts) < 1_200


# --- tokens -----------------------------------------------------------------------------------------------------------


@given(lease=LEASES)
@example(lease=LEASE)
@example(lease=LEASE._replace(topic="%2F", id="%25", consumer="/"))
@example(lease=LEASE._replace(topic="%252F", id="%", consumer="//"))
def test_a_lease_is_read_from_its_text(lease: Lease) -> None:
    assert read_lease(lease_text(lease)) == lease


TEXT = lease_text(LEASE)
PARTS = TEXT.split("/")


def with_part(place: int, part: str) -> str:
    return "/".join([*PARTS[:place], part, *PARTS[place + 1 :]])


@pytest.mark.parametrize(
    "text",
    [
        None,
        5,
        b"4d/4e/5/3/1/a/b/c",
        LEASE,
        "",
        "/",
        "nonsense",
        "/".join(PARTS[:-1]),
        TEXT + "/x",
        "/".join(PARTS[1:]),
        *(with_part(place, part) for place in range(5) for part in ("", "g", "-1", "1.0")),
        *(with_part(place, f"{1 << 63:x}") for place in (0, 1, 4)),
        with_part(2, "40"),
        with_part(3, f"{1 << 31:x}"),
        *(with_part(place, part) for place in (5, 6, 7) for part in ("", "a\nb", "x" * 256, "nul \0", "half \ud800")),
    ],
    ids=lambda text: ascii(text)[:60],
)
def test_what_is_no_lease_is_malformed(text: object) -> None:
    with pytest.raises(MalformedLease, match="expected a lease as it was given out"):
        read_lease(text)


@given(text=st.text(max_size=60) | st.text("0123456789abcdef/%", max_size=60))
def test_any_text_is_a_lease_or_malformed(text: str) -> None:
    try:
        lease = read_lease(text)
    except MalformedLease:
        return
    assert read_lease(lease_text(lease)) == lease


def test_one_lease_is_a_list_of_one() -> None:
    assert check_leases(LEASE) == check_leases([LEASE]) == check_leases(iter([LEASE])) == [LEASE]
    assert check_leases([]) == []


@pytest.mark.parametrize("leases", [[LEASE, None], [TEXT], TEXT, [tuple(LEASE)], tuple(LEASE), [5]], ids=ascii)
def test_what_is_not_a_list_of_leases_is_malformed(leases: Any) -> None:
    with pytest.raises(MalformedLease, match="expected a lease as it was given out"):
        check_leases(leases)


def test_a_lease_says_when_it_ends() -> None:
    assert LEASE.until == moment_ms(NOW)


# --- buckets of lanes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id", "bucket"),
    # As they were when ids had no braces: a hash that never changes.
    [("a", 579), ("order-7", 730), ("{", 825), ("{}", 835), ("{}x", 22), ("x{a}", 953), ("{open", 635)],
)
def test_ids_without_something_in_braces_at_their_beginning_keep_their_buckets(id: str, bucket: int) -> None:
    assert bucket_of(id, 1024) == bucket == zlib.crc32(id.encode()) % 1024


@given(name=NAMES.filter(lambda name: "}" not in name), rest=NAMES, other=NAMES, buckets=st.integers(1, 4096))
def test_what_stands_in_braces_alone_decides(name: str, rest: str, other: str, buckets: int) -> None:
    bucket = bucket_of(f"{{{name}}}{rest}", buckets)
    assert 0 <= bucket < buckets
    assert bucket_of(f"{{{name}}}{other}", buckets) == bucket_of(f"{{{name}}}", buckets) == bucket


@pytest.mark.parametrize("workers", [2, 3, 4, 8])
@pytest.mark.parametrize("lanes", [8, 16, 64, 200])
@given(publication=NAMES.filter(lambda name: "}" not in name))
def test_consumers_who_share_the_buckets_share_the_lanes(workers: int, lanes: int, publication: str) -> None:
    ranges = bucket_ranges(map(str, range(workers)), 1024).values()
    found = [bucket_of(message_id(publication, lane, 1), 1024) for lane in range(lanes)]
    shares = [sum(bucket in share for bucket in found) for share in ranges]
    assert all(abs(share - lanes / workers) <= 2 for share in shares)
