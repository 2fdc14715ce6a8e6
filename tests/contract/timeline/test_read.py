"""Reading: for the owner, and for who holds the lease."""

import pytest

from batchline import NewMessage
from batchline.core.message import moment_ms
from batchline.errors import ForeignMessage, InvalidInput, UnknownMessage
from tests.contract.timeline.line import Line
from tests.doubles import new_id


def test_the_state_follows_the_clock(line: Line) -> None:
    line.create("a", at=line.now + 10)
    assert line.read("a").state == "waiting"
    line.wait(9)
    assert line.read("a").state == "waiting"
    line.wait(1)
    assert line.read("a").state == "available"
    (message,) = line.lease()
    assert (line.read("a").state, line.read("a").consumer) == ("processing", "w")
    line.until(message.lease.until_ms - 1)
    assert (line.read("a").state, line.read("a").consumer) == ("processing", "w")
    line.wait(1)
    shown = line.read("a")
    assert (shown.state, shown.consumer, shown.at) == ("available", None, moment_ms(line.now))


def test_who_holds_the_lease_reads_what_its_owner_does(line: Line) -> None:
    (lease,) = line.leased("a")
    assert line.timeline.read(line.topic, "a", lease=lease) == line.read("a")


def test_others_do_not(line: Line) -> None:
    (lease,) = line.leased("a")
    with pytest.raises(ForeignMessage, match="is neither yours nor leased to you"):
        line.timeline.read(line.topic, "a", producer_group=new_id())
    for other in (lease._replace(consumer="v"), lease._replace(version=1), lease._replace(version=3)):
        with pytest.raises(ForeignMessage):
            line.timeline.read(line.topic, "a", lease=other)


def test_a_lease_that_ended_reads_nothing(line: Line) -> None:
    (lease,) = line.leased("a")
    (extended,) = line.timeline.extend(lease)
    with pytest.raises(ForeignMessage):
        line.timeline.read(line.topic, "a", lease=lease)
    assert extended.lease is not None
    line.until(extended.lease.until_ms - 1)
    assert line.timeline.read(line.topic, "a", lease=extended.lease).version == 3
    line.wait(1)
    with pytest.raises(ForeignMessage):
        line.timeline.read(line.topic, "a", lease=extended.lease)


def test_what_is_not_there_is_unknown(line: Line) -> None:
    other = Line(line.timeline, line.clock).make()
    (made,) = line.timeline.create(other.topic, [NewMessage()], producer_group=line.group)
    (lease,) = line.leased("a")
    line.timeline.done(lease)
    for id in ("a", "nobody", made.id, "_000000000000000"):
        with pytest.raises(UnknownMessage, match="there is no message"):
            line.read(id)
    with pytest.raises(UnknownMessage):
        line.timeline.read(line.topic, "a", lease=lease)


def test_by_the_owner_or_by_the_lease_and_not_by_both(line: Line) -> None:
    (lease,) = line.leased("a")
    with pytest.raises(InvalidInput, match="read takes the producer group"):
        line.timeline.read(line.topic, "a")
    with pytest.raises(InvalidInput, match="read takes the producer group"):
        line.timeline.read(line.topic, "a", producer_group=line.group, lease=lease)
