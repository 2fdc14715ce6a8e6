"""Topics on any store."""

from dataclasses import replace

from batchline.core.topic import Topic
from batchline.errors import InvalidRules, TopicDeleted, TopicExists, UnknownTopic
from batchline.stores.timeline_rows import TimelineRows

__all__ = ["check_live", "create_topic", "delete_topic", "known_topic", "live_topic", "update_topic"]


def known_topic(rows: TimelineRows, name: str) -> Topic:
    """The topic of a name, also one that is being deleted; raises UnknownTopic."""
    return check_known(name, rows.topic(name))


def live_topic(rows: TimelineRows, name: str) -> Topic:
    """The topic of a name that takes messages; raises UnknownTopic and TopicDeleted."""
    return check_live(name, rows.topic(name))


def check_live(name: str, found: Topic | None) -> Topic:
    """Return the topic that was found by a name, if it takes messages; raises UnknownTopic and TopicDeleted."""
    known = check_known(name, found)
    if known.deleted:
        raise TopicDeleted(f"topic {name!r} is being deleted: its name is free again when its messages are gone")
    return known


def check_known(name: str, found: Topic | None) -> Topic:
    """Return the topic that was found by a name; raises UnknownTopic."""
    if found is None:
        raise UnknownTopic(f"there is no topic {name!r}: create it first")
    return found


def create_topic(rows: TimelineRows, new: Topic) -> Topic:
    """Create a topic, and its dead-letter topic if there is none. Creating it again in the same way is a success.

    An internal topic stays internal.
    """
    if rows.insert_topic(new) and new.dead_letter is not None:
        rows.insert_topic(Topic(new.dead_letter, buckets=new.buckets))
    found = live_topic(rows, new.name)
    if replace(found, number=0, internal=new.internal) != new:
        raise TopicExists(f"topic {new.name!r} is there with other rules: {found}, got {new}")
    if new.internal and not found.internal:
        return update_topic(rows, replace(found, internal=True))
    return found


def update_topic(rows: TimelineRows, changed: Topic) -> Topic:
    """Give a topic other rules, all but its buckets: where messages stand depends on them. Internal it stays."""
    found = live_topic(rows, changed.name)
    if found.buckets != changed.buckets:
        raise InvalidRules(f"topic {found.name!r} was made with {found.buckets} buckets and keeps them")
    if changed.dead_letter is not None:
        rows.insert_topic(Topic(changed.dead_letter, buckets=changed.buckets))
    rows.write_topic(replace(changed, number=found.number, internal=changed.internal or found.internal))
    return known_topic(rows, changed.name)


def delete_topic(rows: TimelineRows, name: str, now_ms: int) -> None:
    """Let a topic take no more messages; `prune` removes what is there. Deleting it again changes nothing."""
    rows.delete_topic(known_topic(rows, name).number, now_ms)
