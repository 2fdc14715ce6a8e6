"""The message that is published when a fanout is complete."""

import base64
import json
from dataclasses import dataclass
from datetime import timedelta

from batchline.core.message import check_body, check_id
from batchline.core.moment import check_span, span_us
from batchline.core.name import check_name

__all__ = ["OnComplete", "read_on_complete"]


@dataclass(frozen=True, slots=True)
class OnComplete:
    """A message for a topic of the timeline, put there in the same transaction that completes the fanout."""

    topic: str
    body: bytes = b""
    #: The message's id; without one, it is the fanout's.
    id: str | None = None
    #: How long after the completion it is due.
    after: timedelta = timedelta(0)
    producer_group: str = "tracker"

    def __post_init__(self) -> None:
        check_name("the topic of on_complete", self.topic)
        check_name("the producer group of on_complete", self.producer_group)
        check_span("after", self.after, 0)
        check_body(self.body)
        if self.id is not None:
            check_id(self.id)

    def as_text(self) -> str:
        """As a store keeps it."""
        body = base64.b64encode(self.body).decode()
        return json.dumps([self.topic, body, self.id, span_us(self.after), self.producer_group])


def read_on_complete(text: str) -> OnComplete:
    """What `as_text` made a text of."""
    topic, body, id, after_us, producer_group = json.loads(text)
    return OnComplete(topic, base64.b64decode(body), id, timedelta(microseconds=after_us), producer_group)
