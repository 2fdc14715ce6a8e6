"""Strays: messages on a topic of parcels that publishing did not create. Each becomes a dead letter, with a reason."""

from typing import Final

from batchline.core.consignment import Consignment, message_id
from batchline.core.message import LeasedMessage
from batchline.core.signature import LaneProof, is_signed

__all__ = ["DEAD_PARCELS", "NOT_SENT_AGAIN", "OVERSIZE_GROUP", "RESERVED_GROUPS", "STRAYS", "stray_reason"]

#: The owner of dead parcels, and of what is left of parcels to be sent again.
DEAD_PARCELS: Final = "dead parcels"
#: The owner of strays among the dead letters.
STRAYS: Final = "strays"
#: The owner of measurements that fit in no parcel, among the dead letters.
OVERSIZE_GROUP: Final = "oversize"
#: Dead letters that are not sent again, for they would be strays.
NOT_SENT_AGAIN: Final = frozenset({STRAYS, OVERSIZE_GROUP})
#: Producer groups that no token has.
RESERVED_GROUPS: Final = frozenset({DEAD_PARCELS, STRAYS})


def stray_reason(message: LeasedMessage, head: Consignment, proof: LaneProof | None) -> str:
    """Return why a message is a stray, by the head of its parcel; nothing if publishing created it.

    A parcel is signed with the secret of its lane. Those published before parcels were signed have the id that
    publishing gave them, which no other message can have at the same time; or, as the rest of one, our own owner.
    """
    if proof is not None and proof.secret is not None and is_signed(message.body, proof.secret):
        return ""
    lane = f"lane {head.lane} of publication {head.publication!r}"
    if proof is None:
        return f"a stray: nothing was published in {lane} on this topic"
    if head.number > proof.unsigned_to:
        return f"a stray: it names parcel {head.number} of {lane}, and does not have the signature of that lane"
    if message.producer_group == DEAD_PARCELS or message.id == message_id(head.publication, head.lane, head.number):
        return ""
    return f"a stray: it names parcel {head.number} of {lane}, and publishing has not created it"
