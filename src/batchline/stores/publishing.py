"""The message of a fanout that is complete, put on its topic in the same transaction."""

from contextlib import suppress
from dataclasses import replace
from itertools import count

from batchline.core.due_time import resolve_after
from batchline.core.fanout import Fanout
from batchline.core.message import CheckedMessages
from batchline.core.on_complete import read_on_complete
from batchline.stores.creating import Creation, NumbersTaken, create_under_free_ids
from batchline.stores.fresh_numbers import fresh_number
from batchline.stores.rows import Rows

__all__ = ["publish_complete"]

#: A bundle for its message and a spot, with room for one more of each.
NUMBERS = 4


def publish_complete(rows: Rows, fanout: Fanout, now_us: int) -> None:
    """Publish the message of a fanout that is complete, if it has one. A topic that was deleted takes none."""
    if fanout.on_complete is None or fanout.ended_as != "complete":
        return
    message = read_on_complete(fanout.on_complete)
    topic = rows.topic(message.topic)
    if topic is None or topic.deleted:
        return
    # Neither a limit for producers nor how far ahead they may look keeps it away.
    topic = replace(topic, rate_limit=None, max_ahead=max(topic.max_ahead, message.after))
    due_ms = resolve_after("the moment of a message", None, message.after, now_us)
    checked = CheckedMessages([message.id or fanout.id], [due_ms], [message.body], [0])
    creation = Creation(message.topic, message.producer_group, checked, now_us)
    owner = rows.producer_group(message.producer_group)
    while True:
        first = fresh_number(now_us // 1_000, NUMBERS)
        with suppress(NumbersTaken):
            create_under_free_ids(rows, topic, owner, creation, count(first))
            return
