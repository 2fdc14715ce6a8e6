"""Secrets of lanes, what is signed with them, and strays among the dead letters; on every store."""

from dataclasses import replace

from batchline import NewMessage
from batchline.core.consignment import Content, message_id, read_consignment
from batchline.core.signature import is_signed
from batchline.core.topic import dead_letters_of
from batchline.runtime.prune import Prune
from batchline.runtime.publisher import make_topics
from batchline.runtime.resend import Resend
from batchline.stores.letters import Stray
from tests.contract.parcels.posting import Publication
from tests.doubles import new_id


def secrets_of(publication: Publication) -> dict[int, str]:
    """The secrets of lanes."""
    proofs = publication.deliveries.proofs([publication.name])
    assert all(proof.unsigned_to == 0 for proof in proofs.values())
    return {lane: proof.secret or "" for (_, lane), proof in proofs.items()}


def strays_of(publication: Publication, reason: str = "a stray: no") -> list[Stray]:
    """What is due, leased, as strays."""
    return [Stray(one.lease, one.body, one.attempts, reason) for one in publication.lease()]


def test_each_lane_has_a_secret_that_stays_and_its_parcels_are_signed_with_it(publication: Publication) -> None:
    publication.post(0, 1, 2)
    publication.post(1, 1, 1)
    secrets = secrets_of(publication)
    assert len({*secrets.values(), ""}) == 3
    publication.post(0, 3, 3)
    publication.settle(*publication.taken()[:2])
    publication.post(0, 4, 4)
    assert secrets_of(publication) == secrets
    for message in publication.lease("v") + publication.timeline.my_leases("w", topic=publication.topic):
        parcel = read_consignment(message.body)
        assert [lane for lane, secret in secrets.items() if is_signed(message.body, secret)] == [parcel.lane]
        assert not [secret for secret in secrets.values() if secret.encode() in message.body]


def test_publishing_again_signs_nothing_anew(publication: Publication) -> None:
    publication.post(0, 1, 2)
    bodies = [message.body for message in publication.lease()]
    assert not publication.post(0, 1, 2)
    secret = secrets_of(publication)[0]
    assert all(is_signed(body, secret) for body in bodies)


def test_what_is_left_of_a_parcel_is_signed_and_a_dead_letter_is_not(publication: Publication) -> None:
    publication.post(0, 1, 1)
    (one,) = publication.taken()
    dead, rest = replace(one.parcel.only([0]), reason="no"), replace(one.parcel.only([1]), reason="no")
    publication.settle(replace(one, dead=dead, rest=rest, rest_id=f"{one.lease.id}~1"))
    secret = secrets_of(publication)[0]
    (again,) = publication.lease()
    assert (again.producer_group, is_signed(again.body, secret)) == ("dead parcels", True)
    (letter,) = publication.lease("u", dead_letters_of(publication.topic))
    assert letter.body == dead.as_body()


def test_dead_parcels_that_are_sent_again_are_signed_with_a_secret_of_their_own(publication: Publication) -> None:
    publication.post(0, 1, 1)
    (one,) = publication.taken()
    publication.settle(replace(one, dead=replace(one.parcel, reason="no")))
    dead = dead_letters_of(publication.topic)
    resent = Resend(publication.store, dead, publication.topic, timeline=publication.timeline).run()
    (message,) = publication.lease()
    (proof,) = publication.deliveries.proofs([resent.fanout or ""]).values()
    assert is_signed(message.body, proof.secret or "")
    assert not is_signed(message.body, secrets_of(publication)[0])


def test_a_topic_that_is_made_anew_has_other_secrets(publication: Publication) -> None:
    publication.post(0, 1, 1)
    before = secrets_of(publication)
    publication.timeline.delete_topic(publication.topic)
    while Prune(publication.store, clock=publication.clock).run_once():
        pass
    make_topics(publication.timeline, publication.topic)
    publication.post(0, 1, 1)
    assert secrets_of(publication).keys() == before.keys()
    assert secrets_of(publication) != before


def test_strays_are_dead_letters_as_they_were_with_their_reasons_and_count_nowhere(publication: Publication) -> None:
    publication.post(0, 1, 2)
    before = publication.taken("w")
    id = new_id()
    forged = publication.parcels(0, 1, 1)[0].as_body()
    publication.timeline.create(publication.topic, [NewMessage(forged, id=id), NewMessage(b"x")], producer_group="v")
    strays = strays_of(publication)
    assert [one.outcome for one in publication.deliveries.bury(strays)] == ["done", "done"]
    assert [one.outcome for one in publication.deliveries.bury(strays)] == ["done", "done"]
    dead = dead_letters_of(publication.topic)
    letters = {message.id: message.body for message in publication.lease("u", dead)}
    assert letters == {id: forged, next(one for one in letters if one != id): b"x"}
    for letter in letters:
        read = publication.timeline.read(dead, letter, producer_group="strays")
        assert [(one.ending, one.reason) for one in read.history] == [("released", "a stray: no")]
    assert publication.counts() == (2, 2, 0, 2)
    assert publication.lanes() == {0: (2, 0)}
    assert publication.settle(*before) == ["done", "done"]


