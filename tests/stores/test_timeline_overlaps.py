"""Calls that overlap in the worst way, driven step by step: who waits for whom, and what each is told."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import pytest

from batchline.core.future_load import Counts, Range
from batchline.core.message import Lease, LeasedMessage, NewMessage, Outcome, made_place
from batchline.errors import ConsumerReplaced, StoreUnavailable
from batchline.runtime.consumer_session import ConsumerSession
from batchline.runtime.prune import Prune
from batchline.runtime.rescue import Rescue
from batchline.runtime.timeline import Timeline
from batchline.stores.opening import open_store
from batchline.stores.pruning import prune_ended
from batchline.stores.rows import Rows
from batchline.stores.store import Store
from batchline.stores.timeline_rows import SpotChange
from tests.doubles import HandClock
from tests.stores.halting import Beforehand, Interrupted, in_flight
from tests.stores.history import check_counts, check_left, what_is_left
from tests.stores.observing import Beside, beside
from tests.stores.racing import PATIENCE_S, select

T = TypeVar("T")
TOPIC, OURS = "parcels", "ours"
MINUTE = timedelta(minutes=1)
TABLES = ("bundles", "spots", "message_ids", "attempts")


@dataclass
class Place:
    """A timeline on a server, and a connection beside it."""

    url: str
    store: Store
    timeline: Timeline
    clock: HandClock
    watch: Beside

    @property
    def now_ms(self) -> int:
        return self.clock() // 1_000

    def on(self, store: Store) -> Timeline:
        return Timeline(store, clock=self.clock)

    def pass_by(self, span: timedelta) -> None:
        self.clock.us += span // timedelta(microseconds=1)

    def create(self, *ids: str | None, body: bytes = b"parcel") -> list[str]:
        """Messages of one bundle that are due now; a moment later."""
        messages = [NewMessage(body, self.now_ms, id) for id in ids]
        outcomes = self.timeline.create(TOPIC, messages, producer_group=OURS)
        assert [one.outcome for one in outcomes] == ["created"] * len(ids)
        self.pass_by(timedelta(milliseconds=1))
        return [one.id for one in outcomes]

    def lease(self, limit: int, store: Store | None = None, consumer: str = "one") -> list[LeasedMessage]:
        return self.on(store or self.store).lease(TOPIC, consumer, limit=limit, duration=MINUTE)

    def check(self) -> None:
        """Counts are exact, and no row is left behind."""
        while Prune(self.store, clock=self.clock).run_once():
            pass
        left = what_is_left(self.store, self.url)
        check_left(left)
        check_counts(left, self.timeline)

    def rows(self) -> dict[str, int]:
        return {table: select(self.url, f"SELECT count(*) FROM batchline_{table}")[0][0] for table in TABLES}


def at(url: str) -> Iterator[Place]:
    with open_store(url) as store, beside(url) as watch:
        clock = HandClock()
        place = Place(url, store, Timeline(store, clock=clock), clock, watch)
        place.timeline.create_topic(TOPIC, buckets=64, max_attempts=2, dead_letter="dead", keep=timedelta(0))
        yield place


@pytest.fixture
def place(server_database: str) -> Iterator[Place]:
    yield from at(server_database)


@pytest.fixture
def in_postgresql(postgresql_database: str) -> Iterator[Place]:
    yield from at(postgresql_database)


def promptly(call: Callable[[], T]) -> T:
    """The answer of a call that does not wait for what the caller holds."""
    threads = ThreadPoolExecutor(1)
    try:
        return threads.submit(call).result(PATIENCE_S / 4)
    finally:
        threads.shutdown(wait=False)  # should it wait, the caller is to let go


def leases(found: list[LeasedMessage]) -> list[Lease]:
    return [one.lease for one in found]


def words(outcomes: list[Outcome]) -> list[str]:
    return [one.outcome for one in outcomes]


# --- leases -----------------------------------------------------------------------------------------------------------


def test_a_lease_skips_what_another_transaction_has_locked_and_does_not_wait(place: Place) -> None:
    ids = [place.create(None)[0] for _ in range(4)]
    spot = made_place(ids[1])
    assert spot is not None
    with beside(place.url) as keep, keep.holding("batchline_spots", f"bundle = {spot[0]}"):
        found = promptly(lambda: place.lease(3))
        assert [one.id for one in found] == [ids[0], ids[2], ids[3]]
    assert [one.id for one in place.lease(3)] == [ids[1]]
    place.check()


def test_two_consumers_split_a_spot_without_overlap(place: Place) -> None:
    ids = place.create(*[None] * 5)
    with in_flight(place.store, lambda store: place.lease(2, store)) as first:
        assert promptly(lambda: place.lease(5, consumer="two")) == []  # the spot is one row, which the other holds
    second = place.lease(5, consumer="two")
    assert [one.id for one in first.result()] + [one.id for one in second] == ids
    assert words(place.timeline.done([*leases(first.result()), *leases(second)])) == ["done"] * 5
    place.check()
    assert not any(place.rows().values())


@pytest.mark.parametrize("limit", [2, 5])
def test_what_was_leased_since_the_line_was_read_is_not_leased_again(place: Place, limit: int) -> None:
    ids = place.create(*[None] * 5)
    store = Interrupted(place.store, "hold_due", lambda: place.lease(limit))
    second = place.lease(5, store, consumer="two")
    assert store.has_happened
    assert [one.id for one in second] == ids[limit:]
    assert len(place.timeline.my_leases("one")) == limit
    place.check()


def test_what_was_leased_for_a_moment_since_the_line_was_read_is_leased_once(place: Place) -> None:
    ids = [place.create(None)[0] for _ in range(12)]
    started = place.now_ms

    def lease_for_a_moment() -> None:
        slow = Timeline(place.store, clock=lambda: (started - 1) * 1_000)
        assert len(slow.lease(TOPIC, "one", limit=1, duration=timedelta(milliseconds=1))) == 1

    # The line is read in steps, of ten spots first: the first message is met again, behind the others.
    store = Interrupted(place.store, "hold_due", lease_for_a_moment)
    found = place.lease(20, store, consumer="two")
    assert store.has_happened
    assert sorted(one.id for one in found) == sorted(ids)
    assert words(place.timeline.done(leases(found))) == ["done"] * 12
    place.check()


def test_what_was_buried_since_the_line_was_read_is_left_to_the_dead_letter_topic(place: Place) -> None:
    (id,) = place.create("chosen")
    for _ in range(2):
        assert len(place.lease(1)) == 1
        place.pass_by(MINUTE)
    store = Interrupted(place.store, "hold_due", Rescue(place.store, clock=place.clock).run_once)
    assert place.lease(1, store) == []
    assert store.has_happened
    assert [one.id for one in place.timeline.lease("dead", "undertaker")] == [id]
    place.check()


def test_a_message_that_was_leased_too_often_is_not_leased_by_its_id_either(place: Place) -> None:
    (id,) = place.create("chosen")
    for _ in range(2):
        assert len(place.lease(1)) == 1
        place.pass_by(MINUTE)
    assert place.timeline.lease_one(TOPIC, id, 3, "one") is None
    assert [one.id for one in place.timeline.lease("dead", "undertaker")] == [id]
    place.check()


@pytest.mark.parametrize("finished", [True, False], ids=["when that is gone", "while that is there"])
def test_a_message_that_is_buried_twice_leaves_its_twin_its_id(place: Place, finished: bool) -> None:
    bury_twins(place.timeline, place.clock, finished=finished)
    place.check()


@pytest.mark.parametrize("finished", [True, False], ids=["when that is gone", "while that is there"])
def test_in_memory_a_message_that_is_buried_twice_leaves_its_twin_its_id(finished: bool) -> None:
    with open_store("memory://") as store:
        clock = HandClock()
        bury_twins(Timeline(store, clock=clock), clock, finished=finished)


def bury_twins(timeline: Timeline, clock: HandClock, *, finished: bool) -> None:
    """Two messages of one id come to a dead-letter topic, and the second goes on to the next."""
    timeline.create_topic("upper", max_attempts=1, dead_letter="lower")
    timeline.update_topic("lower", max_attempts=1, dead_letter="lowest", keep=timedelta(0))
    for _ in range(2):
        timeline.create("upper", [NewMessage(b"twin", id="twin")], producer_group=OURS)
        assert len(timeline.lease("upper", "one", duration=MINUTE)) == 1
        clock.us += MINUTE // timedelta(microseconds=1)
        assert timeline.lease("upper", "one") == []
        clock.us += 1_000
    first, second = timeline.lease("lower", "one", limit=2, duration=MINUTE)
    if finished:
        timeline.done(first.lease)
        Prune(timeline._store, clock=clock).run_once()
    else:
        timeline.extend(first.lease, 3 * MINUTE)
    clock.us += MINUTE // timedelta(microseconds=1)
    assert timeline.lease("lower", "one") == []
    assert [one.lease.bundle for one in timeline.lease("lowest", "one")] == [second.lease.bundle]
    if not finished:
        assert timeline.read("lower", "twin", producer_group=OURS).version == first.lease.version + 1


# --- sessions of one consumer -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["leased_spots", "hold_spots"])
def test_the_lease_of_a_session_that_begins_meanwhile_is_not_taken(place: Place, step: str) -> None:
    (id,) = place.create(None)
    ended = ConsumerSession(place.timeline, TOPIC, "one", lease=MINUTE)
    ended.begin()
    (left,) = place.timeline.lease(TOPIC, "one", duration=MINUTE, session=ended.number)
    older = ConsumerSession(place.timeline, TOPIC, "one", lease=MINUTE)
    assert older.begin() == []
    ended.end()
    newer = ConsumerSession(place.timeline, TOPIC, "one", lease=MINUTE)
    taken: list[LeasedMessage] = []
    store = Interrupted(place.store, step, lambda: taken.extend(newer.begin()))
    assert place.on(store).take_over(TOPIC, "one", older.number) == []
    assert store.has_happened
    assert [one.id for one in taken] == [id]
    assert words(place.timeline.done(left.lease)) == ["lost"]
    assert words(place.timeline.done(leases(taken))) == ["done"]
    place.check()


def session_with_two_connections(place: Place) -> tuple[ConsumerSession, ConsumerSession]:
    """A session that has begun, and the connection with which its client goes on."""
    before = ConsumerSession(place.timeline, TOPIC, "one", lease=MINUTE, process="")
    before.begin()
    return before, ConsumerSession(place.timeline, TOPIC, "one", lease=MINUTE, number=before.number, process="")


def test_a_client_that_connects_again_waits_for_a_lease_of_its_session_in_flight_and_has_it(place: Place) -> None:
    (id,) = place.create(None)
    before, after = session_with_two_connections(place)

    def lease(store: Store) -> list[LeasedMessage]:
        return place.on(store).lease(TOPIC, "one", duration=MINUTE, session=before.number)

    with ThreadPoolExecutor(1) as threads:
        with in_flight(place.store, lease) as leasing:
            connecting = threads.submit(after.begin)
            place.watch.wait_for_waiting(1)
        (held,) = connecting.result(PATIENCE_S)
    (void,) = leasing.result()
    assert (held.id, held.attempts) == (id, 1)
    assert place.timeline.my_leases("one", topic=TOPIC) == []
    assert words(place.timeline.done([void.lease])) == ["lost"]
    assert words(place.timeline.done([held.lease])) == ["done"]
    place.check()


@pytest.mark.parametrize("verb", ["lease", "take_over"])
def test_a_session_takes_nothing_while_its_client_connects_again(place: Place, verb: str) -> None:
    place.create(None)
    before, after = session_with_two_connections(place)

    def take() -> list[LeasedMessage]:
        if verb == "lease":
            return place.timeline.lease(TOPIC, "one", session=before.number)
        return place.timeline.take_over(TOPIC, "one", before.number)

    with ThreadPoolExecutor(1) as threads:
        with in_flight(place.store, lambda store: place.on(store).resume_session(TOPIC, after.row(before.number))):
            taking = threads.submit(take)
            place.watch.wait_for_waiting(1)
        with pytest.raises(ConsumerReplaced):
            taking.result(PATIENCE_S)


# --- owners beside consumers ------------------------------------------------------------------------------------------


def owner_acts(place: Place, verb: str, id: str) -> list[Outcome]:
    if verb == "move":
        return place.timeline.move(TOPIC, {id: place.now_ms + 60_000}, producer_group=OURS)
    return place.timeline.cancel(TOPIC, [id], producer_group=OURS)


@pytest.mark.parametrize("limit", [1, 3], ids=["of a part of the spot", "of the whole spot"])
@pytest.mark.parametrize("verb", ["move", "cancel"])
def test_an_owner_waits_for_a_lease_in_flight_and_is_told(place: Place, verb: str, limit: int) -> None:
    first, *_ = place.create(None, None, None)
    with ThreadPoolExecutor(1) as threads:
        with in_flight(place.store, lambda store: place.lease(limit, store)) as leasing:
            acting = threads.submit(owner_acts, place, verb, first)
            place.watch.wait_for_waiting(1)
        assert words(acting.result(PATIENCE_S)) == ["leased"]
    assert words(place.timeline.done(leases(leasing.result()))) == ["done"] * limit
    place.check()


@pytest.mark.parametrize("verb", ["move", "cancel"])
def test_a_lease_does_not_wait_for_its_owner_and_finds_what_is_left(place: Place, verb: str) -> None:
    first, *others = place.create(None, None, None)

    def act(store: Store) -> list[Outcome]:
        return owner_acts(Place(place.url, store, place.on(store), place.clock, place.watch), verb, first)

    with in_flight(place.store, act) as acting:
        assert promptly(lambda: place.lease(3)) == []
    assert words(acting.result()) == ["moved" if verb == "move" else "cancelled"]
    assert [one.id for one in place.lease(3)] == others
    place.check()


@pytest.mark.parametrize(
    ("verb", "outcomes"),
    [("extend", ["lost", "extended"]), ("release", ["released", "released"]), ("done", ["lost", "done"])],
)
def test_of_two_calls_with_one_lease_the_second_waits_and_has_lost_it_or_repeats_the_first(
    place: Place, verb: str, outcomes: list[str]
) -> None:
    place.create(None, None)
    found = leases(place.lease(2))

    def use() -> list[Outcome]:
        if verb == "extend":
            return place.timeline.extend(found)
        return place.timeline.release(found) if verb == "release" else place.timeline.done(found)

    with ThreadPoolExecutor(1) as threads:
        with in_flight(place.store, lambda store: place.on(store).release(found[:1])) as releasing:
            using = threads.submit(use)
            place.watch.wait_for_waiting(1)
        assert words(releasing.result()) == ["released"]
        assert words(using.result(PATIENCE_S)) == outcomes
    place.check()


# --- producers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "body", "outcome"),
    [(OURS, b"parcel", "exists"), (OURS, b"another", "conflict"), ("theirs", b"parcel", "conflict")],
)
def test_of_two_creates_of_an_id_one_creates_and_the_other_is_told(
    place: Place, group: str, body: bytes, outcome: str
) -> None:
    def create(store: Store, group: str, body: bytes) -> list[Outcome]:
        messages = [NewMessage(body, place.now_ms, id) for id in ("same", f"of {group} {body!r}")]
        return place.on(store).create(TOPIC, messages, producer_group=group)

    place.timeline.create(TOPIC, [NewMessage(id="known")], producer_group=OURS)
    place.timeline.create(TOPIC, [NewMessage(id="known too")], producer_group="theirs")
    with ThreadPoolExecutor(1) as threads:
        with in_flight(place.store, lambda store: create(store, OURS, b"parcel")) as first:
            second = threads.submit(create, place.store, group, body)
            place.watch.wait_for_waiting(1)
        assert words(first.result()) == ["created", "created"]
        own = "exists" if outcome == "exists" else "created"
        assert words(second.result(PATIENCE_S)) == [outcome, own]
    place.check()


def test_a_create_that_waited_for_one_that_is_taken_back_creates(place: Place) -> None:
    place.create("known")
    id_row = (
        "INSERT INTO batchline_message_ids (topic, id, bundle, place) "
        f"SELECT number, 'same', 1, 0 FROM batchline_topics WHERE name = '{TOPIC}'"
    )
    with beside(place.url) as keep, ThreadPoolExecutor(1) as threads:
        keep.run("BEGIN")
        keep.run(id_row)
        creating = threads.submit(place.create, "same")
        place.watch.wait_for_waiting(1)
        keep.run("ROLLBACK")
        assert creating.result(PATIENCE_S) == ["same"]
    place.check()


@pytest.mark.parametrize("step", ["message_ids", "bundles_by_number"])
def test_a_create_that_meets_a_message_as_it_is_removed_creates_it_anew(in_postgresql: Place, step: str) -> None:
    """In MariaDB who removes it would wait for the create."""
    place = in_postgresql
    place.create("same")
    assert words(place.timeline.done(leases(place.lease(1)))) == ["done"]
    store = Interrupted(place.store, step, Prune(place.store, clock=place.clock).run_once)
    message = NewMessage(b"parcel", place.now_ms, "same")
    assert words(place.on(store).create(TOPIC, [message], producer_group=OURS)) == ["created"]
    assert store.has_happened
    assert words(place.timeline.create(TOPIC, [message], producer_group=OURS)) == ["exists"]
    assert [one.id for one in place.lease(5)] == ["same"]
    place.check()


@pytest.mark.parametrize("step", ["message_ids", "bundles_by_number"])
def test_a_create_that_meets_a_message_as_it_becomes_a_dead_letter_creates_it_anew(
    in_postgresql: Place, step: str
) -> None:
    """In MariaDB who buries it would wait for the create."""
    place = in_postgresql
    place.create("same")
    for _ in range(2):
        assert len(place.lease(1)) == 1
        place.pass_by(MINUTE)
    store = Interrupted(place.store, step, Rescue(place.store, clock=place.clock).run_once)
    message = NewMessage(b"parcel", place.now_ms, "same")
    assert words(place.on(store).create(TOPIC, [message], producer_group=OURS)) == ["created"]
    assert store.has_happened
    assert [one.id for one in place.lease(5)] == ["same"]
    assert [one.id for one in place.timeline.lease("dead", "undertaker")] == ["same"]
    place.check()


def test_a_cancelled_id_that_another_call_takes_meanwhile_is_not_taken_twice(in_postgresql: Place) -> None:
    """In MariaDB the other call would wait for this one."""
    place = in_postgresql
    place.create("same")
    assert words(place.timeline.cancel(TOPIC, ["same"], producer_group=OURS)) == ["cancelled"]
    store = Interrupted(place.store, "delete_message_ids", lambda: place.create("same"))
    message = NewMessage(b"parcel", place.now_ms, "same")
    assert words(place.on(store).create(TOPIC, [message], producer_group=OURS)) == ["exists"]
    assert store.has_happened
    assert [one.id for one in place.lease(5)] == ["same"]
    place.check()


# --- prune ------------------------------------------------------------------------------------------------------------


def prune_one(place: Place, store: Store) -> int:
    topic = place.timeline.topic(TOPIC)
    return store.transact(lambda rows: prune_ended(rows, topic, place.now_ms + 1, 1))


@pytest.mark.parametrize("ids", [(None, None), ("one", "two")], ids=["made ids", "chosen ids"])
def test_two_that_prune_the_last_spots_of_a_bundle_leave_nothing_behind(
    place: Place, ids: tuple[str | None, ...]
) -> None:
    place.create(*ids)
    for one in place.lease(2):
        assert words(place.timeline.done(one.lease)) == ["done"]
    before = place.rows()
    assert (before["bundles"], before["spots"]) == (1, 2)
    with in_flight(place.store, lambda store: prune_one(place, store)) as first:
        assert promptly(lambda: prune_one(place, place.store)) == 1
    assert first.result() == 1
    assert place.rows()["spots"] == place.rows()["bundles"] == 1
    assert prune_one(place, place.store) == 1
    assert not any(place.rows().values())
    place.check()


def test_prune_waits_for_nobody_who_works_on_the_same_bundle(place: Place) -> None:
    place.create(None, None, None)
    found = leases(place.lease(3))
    assert words(place.timeline.done(found[0])) == ["done"]
    with in_flight(place.store, lambda store: place.on(store).extend(found[1:])) as extending:
        promptly(Prune(place.store, clock=place.clock).run_once)
        assert place.rows()["bundles"] == 1
    new = [one.lease for one in extending.result() if one.lease]
    assert words(place.timeline.done(new)) == ["done"] * 2
    place.check()
    assert not any(place.rows().values())


def test_prune_removes_the_id_of_a_message_that_others_met(place: Place) -> None:
    place.create("met")
    place.create("first")
    place.timeline.create(
        TOPIC, [NewMessage(b"parcel", place.now_ms, id) for id in ("met", "new")], producer_group=OURS
    )
    assert words(place.timeline.done(leases(place.lease(9)))) == ["done"] * 3
    place.check()
    assert not any(place.rows().values())
    assert place.create("met") == ["met"]


# --- as a last resort -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changed", ["version", "bits"])
def test_a_spot_that_is_not_what_was_read_is_not_written(
    sql_database: str, changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    option = "" if sql_database.startswith("sqlite") else "?patience=0s"
    monkeypatch.setattr("batchline.stores.sqlite.store.PATIENCE_S", 0.0)
    with open_store(f"{sql_database}{option}") as store:
        timeline = Timeline(store)
        timeline.create_topic(TOPIC)
        (created,) = timeline.create(TOPIC, [NewMessage()], producer_group=OURS)
        place = made_place(created.id)
        assert place is not None
        (spot,) = store.read(lambda rows: rows.spots_of([place[0]]))
        other = spot._replace(version=2) if changed == "version" else spot._replace(bits=0b11)
        stale = SpotChange(other, spot.moved(1))
        with pytest.raises(StoreUnavailable, match="changed meanwhile"):
            store.transact(lambda rows: rows.write_spots([stale]))
        assert store.read(lambda rows: rows.spots_of([place[0]])) == [spot]


# --- counts -----------------------------------------------------------------------------------------------------------


class CountedAmid(Beforehand):
    """A store in which something happens once, between two queries of a count."""

    def __init__(self, store: Store, happens: Callable[[], object]):
        super().__init__(store)
        self._happens = [happens]

    def transact(self, work: Callable[[Rows], T]) -> T:
        return self._store.transact(work)

    def read(self, work: Callable[[Rows], T]) -> T:
        return self._store.read(lambda rows: work(self._disturbed(rows)))

    def snapshot(self, work: Callable[[Rows], T]) -> T:
        return self._store.snapshot(lambda rows: work(self._disturbed(rows)))

    def _disturbed(self, rows: Rows) -> Rows:
        count = rows.leased_counts

        def counted(topic: int, span: Range) -> int:
            found = count(topic, span)
            while self._happens:
                self._happens.pop()()
            return found

        rows.leased_counts = counted  # type: ignore[method-assign]
        return rows


def test_a_message_that_is_leased_or_released_amid_a_count_counts_once(sql_database: str) -> None:
    """Else `batchline work --until-empty` could end while a parcel is just being leased."""
    with open_store(sql_database) as store:
        timeline, found = Timeline(store), list[LeasedMessage]()
        timeline.create_topic(TOPIC)
        timeline.create(TOPIC, [NewMessage()], producer_group=OURS)
        amid_lease = CountedAmid(store, lambda: found.extend(timeline.lease(TOPIC, "one", limit=1)))
        assert Timeline(amid_lease).count(TOPIC) == Counts(waiting=0, processing=0, available=1)
        assert timeline.count(TOPIC) == Counts(waiting=0, processing=1, available=0)
        amid_release = CountedAmid(store, lambda: timeline.release(leases(found)))
        assert Timeline(amid_release).count(TOPIC) == Counts(waiting=0, processing=1, available=0)
        assert timeline.count(TOPIC) == Counts(waiting=0, processing=0, available=1)


# --- circles ----------------------------------------------------------------------------------------------------------


def test_a_deadlock_is_repeated_and_nobody_is_told(place: Place) -> None:
    place.create(None)
    place.create(None)
    one, two = leases(place.lease(2))
    with beside(place.url) as keep, ThreadPoolExecutor(1) as threads:
        keep.run("BEGIN")
        # The other is to give way: in PostgreSQL who looks first, in MariaDB who has written less.
        if place.url.startswith("postgresql"):
            keep.run("SET LOCAL deadlock_timeout = '1min'")
        names = ", ".join(f"('{number}', 0, 0)" for number in range(100))
        keep.run(f"INSERT INTO batchline_brokers VALUES {names}")
        keep.run(f"SELECT * FROM batchline_spots WHERE bundle = {two.bundle} FOR UPDATE")
        finishing = threads.submit(place.timeline.done, [one, two])
        place.watch.wait_for_waiting(1)
        keep.run(f"SELECT * FROM batchline_spots WHERE bundle = {one.bundle} FOR UPDATE")
        keep.run("ROLLBACK")
        assert words(finishing.result(PATIENCE_S)) == ["done", "done"]
    place.check()