def test_a_stray_whose_lease_was_lost_is_left_to_the_worker_that_has_it(publication: Publication) -> None:
    publication.timeline.create(publication.topic, [b"x"], producer_group="v")
    strays = strays_of(publication)
    publication.clock.us += 61_000_000
    publication.lease("quick")
    assert [one.outcome for one in publication.deliveries.bury(strays)] == ["lost"]
    assert publication.lease("u", dead_letters_of(publication.topic)) == []


def test_a_stray_whose_id_is_taken_among_the_dead_letters_gets_another(publication: Publication) -> None:
    id, dead = message_id("import", 0, 1), dead_letters_of(publication.topic)
    publication.timeline.create(dead, [NewMessage(b"other", id=id)], producer_group="strangers")
    publication.timeline.create(publication.topic, [NewMessage(b"x", id=id)], producer_group="v")
    publication.deliveries.bury(strays_of(publication))
    letters = {message.body: message.id for message in publication.lease("u", dead)}
    assert letters.keys() == {b"other", b"x"}
    read = publication.timeline.read(dead, letters[b"x"], producer_group="strays")
    assert [one.reason for one in read.history] == ["a stray: no"]


def test_strays_are_not_sent_again_and_the_parcels_behind_them_are(publication: Publication) -> None:
    publication.timeline.create(publication.topic, [b"x", b"y"], producer_group="v")
    publication.deliveries.bury(strays_of(publication))
    publication.post(0, 1, 1)
    (one,) = publication.taken()
    publication.settle(replace(one, dead=replace(one.parcel, reason="no")))
    dead = dead_letters_of(publication.topic)
    resent = Resend(publication.store, dead, publication.topic, timeline=publication.timeline).run(1)
    assert (len(resent.parcels), resent.messages) == (1, [])
    assert publication.timeline.count(dead).total == 2
    assert publication.timeline.count(publication.topic).total == 1


def test_a_dead_parcel_that_cannot_be_read_stays_a_dead_letter(publication: Publication) -> None:
    """On its topic a worker would bury it as a stray, or drop it as one that has arrived."""
    publication.post(0, 1, 1)
    (one,) = publication.taken()
    publication.settle(replace(one, dead=replace(one.parcel, payload=Content(b"broken", "gzip"), reason="damaged")))
    dead = dead_letters_of(publication.topic)
    resent = Resend(publication.store, dead, publication.topic, timeline=publication.timeline).run()
    assert (resent.parcels, resent.messages) == ([], [])
    assert publication.timeline.count(dead).total == 1
    assert publication.timeline.count(publication.topic).total == 0


def test_topics_of_parcels_are_internal_whoever_made_them(publication: Publication) -> None:
    dead = dead_letters_of(publication.topic)
    assert publication.timeline.topic(publication.topic).internal
    assert publication.timeline.topic(dead).internal
    name = new_id()
    publication.timeline.create_topic(name, buckets=7)
    make_topics(publication.timeline, name)
    assert (publication.timeline.topic(name).internal, publication.timeline.topic(name).buckets) == (True, 7)
    assert publication.timeline.update_topic(name, rate_limit=5.0).internal
    assert publication.timeline.create_topic(name, buckets=7, rate_limit=5.0).internal


def test_two_strays_whose_dead_letters_would_have_one_id_are_both_kept(publication: Publication) -> None:
    make_topics(publication.timeline, publication.topic)
    (made,) = publication.timeline.create(publication.topic, [NewMessage(b"made")], producer_group="theirs")
    chosen = NewMessage(b"chosen", id=f"dead{made.id}")
    assert publication.timeline.create(publication.topic, [chosen], producer_group="theirs")[0].ok
    assert all(one.ok for one in publication.deliveries.bury(strays_of(publication)))
    letters = publication.lease("u", dead_letters_of(publication.topic))
    assert sorted(letter.body for letter in letters) == [b"chosen", b"made"]
    for letter in letters:
        read = publication.timeline.read(dead_letters_of(publication.topic), letter.id, producer_group="strays")
        assert [one.reason for one in read.history] == ["a stray: no"]
